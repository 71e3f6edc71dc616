package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

const maxAnswer = 64 << 20

// upstreamCommand serves HTTP/1.1 over TLS and in the clear, with keep-alive. An answer
// is ?size bytes (1 KiB), with X-Seen-Auth: ok if the request carried the credential;
// what is posted is read and dropped. /stats tells how many connections there were.
// The first line of output is {"tls":"host:port","plain":"host:port"}.
func upstreamCommand(args []string) {
	fs := flag.NewFlagSet("upstream", flag.ExitOnError)
	tlsAddress := fs.String("tls", "127.0.0.1:0", "TLS listener")
	plainAddress := fs.String("plain", "127.0.0.1:0", "plain listener")
	certs := fs.String("certs", "certs", "directory of upstream.pem and upstream.key")
	expect := fs.String("expect", "SECRET", "the bearer token that every request has to carry")
	fs.Parse(args)

	certificate, err := tls.LoadX509KeyPair(filepath.Join(*certs, "upstream.pem"), filepath.Join(*certs, "upstream.key"))
	if err != nil {
		fatal(err)
	}
	var opened, open atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		// Less the connection that asks.
		fmt.Fprintf(w, `{"opened":%d,"open":%d}`, opened.Add(-1), open.Load()-1)
	})
	mux.HandleFunc("/", answer("Bearer "+*expect))
	server := &http.Server{
		Handler: mux, ErrorLog: log.New(io.Discard, "", 0), IdleTimeout: 10 * time.Minute,
		// An empty map turns HTTP/2 off: the same upstream work for every proxy.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, CurvePreferences: curves,
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				opened.Add(1)
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			}
		},
	}
	tlsListener, err := net.Listen("tcp", *tlsAddress)
	if err != nil {
		fatal(err)
	}
	plainListener, err := net.Listen("tcp", *plainAddress)
	if err != nil {
		fatal(err)
	}
	printJSON(map[string]string{"tls": tlsListener.Addr().String(), "plain": plainListener.Addr().String()})
	go func() { fatal(server.Serve(plainListener)) }()
	fatal(server.ServeTLS(tlsListener, "", ""))
}

func answer(credential string) http.HandlerFunc {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = 'a' + byte(i%26)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		if seen := r.Header["Authorization"]; len(seen) != 1 || seen[0] != credential {
			header.Set("X-Seen-Auth", "bad")
			http.Error(w, "the credential is missing or wrong", http.StatusUnauthorized)
			return
		}
		header["X-Seen-Auth"] = []string{"ok"}
		if r.Method == http.MethodPost {
			io.Copy(io.Discard, r.Body)
		}
		size := 1024
		// Without a query, the common case, nothing is parsed.
		if r.URL.RawQuery != "" {
			var err error
			if size, err = strconv.Atoi(r.URL.Query().Get("size")); err != nil || size < 0 || size > maxAnswer {
				http.Error(w, "size has to be 0 to 64 MiB", http.StatusBadRequest)
				return
			}
		}
		header["Content-Type"] = []string{"application/octet-stream"}
		header["Content-Length"] = []string{strconv.Itoa(size)}
		for left := size; left > 0; {
			n := min(left, len(block))
			if _, err := w.Write(block[:n]); err != nil {
				return
			}
			left -= n
		}
	}
}
