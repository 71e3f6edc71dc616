module trailers

go 1.19
