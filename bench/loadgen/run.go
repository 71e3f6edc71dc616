package main

import (
	"encoding/json"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	warming = iota
	measuring
	stopping
)

// load is one run: its connections, and the phase they are in.
type load struct {
	*options
	phase  atomic.Int32
	issued atomic.Int64
}

// runCommand drives the proxy and prints one line of JSON: rates, latencies in µs and CPU
// in µs a request. It exits 1 if no request succeeded.
func runCommand(args []string) {
	l := &load{options: parseOptions("run", args, nil)}
	proxy, upstream := parsePids(l.pids), parsePids(l.upstreamPids)
	tallies := make([]*tally, l.connections)
	var group sync.WaitGroup
	start := func() {
		for i := range tallies {
			tallies[i] = newTally()
			group.Add(1)
			go func() {
				defer group.Done()
				l.client(i, tallies[i])
			}()
		}
	}
	var before, after reading
	if l.requests > 0 {
		l.phase.Store(measuring)
		before = read(l.options, proxy, upstream)
		// A proxy that answers nothing must not hold it up for a timeout each.
		time.AfterFunc(l.duration, func() { l.phase.Store(stopping) })
		start()
		group.Wait()
		after = read(l.options, proxy, upstream)
	} else {
		start()
		time.Sleep(l.warmUp)
		before = read(l.options, proxy, upstream)
		l.phase.Store(measuring)
		time.Sleep(l.duration)
		l.phase.Store(stopping)
		after = read(l.options, proxy, upstream)
		group.Wait()
	}
	total := newTally()
	for _, one := range tallies {
		total.add(one)
	}
	printJSON(summary(total, before, after))
	if total.done == 0 {
		os.Exit(1)
	}
}

// client is one connection's life: it asks, one request after another, until the run ends.
func (l *load) client(i int, r *tally) {
	buffer := make([]byte, 64<<10)
	interval := time.Duration(0)
	due := time.Now()
	if l.rate > 0 {
		interval = time.Duration(float64(time.Second) * float64(l.connections) / l.rate)
		due = due.Add(interval * time.Duration(i) / time.Duration(l.connections))
	}
	var c *connection
	defer func() {
		if c != nil {
			c.raw.Close()
		}
	}()
	for l.phase.Load() != stopping {
		n := l.issued.Add(1) - 1
		if l.requests > 0 && n >= int64(l.requests) {
			return
		}
		start := time.Now()
		if l.rate > 0 {
			time.Sleep(time.Until(due))
			start = due
			due = due.Add(interval)
		}
		measured := l.phase.Load() == measuring
		if c == nil {
			host := l.host(i)
			if l.close {
				host = l.host(int(n))
			}
			if measured {
				r.dials++
			}
			var err error
			if c, err = l.dial(host); err != nil {
				c = nil
				if l.phase.Load() == stopping {
					return
				}
				r.fail(err, false)
				time.Sleep(2 * time.Millisecond) // a proxy that refuses isn't to be stormed
				continue
			}
		}
		into := r
		if !measured {
			into = nil
		}
		keep, err := l.exchange(c, into, start, buffer)
		if err != nil && l.phase.Load() != stopping {
			r.fail(err, c.used)
		}
		if err != nil || !keep || l.close {
			c.raw.Close()
			c = nil
		}
	}
}

// reading of all meters at one moment.
type reading struct {
	at                    time.Time
	proxy, upstream, busy int64 // ticks
	self                  time.Duration
	opened                int64 // connections that the upstream has accepted
	resident              float64
}

func read(o *options, proxy, upstream []int) reading {
	r := reading{opened: askStats(o.stats).Opened, resident: residentKiB(proxy)}
	r.proxy, r.upstream, r.busy, r.self = cpuTicks(proxy), cpuTicks(upstream), busyTicks(), selfCPU()
	r.at = time.Now()
	return r
}

type upstreamStats struct{ Opened, Open int64 }

func askStats(address string) (stats upstreamStats) {
	if address == "" {
		return stats
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(address)
	if err != nil {
		fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&stats); err != nil {
		fatal(err)
	}
	return stats
}

func summary(total *tally, before, after reading) map[string]any {
	seconds := after.at.Sub(before.at).Seconds()
	perRequest := 1e6 / float64(max(1, total.done))
	proxy := float64(after.proxy-before.proxy) / ticksPerSecond
	upstream := float64(after.upstream-before.upstream) / ticksPerSecond
	self := (after.self - before.self).Seconds()
	busy := float64(after.busy-before.busy) / ticksPerSecond
	q := total.quantiles(.5, .99, .999)
	return map[string]any{
		"requests": total.done, "seconds": round2(seconds), "rps": round2(float64(total.done) / seconds),
		"p50_us": q[0], "p99_us": q[1], "p999_us": q[2],
		"mb_per_s": round2(float64(total.bytes) / seconds / 1e6), "dials": total.dials,
		"upstream_dials": after.opened - before.opened, "wrong": total.wrong, "sample": total.sample,
		"cpu_us": round2(proxy * perRequest), "cpu_share": round2(proxy / seconds),
		"upstream_cpu_us": round2(upstream * perRequest), "client_cpu_us": round2(self * perRequest),
		"other_share":  round2((busy - proxy - upstream - self) / seconds),
		"resident_mib": round2(after.resident / 1024),
	}
}
