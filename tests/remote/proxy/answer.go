package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

var buffers = sync.Pool{New: func() any { return new([moved]byte) }}

// Sends the server's answer, spoiled where that was drawn.
func (passage *passage) send(answer *http.Response) {
	fault := passage.bodyFault(answer)
	header := passage.writer.Header()
	for name, values := range answer.Header {
		if !slices.Contains(hopHeaders, name) {
			header[name] = values
		}
	}
	for _, name := range []string{"Content-Type", "Date"} {
		if _, isGiven := header[name]; !isGiven {
			header[name] = nil
		}
	}
	passage.proxy.record.answer(passage.entry, answer.StatusCode)
	body := io.Reader(answer.Body)
	length := answer.ContentLength
	if fault != nil {
		at := int64(fault.random % uint64(length))
		switch fault.fault.Kind {
		case kindCut, kindStall:
			length = valueOr(fault.fault.AfterBytes, at)
			body = io.LimitReader(body, length)
		case kindFlip:
			body = &flippedBody{reader: body, left: valueOr(fault.fault.Position, at)}
		case kindLength:
			declared := max(0, length+fault.fault.Difference)
			header.Set("Content-Length", strconv.FormatInt(declared, 10))
			if declared < length {
				passage.sendTooMuch(answer.StatusCode, body)
				return
			}
		}
	}
	if length <= 0 || passage.request.Method == http.MethodHead {
		passage.proxy.record.leave(passage.entry)
	}
	passage.writer.WriteHeader(answer.StatusCode)
	if answer.ContentLength < 0 {
		// Else net/http counts a short body and gives it a length.
		passage.flush()
	}
	if err := passage.move(passage.writer, body, length); err != nil {
		panic(http.ErrAbortHandler)
	}
	if fault != nil {
		switch fault.fault.Kind {
		case kindCut, kindLength:
			passage.end(fault.fault.Reset)
		case kindStall:
			passage.hold(fault.fault)
		}
	}
}

// The fault of the body, where it can be given: one past the end of a body goes back to its rule.
func (passage *passage) bodyFault(answer *http.Response) *given {
	fault := passage.drawn.fault
	if passage.drawn.bytesPerS > 0 && answer.ContentLength != 0 {
		passage.proxy.record.fault(passage.entry, kindSlow)
	}
	if fault == nil || fault.fault.Kind == kindForget {
		return nil
	}
	if answer.ContentLength < 0 && passage.request.Method != http.MethodHead {
		if body, err := io.ReadAll(answer.Body); err == nil {
			replace(answer, body)
		}
	}
	place := int64(0)
	switch fault.fault.Kind {
	case kindCut, kindStall:
		place = valueOr(fault.fault.AfterBytes, 0)
	case kindFlip:
		place = valueOr(fault.fault.Position, 0)
	}
	if passage.request.Method == http.MethodHead || place < 0 || place >= answer.ContentLength {
		passage.proxy.rules.refund(fault)
		return nil
	}
	passage.proxy.record.fault(passage.entry, fault.fault.Kind)
	return fault
}

// Moves a body of a known length, or of -1, with the speed that was drawn.
func (passage *passage) move(writer io.Writer, body io.Reader, length int64) error {
	buffer := buffers.Get().(*[moved]byte)
	defer buffers.Put(buffer)
	step := buffer[:]
	speed := passage.drawn.bytesPerS
	if speed > 0 {
		step = step[:int(math.Max(1, math.Min(moved, speed/50)))]
	}
	started := time.Now()
	total := int64(0)
	for {
		count, err := body.Read(step)
		if count > 0 {
			total += int64(count)
			passage.proxy.record.sent(passage.entry, int64(count))
			if speed > 0 {
				passage.wait(time.Until(started.Add(seconds(float64(total) / speed))))
			}
			if total == length {
				passage.proxy.record.leave(passage.entry)
			}
			written, failure := writer.Write(step[:count])
			if failure != nil {
				passage.proxy.record.sent(passage.entry, int64(written-count))
				return failure
			}
			if speed > 0 {
				passage.flush()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A body longer than its header says, which net/http would refuse to send.
func (passage *passage) sendTooMuch(status int, body io.Reader) {
	header := passage.writer.Header()
	header.Set("Connection", "close")
	connection, err := passage.hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = header.Write(&head)
	head.WriteString("\r\n")
	if _, err := connection.Write(head.Bytes()); err == nil {
		_ = passage.move(connection, body, -1)
	}
}

func (passage *passage) sendError(fault *Fault) {
	body := xml.Header + "<Error><Code>" + escaped(fault.Code) + "</Code><Message>" + escaped(fault.Message) + "</Message><Resource>" +
		escaped(passage.request.URL.Path) + "</Resource><RequestId>" + strconv.FormatInt(passage.entry.Number, 10) + "</RequestId></Error>"
	header := passage.writer.Header()
	header.Set("Content-Type", "application/xml")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if fault.RetryAfterS != nil {
		header.Set("Retry-After", strconv.Itoa(*fault.RetryAfterS))
	}
	passage.proxy.record.answer(passage.entry, fault.Status)
	passage.proxy.record.leave(passage.entry)
	passage.writer.WriteHeader(fault.Status)
	if passage.request.Method != http.MethodHead {
		passage.proxy.record.sent(passage.entry, int64(len(body)))
		_, _ = io.WriteString(passage.writer, body)
	}
}

// Keeps a connection open and silent.
func (passage *passage) hold(fault *Fault) {
	passage.flush()
	duration := seconds(fault.DurationS)
	if duration <= 0 {
		duration = math.MaxInt64
	}
	passage.wait(duration)
	passage.end(fault.Reset)
}

// Ends the connection, whatever was promised on it.
func (passage *passage) end(reset bool) {
	passage.flush()
	passage.proxy.record.leave(passage.entry)
	if !reset {
		panic(http.ErrAbortHandler)
	}
	connection, err := passage.hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if stream, isStream := connection.(*net.TCPConn); isStream {
		_ = stream.SetLinger(0)
	}
	connection.Close()
}

func (passage *passage) hijack() (net.Conn, error) {
	connection, _, err := http.NewResponseController(passage.writer).Hijack()
	return connection, err
}

// Without an answer begun there is nothing to flush, and net/http would begin one.
func (passage *passage) flush() {
	if passage.entry.Status != 0 {
		_ = http.NewResponseController(passage.writer).Flush()
	}
}

func replace(answer *http.Response, body []byte) {
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

func escaped(text string) string {
	var result bytes.Buffer
	_ = xml.EscapeText(&result, []byte(text))
	return result.String()
}

func valueOr(value *int64, other int64) int64 {
	if value == nil {
		return other
	}
	return *value
}

// Turns all bits of the byte that comes after left others.
type flippedBody struct {
	reader io.Reader
	left   int64
}

func (body *flippedBody) Read(buffer []byte) (int, error) {
	count, err := body.reader.Read(buffer)
	if body.left >= 0 && body.left < int64(count) {
		buffer[body.left] ^= 0xff
	}
	body.left -= int64(count)
	return count, err
}
