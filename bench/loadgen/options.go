package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// options say how a proxy is reached and what is asked through it.
type options struct {
	proxy, proxyCA, ca, target, stats, pids, upstreamPids string
	connections, requests, hosts, body                    int
	duration, warmUp, timeout                             time.Duration
	rate                                                  float64
	close, resume, noConnect                              bool

	proxyURL, targetURL *url.URL
	outerTLS, innerTLS  *tls.Config
	proxyAuthorization  string
	answerSize          int64
	bodyBytes           []byte
}

func parseOptions(name string, args []string, more func(*flag.FlagSet)) *options {
	o := &options{}
	fs := flag.NewFlagSet(name, flag.ExitOnError)
	fs.StringVar(&o.proxy, "proxy", os.Getenv("LOADGEN_PROXY"),
		"https:// or http:// proxy, with user:password@ if it asks; empty: straight to the URL ($LOADGEN_PROXY, which ps doesn't show)")
	fs.StringVar(&o.proxyCA, "proxy-ca", "", "PEM that verifies the proxy's own certificate")
	fs.StringVar(&o.ca, "ca", "", "PEM that verifies what is seen inside the tunnel")
	fs.StringVar(&o.target, "url", "https://upstream.test:9443/", "target; ?size=N asks for N bytes; *.test is dialled at 127.0.0.1")
	fs.StringVar(&o.stats, "stats", "", "the upstream's /stats; empty: not asked")
	fs.StringVar(&o.pids, "pid", "", "pids of the proxy, by comma; their descendants are included")
	fs.StringVar(&o.upstreamPids, "upid", "", "pids of the upstream, to tell what other processes used")
	fs.IntVar(&o.connections, "c", 1, "connections")
	fs.IntVar(&o.requests, "n", 0, "requests in all, or fewer if -d passes first; 0: by time")
	fs.IntVar(&o.hosts, "hosts", 0, "spread over h0.HOST … hN-1.HOST")
	fs.IntVar(&o.body, "body", 0, "POST that many bytes; 0: GET")
	fs.DurationVar(&o.duration, "d", 10*time.Second, "measured time")
	fs.DurationVar(&o.warmUp, "warm", time.Second, "time before that is measured")
	fs.DurationVar(&o.timeout, "timeout", 20*time.Second, "for a request")
	fs.Float64Var(&o.rate, "rate", 0, "requests/s in all, sent by the clock; latency counts from when each was due")
	fs.BoolVar(&o.close, "close", false, "a new connection for each request")
	fs.BoolVar(&o.resume, "resume", false, "resume TLS sessions")
	fs.BoolVar(&o.noConnect, "noconnect", false, "no CONNECT: the inner TLS straight inside the outer one")
	if more != nil {
		more(fs)
	}
	fs.Parse(args)
	o.prepare()
	return o
}

func (o *options) prepare() {
	var err error
	if o.targetURL, err = url.Parse(o.target); err != nil {
		fatal(err)
	}
	if o.proxy != "" {
		if o.proxyURL, err = url.Parse(o.proxy); err != nil {
			fatal("the proxy's URL can't be parsed") // the error would quote it, password and all
		}
		if user := o.proxyURL.User; user != nil {
			password, _ := user.Password()
			pair := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
			o.proxyAuthorization = "Proxy-Authorization: Basic " + pair + "\r\n"
		}
		o.outerTLS = o.clientTLS(o.proxyCA)
		o.outerTLS.ServerName = o.proxyURL.Hostname()
	}
	o.innerTLS = o.clientTLS(o.ca)
	o.innerTLS.NextProtos = []string{"http/1.1"}
	o.answerSize = 1024
	if size := o.targetURL.Query().Get("size"); size != "" {
		if o.answerSize, err = strconv.ParseInt(size, 10, 64); err != nil {
			fatal("size:", err)
		}
	}
	o.bodyBytes = []byte(strings.Repeat("x", o.body))
}

func (o *options) clientTLS(caFile string) *tls.Config {
	config := &tls.Config{CurvePreferences: curves}
	if caFile != "" {
		text, err := os.ReadFile(caFile)
		if err != nil {
			fatal(err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			fatal("no certificate in", caFile)
		}
	}
	if o.resume {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(512)
	}
	return config
}

// host is the i-th name of the target.
func (o *options) host(i int) string {
	if o.hosts == 0 {
		return o.targetURL.Hostname()
	}
	return fmt.Sprintf("h%d.%s", i%o.hosts, o.targetURL.Hostname())
}

// authority of a target host, as CONNECT and Host carry it.
func (o *options) authority(host string) string {
	return net.JoinHostPort(host, portOf(o.targetURL))
}

// dialAddress of a URL's server: names below .test are this machine, as reserved names never resolve.
func dialAddress(u *url.URL) string {
	host := u.Hostname()
	if strings.HasSuffix(host, ".test") || host == "localhost" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, portOf(u))
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
