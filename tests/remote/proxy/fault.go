package main

import (
	"fmt"
	"regexp"
	"slices"
)

// Kinds of faults. The first three are conditions: all that fit a request hold at once, beside one of the others.
const (
	kindLatency = "latency" // delay_s passes before the first byte of the answer
	kindSlow    = "slow"    // the body comes with bytes_per_s
	kindLag     = "lag"     // listings lack objects that were put less than lag_s ago, counted from when the fault was set
	kindError   = "error"   // an error document of S3 with status, code, retry_after_s; applied: after the server did what was asked
	kindLost    = "lost"    // the connection ends without an answer; applied as above
	kindSilent  = "silent"  // nothing comes and the connection stays, for duration_s or until the client goes
	kindCut     = "cut"     // the connection ends after_bytes into the body
	kindStall   = "stall"   // the body stops after_bytes in and the connection stays
	kindLength  = "length"  // Content-Length says difference more than is there, or less
	kindFlip    = "flip"    // the byte at position has all its bits turned
	kindForget  = "forget"  // If-None-Match is taken off, as by a store that does not know it; the request is signed anew with secret_key
	kindMix     = "mix"     // one of faults, drawn for each request
)

var conditions = []string{kindLatency, kindSlow, kindLag}
var bodyKinds = []string{kindCut, kindStall, kindLength, kindFlip}
var kinds = append(append([]string{kindError, kindLost, kindSilent, kindForget, kindMix}, conditions...), bodyKinds...)

// Fault as it is sent to the control port. A field that its kind does not name is ignored.
type Fault struct {
	Kind string `json:"kind"`

	// Which requests: all that are given must fit. Target is a regular expression over path and query as they were sent.
	Methods    []string `json:"methods"`
	Operations []string `json:"operations"`
	Target     string   `json:"target"`

	// How often: after skip fitting requests, each with a probability, until count were spoiled. A count of 0 has no end.
	Skip        int      `json:"skip"`
	Count       int      `json:"count"`
	Probability *float64 `json:"probability"`
	Seed        uint64   `json:"seed"`

	DelayS      float64 `json:"delay_s"`
	BytesPerS   float64 `json:"bytes_per_s"`
	LagS        float64 `json:"lag_s"`
	Status      int     `json:"status"`
	Code        string  `json:"code"`
	Message     string  `json:"message"`
	RetryAfterS *int    `json:"retry_after_s"`
	Applied     bool    `json:"applied"`
	// Ends a connection by RST, which a client sees as an error and not as an end.
	Reset     bool    `json:"reset"`
	DurationS float64 `json:"duration_s"`
	// Without a value: drawn from the seed, anywhere in the body.
	AfterBytes *int64 `json:"after_bytes"`
	Position   *int64 `json:"position"`
	Difference int64  `json:"difference"`

	SecretKey  string `json:"secret_key"`

	Faults []Fault `json:"faults"`

	target *regexp.Regexp
}

// Checks a fault before anything depends on it.
func (fault *Fault) prepare() error {
	if !slices.Contains(kinds, fault.Kind) {
		return fmt.Errorf("no fault is called %q; there are %v", fault.Kind, kinds)
	}
	compiled, err := regexp.Compile(fault.Target)
	if err != nil {
		return fmt.Errorf("target of %s: %w", fault.Kind, err)
	}
	fault.target = compiled
	if probability := fault.Probability; probability != nil && (*probability < 0 || *probability > 1) {
		return fmt.Errorf("%s has a probability of %v", fault.Kind, *probability)
	}
	switch {
	case fault.Kind == kindSlow && fault.BytesPerS <= 0:
		return fmt.Errorf("slow needs bytes_per_s above 0")
	case fault.Kind == kindError && (fault.Status < 300 || fault.Status > 599):
		return fmt.Errorf("error needs a status of 300 to 599, not %d", fault.Status)
	case fault.Kind == kindLength && fault.Difference == 0:
		return fmt.Errorf("length needs a difference")
	case fault.Kind == kindForget && fault.SecretKey == "":
		return fmt.Errorf("forget needs a secret_key")
	case fault.Kind == kindMix && len(fault.Faults) == 0:
		return fmt.Errorf("mix needs faults")
	}
	for number := range fault.Faults {
		inner := &fault.Faults[number]
		if inner.Kind == kindMix || slices.Contains(conditions, inner.Kind) {
			return fmt.Errorf("%s cannot stand in a mix", inner.Kind)
		}
		if err := inner.prepare(); err != nil {
			return err
		}
	}
	return nil
}

func (fault *Fault) fits(asked *asked) bool {
	return (len(fault.Methods) == 0 || slices.Contains(fault.Methods, asked.method)) &&
		(len(fault.Operations) == 0 || slices.Contains(fault.Operations, asked.operation)) &&
		fault.target.MatchString(asked.target)
}
