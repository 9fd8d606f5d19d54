// An HTTP/1.1 proxy that spoils answers on request. It stands between a client of S3 and its server, in tests and in benchmarks.
//
// Requests pass unchanged, the Host header too, because signatures cover it. Faults come by a second port (control.go), so that no
// object can be taken for a command. What a client has seen of an answer is counted before it can see it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	upstream := flag.String("upstream", "", "address of the server, as 127.0.0.1:9000")
	flag.Parse()
	if err := serve(*upstream); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(upstream string) error {
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	record := newRecord()
	rules := newRules()
	failed := make(chan error, 2)
	go func() { failed <- http.Serve(control, controlHandler(rules, record)) }()
	go func() { failed <- http.Serve(data, newProxy(upstream, rules, record)) }()
	addresses := map[string]string{"data": data.Addr().String(), "control": control.Addr().String()}
	if err := json.NewEncoder(os.Stdout).Encode(addresses); err != nil {
		return err
	}
	return <-failed
}
