package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const condition = "If-None-Match"

// The headers of a request without its condition, signed anew by AWS Signature Version 4 where it was signed.
func unconditional(request *http.Request, header http.Header, secret string) http.Header {
	header.Del(condition)
	fields := map[string]string{}
	scheme, rest, _ := strings.Cut(header.Get("Authorization"), " ")
	for _, field := range strings.Split(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	names := strings.Split(fields["SignedHeaders"], ";")
	_, scope, isSigned := strings.Cut(fields["Credential"], "/")
	parts := strings.Split(scope, "/")
	if !isSigned || len(parts) != 4 {
		return header
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.EqualFold(name, condition) })
	path, query, _ := strings.Cut(request.RequestURI, "?")
	pairs := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool { return pair == "" })
	slices.Sort(pairs)
	lines := []string{request.Method, path, strings.Join(pairs, "&")}
	for _, name := range names {
		lines = append(lines, name+":"+signedValue(request, header, name))
	}
	signed := strings.Join(names, ";")
	lines = append(lines, "", signed, header.Get("X-Amz-Content-Sha256"))
	digest := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	text := strings.Join([]string{scheme, header.Get("X-Amz-Date"), scope, hex.EncodeToString(digest[:])}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range parts {
		key = keyed(key, part)
	}
	header.Set("Authorization", scheme+" Credential="+fields["Credential"]+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(keyed(key, text)))
	return header
}

func signedValue(request *http.Request, header http.Header, name string) string {
	switch name {
	case "host":
		return request.Host
	case "content-length":
		return strconv.FormatInt(request.ContentLength, 10)
	}
	values := slices.Clone(header.Values(name))
	for number, value := range values {
		values[number] = strings.Join(strings.Fields(value), " ")
	}
	return strings.Join(values, ",")
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
