package main

import (
	"maps"
	"sync"
	"time"
)

// Entries that are kept; the oldest go first.
const kept = 200_000

// Record holds counters and the latest requests.
type Record struct {
	mutex   sync.Mutex
	started time.Time
	current Counters
	entries []*Entry
	number  int64
	flying  int64
}

// Counters since they were last reset.
type Counters struct {
	Requests    map[string]int64 `json:"requests"`
	Operations  map[string]int64 `json:"operations"`
	BytesSent   map[string]int64 `json:"bytes_sent"`
	BytesGot    map[string]int64 `json:"bytes_received"`
	Faults      map[string]int64 `json:"faults"`
	InFlight    int64            `json:"in_flight"`
	InFlightMax int64            `json:"in_flight_max"`
	Dropped     int64            `json:"entries_dropped"`
}

// Entry is one request. A status of 0: no answer, or none yet.
type Entry struct {
	Number    int64   `json:"number"`
	AtS       float64 `json:"at_s"`
	Method    string  `json:"method"`
	Target    string  `json:"target"`
	Operation string  `json:"operation"`
	Range     string  `json:"range"`
	Status    int     `json:"status"`
	BytesSent int64   `json:"bytes_sent"`
	Fault     string  `json:"fault"`

	hasLeft bool
}

func newRecord() *Record {
	record := &Record{started: time.Now()}
	record.resetCounters()
	return record
}

func (record *Record) resetCounters() {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	record.current = Counters{
		Requests: map[string]int64{}, Operations: map[string]int64{}, BytesSent: map[string]int64{},
		BytesGot: map[string]int64{}, Faults: map[string]int64{}, InFlightMax: record.flying,
	}
}

func (record *Record) resetEntries() {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	record.entries = nil
}

func (record *Record) counters() Counters {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	copied := record.current
	copied.Requests = maps.Clone(copied.Requests)
	copied.Operations = maps.Clone(copied.Operations)
	copied.BytesSent = maps.Clone(copied.BytesSent)
	copied.BytesGot = maps.Clone(copied.BytesGot)
	copied.Faults = maps.Clone(copied.Faults)
	copied.InFlight = record.flying
	return copied
}

func (record *Record) list() []Entry {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	copied := make([]Entry, 0, len(record.entries))
	for _, entry := range record.entries {
		copied = append(copied, *entry)
	}
	return copied
}

func (record *Record) enter(asked *asked, byteRange string) *Entry {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	record.number++
	entry := &Entry{
		Number: record.number, AtS: time.Since(record.started).Seconds(), Method: asked.method, Target: asked.target,
		Operation: asked.operation, Range: byteRange,
	}
	if len(record.entries) >= kept {
		record.entries = append([]*Entry(nil), record.entries[kept/2:]...)
		record.current.Dropped += kept / 2
	}
	record.entries = append(record.entries, entry)
	record.current.Requests[asked.method]++
	record.current.Operations[asked.operation]++
	record.flying++
	record.current.InFlightMax = max(record.current.InFlightMax, record.flying)
	return entry
}

// Called right before the last byte: a client that has its whole answer may send the next request at once, and those two are not
// in flight together.
func (record *Record) leave(entry *Entry) {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	if !entry.hasLeft {
		entry.hasLeft = true
		record.flying--
	}
}

func (record *Record) answer(entry *Entry, status int) {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	entry.Status = status
}

func (record *Record) fault(entry *Entry, kind string) {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	entry.Fault = kind
	record.current.Faults[kind]++
}

func (record *Record) sent(entry *Entry, count int64) {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	entry.BytesSent += count
	record.current.BytesSent[entry.Method] += count
}

func (record *Record) received(entry *Entry, count int64) {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	record.current.BytesGot[entry.Method] += count
}
