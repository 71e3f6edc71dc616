// A client that knows nothing of the broker: net/http as it comes, led by the environment alone.
// Usage: client URL...
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func exchange(method, url string) error {
	request, err := http.NewRequest(method, url, strings.NewReader(strings.Repeat("body ", 1000)))
	if err != nil {
		return err
	}
	if strings.Contains(url, "passthrough") {
		request.Header.Set("Authorization", "Bearer the-clients-own")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, method, url, string(body), response.Header)
	return err
}

func main() {
	fmt.Println(strings.Join(os.Environ(), "\n"))
	for _, url := range os.Args[1:] {
		for _, method := range []string{"GET", "POST"} {
			if err := exchange(method, url); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
}
