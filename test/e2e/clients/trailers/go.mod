module trailers

go 1.21
