package main

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Rules are the faults that are set now, and how often each was given.
type Rules struct {
	mutex sync.Mutex
	rules []*rule
	// Closed when other faults are set, which ends what is being held.
	replaced chan struct{}
}

type rule struct {
	fault     Fault
	generator *rand.Rand
	seen      int
	given     int
}

// One fault for one request.
type given struct {
	fault  *Fault
	random uint64
	rule   *rule
}

// What becomes of one request.
type drawn struct {
	delay     time.Duration
	bytesPerS float64
	lag       time.Duration
	fault     *given
	replaced  chan struct{}
}

func newRules() *Rules {
	return &Rules{replaced: make(chan struct{})}
}

func (rules *Rules) set(faults []Fault) error {
	made := make([]*rule, 0, len(faults))
	for _, fault := range faults {
		if err := fault.prepare(); err != nil {
			return err
		}
		made = append(made, &rule{fault: fault, generator: rand.New(rand.NewPCG(fault.Seed, 0))})
	}
	rules.mutex.Lock()
	defer rules.mutex.Unlock()
	rules.rules = made
	close(rules.replaced)
	rules.replaced = make(chan struct{})
	return nil
}

// How often each of the faults was given, in the order in which they were set.
func (rules *Rules) given() []int {
	rules.mutex.Lock()
	defer rules.mutex.Unlock()
	counts := make([]int, 0, len(rules.rules))
	for _, rule := range rules.rules {
		counts = append(counts, rule.given)
	}
	return counts
}

func (rules *Rules) draw(asked *asked) drawn {
	rules.mutex.Lock()
	defer rules.mutex.Unlock()
	result := drawn{replaced: rules.replaced}
	for _, rule := range rules.rules {
		isCondition := slices.Contains(conditions, rule.fault.Kind)
		if !isCondition && result.fault != nil {
			continue
		}
		fault := rule.draw(asked)
		if fault == nil {
			continue
		}
		switch fault.Kind {
		case kindLatency:
			result.delay += seconds(fault.DelayS)
		case kindSlow:
			result.bytesPerS = fault.BytesPerS
		case kindLag:
			result.lag = max(result.lag, seconds(fault.LagS))
		default:
			result.fault = &given{fault: fault, random: rule.generator.Uint64(), rule: rule}
		}
	}
	return result
}

// Gives a fault back that could not be given, as a cut past the end of a body; the next request may get it.
func (rules *Rules) refund(given *given) {
	rules.mutex.Lock()
	defer rules.mutex.Unlock()
	given.rule.given--
}

func (rules *Rules) anyLag() bool {
	rules.mutex.Lock()
	defer rules.mutex.Unlock()
	return slices.ContainsFunc(rules.rules, func(rule *rule) bool { return rule.fault.Kind == kindLag })
}

func (rule *rule) draw(asked *asked) *Fault {
	if rule.fault.Count > 0 && rule.given >= rule.fault.Count || !rule.fault.fits(asked) {
		return nil
	}
	rule.seen++
	if rule.seen <= rule.fault.Skip {
		return nil
	}
	if probability := rule.fault.Probability; probability != nil && rule.generator.Float64() >= *probability {
		return nil
	}
	fault := &rule.fault
	if fault.Kind == kindMix {
		fitting := make([]*Fault, 0, len(fault.Faults))
		for number := range fault.Faults {
			if inner := &fault.Faults[number]; inner.fits(asked) {
				fitting = append(fitting, inner)
			}
		}
		if len(fitting) == 0 {
			return nil
		}
		fault = fitting[rule.generator.IntN(len(fitting))]
	}
	rule.given++
	return fault
}

func seconds(value float64) time.Duration {
	return time.Duration(value * float64(time.Second))
}
