package main

import (
	"flag"
	"sync"
	"sync/atomic"
	"time"
)

// idleCommand opens tunnels, asks once on each, leaves them alone, and prints by how much
// the proxy's memory grew: one line of JSON, memory in KiB. At the end each is asked
// again: if any is closed by then, there is no figure.
func idleCommand(args []string) {
	var settle time.Duration
	o := parseOptions("idle", args, func(fs *flag.FlagSet) {
		fs.DurationVar(&settle, "settle", 3*time.Second, "wait before memory is read")
	})
	if o.requests == 0 {
		o.requests = 1000
	}
	roots := parsePids(o.pids)
	before := residentKiB(roots)
	total := newTally()
	tunnels := make([]*connection, o.requests)
	each := func(body func(i int, r *tally) error) {
		var mutex sync.Mutex
		var group sync.WaitGroup
		var next atomic.Int64
		for range o.connections {
			group.Add(1)
			go func() {
				defer group.Done()
				r := newTally()
				for i := int(next.Add(1)) - 1; i < len(tunnels); i = int(next.Add(1)) - 1 {
					if err := body(i, r); err != nil {
						r.fail(err, tunnels[i] != nil)
					}
				}
				mutex.Lock()
				defer mutex.Unlock()
				total.add(r)
			}()
		}
		group.Wait()
	}
	ask := func(i int, r *tally) error {
		_, err := o.exchange(tunnels[i], r, time.Now(), make([]byte, 4<<10))
		return err
	}
	each(func(i int, r *tally) error {
		c, err := o.dial(o.host(i))
		if err != nil {
			return err
		}
		tunnels[i] = c
		return ask(i, r)
	})
	opened := total.done
	time.Sleep(settle)
	after := residentKiB(roots)
	cpu := cpuTicks(roots)
	time.Sleep(2 * time.Second)
	idleShare := float64(cpuTicks(roots)-cpu) / ticksPerSecond / 2
	upstreamOpen := askStats(o.stats).Open
	each(func(i int, r *tally) error {
		if tunnels[i] == nil {
			return nil
		}
		return ask(i, r)
	})
	alive := total.done - opened
	result := map[string]any{
		"tunnels": opened, "alive": alive, "wrong": total.wrong, "sample": total.sample,
		"cpu_share": round2(idleShare), "resident_mib": round2(after / 1024), "upstream_open": upstreamOpen,
	}
	// Memory of tunnels that the proxy had closed by then would say nothing.
	if opened == int64(len(tunnels)) && alive == opened {
		result["kib_per_tunnel"] = round2((after - before) / float64(opened))
	}
	printJSON(result)
}
