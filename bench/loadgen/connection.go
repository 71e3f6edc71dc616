package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// connection is one of a client's, through the proxy and up to the inner TLS.
type connection struct {
	raw     net.Conn
	stream  net.Conn
	reader  *bufio.Reader
	request []byte
	used    bool
}

// failure says at which step a request failed; they are counted by it.
type failure struct {
	step string
	err  error
}

func (f *failure) Error() string { return f.step + ": " + f.err.Error() }

func failed(step string, err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		step += " timeout"
	}
	return &failure{step, err}
}

func (o *options) dial(host string) (*connection, error) {
	server := o.proxyURL
	if server == nil {
		server = o.targetURL
	}
	raw, err := net.DialTimeout("tcp", dialAddress(server), o.timeout)
	if err != nil {
		return nil, failed("dial", err)
	}
	raw.SetDeadline(time.Now().Add(o.timeout))
	c := &connection{raw: raw, stream: raw}
	if err := o.open(c, host); err != nil {
		raw.Close()
		return nil, err
	}
	c.reader = bufio.NewReaderSize(c.stream, 16<<10)
	return c, nil
}

// open does all that comes before the first request: the proxy's TLS, CONNECT, the inner TLS.
func (o *options) open(c *connection, host string) error {
	absolute := o.proxyURL != nil && o.targetURL.Scheme == "http"
	if o.proxyURL != nil && o.proxyURL.Scheme == "https" {
		if err := c.startTLS("TLS with the proxy", o.outerTLS); err != nil {
			return err
		}
	}
	if absolute {
		c.request = o.build("http://"+o.authority(host)+o.targetURL.RequestURI(), o.proxyAuthorization, host)
		return nil
	}
	if o.proxyURL != nil && !o.noConnect {
		if err := o.connect(c, host); err != nil {
			return err
		}
	}
	if o.targetURL.Scheme == "https" {
		config := o.innerTLS.Clone()
		config.ServerName = host
		if err := c.startTLS("TLS in the tunnel", config); err != nil {
			return err
		}
	}
	c.request = o.build(o.targetURL.RequestURI(), "", host)
	return nil
}

func (c *connection) startTLS(step string, config *tls.Config) error {
	client := tls.Client(c.stream, config)
	if err := client.Handshake(); err != nil {
		return failed(step, err)
	}
	c.stream = client
	return nil
}

func (o *options) connect(c *connection, host string) error {
	authority := o.authority(host)
	head := "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n" + o.proxyAuthorization + "\r\n"
	if _, err := io.WriteString(c.stream, head); err != nil {
		return failed("CONNECT", err)
	}
	reader := bufio.NewReader(c.stream)
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return failed("CONNECT", err)
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return failed(fmt.Sprintf("CONNECT %d", response.StatusCode), errors.New(string(text)))
	}
	if reader.Buffered() > 0 {
		return failed("CONNECT", errors.New("bytes after the answer"))
	}
	return nil
}

func (o *options) build(target, extra, host string) []byte {
	method, length := "GET", ""
	if o.body > 0 {
		method, length = "POST", fmt.Sprintf("Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", o.body)
	}
	var head strings.Builder
	head.WriteString(method + " " + target + " HTTP/1.1\r\nHost: " + o.authority(host) + "\r\n")
	head.WriteString("User-Agent: bench/1\r\nAccept: */*\r\n" + extra + length + "\r\n")
	return append([]byte(head.String()), o.bodyBytes...)
}

// exchange sends the request and reads the whole answer into r, if that is to be measured.
// A status other than 200 is counted and is no error. keep: the connection can go on.
func (o *options) exchange(c *connection, r *tally, start time.Time, buffer []byte) (keep bool, err error) {
	c.raw.SetDeadline(time.Now().Add(o.timeout))
	if _, err := c.stream.Write(c.request); err != nil {
		return false, failed("write", err)
	}
	response, err := http.ReadResponse(c.reader, nil) // nil: an answer to GET; to POST it is the same
	if err != nil {
		return false, failed("response head", err)
	}
	var size int64
	for {
		n, err := response.Body.Read(buffer)
		size += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, failed("response body", err)
		}
	}
	c.used = true
	if r != nil {
		r.answered(response, size, o.answerSize, time.Since(start))
	}
	return !response.Close, nil
}
