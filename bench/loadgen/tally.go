package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// tally is what one connection, and at last all of them, saw.
type tally struct {
	latencies []int64 // nanoseconds
	done      int64
	bytes     int64
	dials     int64
	// wrong counts what failed or wasn't the answer expected, by kind; sample holds one text of each.
	wrong  map[string]int64
	sample map[string]string
}

func newTally() *tally {
	return &tally{wrong: map[string]int64{}, sample: map[string]string{}}
}

func (r *tally) answered(response *http.Response, size, expected int64, latency time.Duration) {
	r.bytes += size
	if response.StatusCode != http.StatusOK {
		r.count(fmt.Sprintf("status %d", response.StatusCode), response.Header.Get("X-Broker-Error"))
		return
	}
	if seen := response.Header["X-Seen-Auth"]; len(seen) != 1 || seen[0] != "ok" {
		r.count("credential not seen", "")
		return
	}
	if size != expected {
		r.count("size", fmt.Sprintf("%d bytes, not %d", size, expected))
		return
	}
	r.done++
	r.latencies = append(r.latencies, latency.Nanoseconds())
}

func (r *tally) fail(err error, reused bool) {
	kind := "other"
	var f *failure
	if errors.As(err, &f) {
		kind = f.step
	}
	if reused {
		kind += " (reused connection)"
	}
	r.count(kind, err.Error())
}

func (r *tally) count(kind, text string) {
	r.wrong[kind]++
	if r.sample[kind] == "" {
		r.sample[kind] = text[:min(len(text), 200)]
	}
}

func (r *tally) add(other *tally) {
	r.latencies = append(r.latencies, other.latencies...)
	r.done += other.done
	r.bytes += other.bytes
	r.dials += other.dials
	for kind, n := range other.wrong {
		r.wrong[kind] += n
		if r.sample[kind] == "" {
			r.sample[kind] = other.sample[kind]
		}
	}
}

// quantiles in microseconds.
func (r *tally) quantiles(at ...float64) []float64 {
	slices.Sort(r.latencies)
	found := make([]float64, len(at))
	for i, p := range at {
		if n := len(r.latencies); n > 0 {
			found[i] = float64(r.latencies[min(int(p*float64(n)), n-1)]/100) / 10
		}
	}
	return found
}
