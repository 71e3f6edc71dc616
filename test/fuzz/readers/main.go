// Reads HTTP/1.1 with Go's net/http: one frame in (length, kind, bytes), one JSON reading out.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
)

type field [2]string

type message struct {
	Start    [2]string `json:"start"`
	Fields   []field   `json:"fields"`
	Body     string    `json:"body"`
	Trailers []field   `json:"trailers"`
}

type reading struct {
	Messages []message `json:"messages"`
	Partial  *message  `json:"partial"`
	End      string    `json:"end"`
	Why      string    `json:"why"`
}

// Longer than any head or trailer section: net/http takes a trailer only if it fits its buffer.
const bufferBytes = 256 * 1024

// latin1 gives each byte a character of its own, as the other readers do.
func latin1(raw string) string {
	runes := make([]rune, len(raw))
	for i := 0; i < len(raw); i++ {
		runes[i] = rune(raw[i])
	}
	return string(runes)
}

// fields lists what net/http kept: canonical names, no order among different ones.
func fields(header http.Header) []field {
	list := []field{}
	for name, values := range header {
		for _, value := range values {
			list = append(list, field{latin1(name), latin1(value)})
		}
	}
	return list
}

func (r *reading) fail(err error, partial *message) {
	r.Partial = partial
	r.Why = latin1(err.Error())
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.End = "incomplete"
	default:
		r.End = "refused"
	}
}

// finish reads the body and the trailers; false: the message did not end.
func (r *reading) finish(m message, body io.ReadCloser, trailer *http.Header) bool {
	content, err := io.ReadAll(body)
	m.Body = latin1(string(content))
	if err != nil {
		r.fail(err, &m)
		return false
	}
	m.Trailers = fields(*trailer)
	r.Messages = append(r.Messages, m)
	return true
}

func readRequests(raw []byte) reading {
	r := reading{Messages: []message{}, End: "clean"}
	in := bufio.NewReaderSize(bytes.NewReader(raw), bufferBytes)
	for {
		request, err := http.ReadRequest(in)
		if err == io.EOF {
			return r
		}
		if err != nil {
			r.fail(err, nil)
			return r
		}
		m := message{Start: [2]string{latin1(request.Method), latin1(request.RequestURI)}}
		// Removed from the map, and kept beside it.
		m.Fields = append(fields(request.Header), field{"Host", latin1(request.Host)})
		if len(request.TransferEncoding) > 0 {
			m.Fields = append(m.Fields, field{"Transfer-Encoding", strings.Join(request.TransferEncoding, ", ")})
		}
		if !r.finish(m, request.Body, &request.Trailer) {
			return r
		}
	}
}

func readResponses(raw []byte, method string) reading {
	r := reading{Messages: []message{}, End: "clean"}
	in := bufio.NewReaderSize(bytes.NewReader(raw), bufferBytes)
	for {
		// ReadResponse takes the end of its input before a head for a broken one.
		if _, err := in.Peek(1); err == io.EOF {
			return r
		}
		response, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			r.fail(err, nil)
			return r
		}
		code, reason, _ := strings.Cut(response.Status, " ")
		m := message{Start: [2]string{code, latin1(reason)}, Fields: fields(response.Header)}
		if len(response.TransferEncoding) > 0 {
			m.Fields = append(m.Fields, field{"Transfer-Encoding", strings.Join(response.TransferEncoding, ", ")})
		}
		if !r.finish(m, response.Body, &response.Trailer) {
			return r
		}
	}
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		var size uint32
		if binary.Read(in, binary.BigEndian, &size) != nil {
			out.Flush()
			return
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(in, frame); err != nil {
			panic(err)
		}
		var r reading
		switch kind, raw := frame[0], frame[1:]; kind {
		case 'q', 'l':
			r = readRequests(raw)
		case 'r':
			r = readResponses(raw, "GET")
		case 'h':
			r = readResponses(raw, "HEAD")
		}
		answer, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		binary.Write(out, binary.BigEndian, uint32(len(answer)))
		out.Write(answer)
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}
