package main

import (
	"net/http"
	"net/url"
	"strings"
)

// What a request asks for, in the words of S3. Paths start with the bucket.
type asked struct {
	method    string
	target    string
	operation string
	bucket    string
	key       string
}

func newAsked(request *http.Request) *asked {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	return &asked{
		method:    request.Method,
		target:    request.RequestURI,
		operation: operation(request.Method, bucket, key, request.URL.Query(), request.Header),
		bucket:    bucket,
		key:       key,
	}
}

func operation(method, bucket, key string, query url.Values, header http.Header) string {
	copies := header.Get("X-Amz-Copy-Source") != ""
	switch {
	case bucket == "":
		return named(method == "GET", "ListBuckets")
	case query.Has("acl"), query.Has("tagging"), query.Has("policy"), query.Has("versioning"), query.Has("location"):
		return "Other"
	case key == "":
		return onBucket(method, query)
	case method == "GET":
		return choose(query.Has("uploadId"), "ListParts", "GetObject")
	case method == "HEAD":
		return "HeadObject"
	case method == "PUT" && query.Has("partNumber"):
		return choose(copies, "UploadPartCopy", "UploadPart")
	case method == "PUT":
		return choose(copies, "CopyObject", "PutObject")
	case method == "DELETE":
		return choose(query.Has("uploadId"), "AbortMultipartUpload", "DeleteObject")
	case method == "POST" && query.Has("uploads"):
		return "CreateMultipartUpload"
	}
	return named(method == "POST" && query.Has("uploadId"), "CompleteMultipartUpload")
}

func onBucket(method string, query url.Values) string {
	switch method {
	case "GET":
		if query.Has("uploads") {
			return "ListMultipartUploads"
		}
		return choose(query.Get("list-type") == "2", "ListObjectsV2", "ListObjects")
	case "HEAD":
		return "HeadBucket"
	case "PUT":
		return "CreateBucket"
	case "DELETE":
		return "DeleteBucket"
	}
	return named(method == "POST" && query.Has("delete"), "DeleteObjects")
}

func choose(claim bool, first, second string) string {
	if claim {
		return first
	}
	return second
}

func named(claim bool, name string) string {
	return choose(claim, name, "Other")
}
