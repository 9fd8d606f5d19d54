package main

import (
	"encoding/json"
	"net/http"
)

// PUT /faults sets a JSON list of faults in place of those before it, and GET /faults tells how often each was given.
// GET /counters and GET /requests tell what passed; DELETE on either starts it anew.
func controlHandler(rules *Rules, record *Record) http.Handler {
	paths := http.NewServeMux()
	paths.HandleFunc("PUT /faults", func(writer http.ResponseWriter, request *http.Request) {
		var faults []Fault
		decoder := json.NewDecoder(request.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&faults)
		if err == nil {
			err = rules.set(faults)
		}
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		tell(writer, rules.given())
	})
	paths.HandleFunc("GET /faults", func(writer http.ResponseWriter, _ *http.Request) { tell(writer, rules.given()) })
	paths.HandleFunc("GET /counters", func(writer http.ResponseWriter, _ *http.Request) { tell(writer, record.counters()) })
	paths.HandleFunc("DELETE /counters", func(writer http.ResponseWriter, _ *http.Request) { record.resetCounters() })
	paths.HandleFunc("GET /requests", func(writer http.ResponseWriter, _ *http.Request) { tell(writer, record.list()) })
	paths.HandleFunc("DELETE /requests", func(writer http.ResponseWriter, _ *http.Request) { record.resetEntries() })
	return paths
}

func tell(writer http.ResponseWriter, value any) {
	writer.Header().Set("Content-Type", "application/json")
	// A client that went away needs no answer.
	_ = json.NewEncoder(writer).Encode(value)
}
