//go:build integration

package main_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traces takes what is sent to a collector: of each trace, its spans as "process name".
type traces struct {
	*httptest.Server
	mu sync.Mutex
	of map[string][]string
}

func newTraces(t *testing.T) *traces {
	c := &traces{of: map[string][]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, _ := io.ReadAll(body)
		var got collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(text, &got); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, from := range got.ResourceSpans {
			process := ""
			for _, a := range from.Resource.Attributes {
				if a.Key == "service.instance.id" {
					process = a.Value.GetStringValue()
				}
			}
			for _, scope := range from.ScopeSpans {
				for _, s := range scope.Spans {
					id := hex.EncodeToString(s.TraceId)
					c.of[id] = append(c.of[id], process+" "+s.Name)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// traceparent is a client's, whose n-th trace it names.
func traceparent(n int) (header, id string) {
	id = fmt.Sprintf("%032x", n+1)
	return "traceparent: 00-" + id + "-00000000000000ff-01", id
}

// whole checks the trace of a job that ran once: wherever it was asked for and ran, it
// is one. It returns how many processes took part.
func (c *traces) whole(t *testing.T, id string) int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var names, processes []string
	for _, s := range c.of[id] {
		var process, name string
		_, _ = fmt.Sscan(s, &process, &name)
		names, processes = append(names, name), append(processes, process)
	}
	slices.Sort(names)
	slices.Sort(processes)
	if !slices.Equal(names, []string{"effect", "enqueue", "run", "settle", "wait"}) {
		t.Errorf("trace %s has %q", id, c.of[id])
	}
	return len(slices.Compact(processes))
}
