// loadgen makes what is measured with: certificates, an upstream, and load on
// forward proxies that intercept TLS and put a credential in. Loopback only.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string){
		"certs": certsCommand, "upstream": upstreamCommand, "run": runCommand, "idle": idleCommand,
	}
	if len(os.Args) > 1 {
		if command, ok := commands[os.Args[1]]; ok {
			command(os.Args[2:])
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: loadgen certs|upstream|run|idle [flags]   (-h on each)")
	os.Exit(2)
}

func fatal(a ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"loadgen:"}, a...)...)
	os.Exit(1)
}

// printJSON writes one line, the whole result of a command.
func printJSON(v any) {
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		fatal(err)
	}
}

// round2 keeps two decimals, so that results stay readable.
func round2(f float64) float64 { return float64(int64(f*100+0.5)) / 100 }
