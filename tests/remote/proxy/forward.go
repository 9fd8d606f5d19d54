package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Headers that speak of one connection, and not of the message.
var hopHeaders = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// What one read and one write may move.
const moved = 256 << 10

// Proxy hands requests to the server behind it.
type Proxy struct {
	upstream  string
	transport *http.Transport
	rules     *Rules
	record    *Record
	fresh     *Fresh
}

// One request on its way.
type passage struct {
	proxy   *Proxy
	writer  http.ResponseWriter
	request *http.Request
	asked   *asked
	entry   *Entry
	drawn   drawn
}

func newProxy(upstream string, rules *Rules, record *Record) *Proxy {
	return &Proxy{
		upstream: upstream,
		transport: &http.Transport{
			MaxIdleConnsPerHost:   1024,
			DisableCompression:    true,
			ExpectContinueTimeout: time.Minute,
			WriteBufferSize:       moved,
		},
		rules:  rules,
		record: record,
		fresh:  newFresh(),
	}
}

func (proxy *Proxy) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	asked := newAsked(request)
	entry := proxy.record.enter(asked, request.Header.Get("Range"))
	defer proxy.record.leave(entry)
	// Else net/http closes the request's body when an answer begins. The transport may still be looking for the end of that body,
	// and would take the connection to the server down with the rest of its answer.
	_ = http.NewResponseController(writer).EnableFullDuplex()
	passage := &passage{proxy, writer, request, asked, entry, proxy.rules.draw(asked)}
	if passage.drawn.delay > 0 {
		proxy.record.fault(entry, kindLatency)
	}
	fault := passage.drawn.fault
	if fault == nil {
		passage.forward()
		return
	}
	switch fault.fault.Kind {
	case kindError, kindLost, kindSilent:
		passage.instead(fault.fault)
	default:
		passage.forward()
	}
}

// What comes in place of an answer.
func (passage *passage) instead(fault *Fault) {
	if fault.Applied {
		answer, err := passage.ask()
		if err != nil {
			passage.fail(err)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	} else if passage.request.Header.Get("Expect") == "" || fault.Kind == kindSilent {
		// Else the client would see its own upload break in place of the fault; and while a body waits, nobody sees it go.
		count, _ := io.Copy(io.Discard, passage.request.Body)
		passage.proxy.record.received(passage.entry, count)
	}
	passage.wait(passage.drawn.delay)
	passage.proxy.record.fault(passage.entry, fault.Kind)
	switch fault.Kind {
	case kindError:
		passage.sendError(fault)
	case kindLost:
		passage.end(fault.Reset)
	default:
		passage.hold(fault)
	}
}

func (passage *passage) forward() {
	answer, err := passage.ask()
	if err != nil {
		passage.fail(err)
		return
	}
	defer answer.Body.Close()
	if passage.drawn.lag > 0 && passage.asked.operation == "ListObjectsV2" && answer.StatusCode == http.StatusOK {
		if err := passage.lag(answer); err != nil {
			passage.fail(err)
			return
		}
	}
	passage.wait(passage.drawn.delay)
	passage.send(answer)
}

// The server's answer.
func (passage *passage) ask() (*http.Response, error) {
	request := passage.request
	// As it was sent: the signature covers this spelling.
	path, query, isAsked := strings.Cut(request.RequestURI, "?")
	target := &url.URL{Scheme: "http", Host: passage.proxy.upstream, Opaque: path, RawQuery: query, ForceQuery: isAsked}
	header := request.Header.Clone()
	for _, name := range hopHeaders {
		header.Del(name)
	}
	if _, isGiven := header["User-Agent"]; !isGiven {
		header["User-Agent"] = nil
	}
	if given := passage.drawn.fault; given != nil && given.fault.Kind == kindForget && header.Get(condition) != "" {
		passage.proxy.record.fault(passage.entry, kindForget)
		header = unconditional(request, header, given.fault.SecretKey)
	}
	outgoing := (&http.Request{
		Method:        request.Method,
		URL:           target,
		Host:          request.Host,
		Header:        header,
		ContentLength: request.ContentLength,
	}).WithContext(request.Context())
	if request.ContentLength != 0 {
		outgoing.Body = &countedBody{request.Body, passage}
	}
	answer, err := passage.proxy.transport.RoundTrip(outgoing)
	if err == nil && passage.proxy.rules.anyLag() {
		passage.proxy.fresh.note(passage.asked, answer.StatusCode)
	}
	return answer, err
}

// Takes out of a listing what is too new for it.
func (passage *passage) lag(answer *http.Response) error {
	listing, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	listing, isChanged := passage.proxy.fresh.without(listing, passage.asked.bucket, passage.drawn.lag)
	if isChanged {
		passage.proxy.record.fault(passage.entry, kindLag)
	}
	replace(answer, listing)
	return nil
}

// The server is gone, or the client.
func (passage *passage) fail(err error) {
	if errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler)
	}
	passage.proxy.record.answer(passage.entry, http.StatusBadGateway)
	http.Error(passage.writer, "the proxy got no answer: "+err.Error(), http.StatusBadGateway)
}

// Sleeps, unless the client goes or other faults are set.
func (passage *passage) wait(duration time.Duration) {
	if duration <= 0 {
		return
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-passage.request.Context().Done():
	case <-passage.drawn.replaced:
	}
}

type countedBody struct {
	io.ReadCloser
	passage *passage
}

func (body *countedBody) Read(buffer []byte) (int, error) {
	count, err := body.ReadCloser.Read(buffer)
	body.passage.proxy.record.received(body.passage.entry, int64(count))
	return count, err
}
