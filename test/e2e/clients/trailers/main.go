// A client that knows nothing of the broker: sends a body in chunks with a trailer behind it, and prints the trailer of
// the answer. Usage: trailers URL, led by HTTPS_PROXY and SSL_CERT_FILE.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	// Of a length that net/http can't know.
	body := io.MultiReader(strings.NewReader("one "), strings.NewReader("two"))
	request, err := http.NewRequest("POST", os.Args[1], body)
	if err != nil {
		log.Fatal(err)
	}
	request.Trailer = http.Header{"X-Sum": {"of the request"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d %s; X-Sum: %s\n", response.StatusCode, content, response.Trailer.Get("X-Sum"))
}
