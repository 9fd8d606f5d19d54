package main

import (
	"bytes"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"
)

var (
	contents = regexp.MustCompile(`(?s)<Contents>.*?</Contents>`)
	keyOf    = regexp.MustCompile(`(?s)<Key>(.*?)</Key>`)
	keyCount = regexp.MustCompile(`<KeyCount>\d+</KeyCount>`)
	isURL    = regexp.MustCompile(`<EncodingType>url</EncodingType>`)
)

// Fresh remembers when objects were put, while listings lag.
type Fresh struct {
	mutex sync.Mutex
	put   map[string]time.Time
}

func newFresh() *Fresh {
	return &Fresh{put: map[string]time.Time{}}
}

func (fresh *Fresh) note(asked *asked, status int) {
	if status >= http.StatusMultipleChoices {
		return
	}
	switch asked.operation {
	case "PutObject", "CopyObject", "CompleteMultipartUpload":
		fresh.mutex.Lock()
		defer fresh.mutex.Unlock()
		fresh.put[asked.bucket+"/"+asked.key] = time.Now()
	}
}

// A listing without what is too new for it, and whether it lacks anything now.
func (fresh *Fresh) without(listing []byte, bucket string, lag time.Duration) ([]byte, bool) {
	isEncoded := isURL.Match(listing)
	fresh.mutex.Lock()
	defer fresh.mutex.Unlock()
	dropped := 0
	kept := contents.ReplaceAllFunc(listing, func(entry []byte) []byte {
		found := keyOf.FindSubmatch(entry)
		if found == nil {
			return entry
		}
		key := html.UnescapeString(string(found[1]))
		if isEncoded {
			if decoded, err := url.QueryUnescape(key); err == nil {
				key = decoded
			}
		}
		put, isKnown := fresh.put[bucket+"/"+key]
		if !isKnown || time.Since(put) >= lag {
			return entry
		}
		dropped++
		return nil
	})
	if dropped == 0 {
		return listing, false
	}
	return keyCount.ReplaceAllFunc(kept, func(old []byte) []byte {
		digits := bytes.TrimSuffix(bytes.TrimPrefix(old, []byte("<KeyCount>")), []byte("</KeyCount>"))
		count, err := strconv.Atoi(string(digits))
		if err != nil {
			return old
		}
		return []byte("<KeyCount>" + strconv.Itoa(count-dropped) + "</KeyCount>")
	}), true
}
