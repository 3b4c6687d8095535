package httpsink_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"fencepost/core/sink"
	httpsink "fencepost/core/sink/http"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
)

// What the next copy would be refused for too is not asked again: the error says what to
// do. Only what is too large has certainly not been done.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for status, c := range map[int]struct {
		remedy string
		want   store.Outcome
	}{
		301: {"Location", store.Unknown},
		308: {"Location", store.Unknown},
		401: {"Options.Header", store.Unknown},
		403: {"rights", store.Unknown},
		404: {"check the URL", store.Unknown},
		405: {"check the URL", store.Unknown},
		410: {"check the URL", store.Unknown},
		413: {"smaller payload", store.Fail},
		414: {"fewer keys", store.Fail},
		431: {"fewer keys", store.Fail},
		501: {"check the URL", store.Unknown},
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			always := &faulty{inner: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })}
			s := client(t, serve(t, always), patience)
			if a, err := s.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "k"}); sink.OutcomeOf(a, err) != c.want || !store.IsPermanent(err) || !strings.Contains(err.Error(), c.remedy) {
				t.Errorf("Accept: %+v, %v", a, err)
			}
			if _, err := s.Read(t.Context(), "r"); store.OutcomeOf(err) != store.Fail || !store.IsPermanent(err) || !strings.Contains(err.Error(), c.remedy) {
				t.Errorf("Read: %v", err)
			}
			if always.n.Load() != 2 {
				t.Errorf("%d requests for two calls", always.n.Load())
			}
		})
	}
	// After a copy that was lost from sight even a certain refusal is unknown.
	f := &faulty{before: map[int64]bool{1: true}, otherwise: map[int64]func(http.ResponseWriter){2: func(w http.ResponseWriter) { w.WriteHeader(413) }}}
	if a, err := client(t, serve(t, f), patience).Raise(t.Context(), "r", "l", 1); err == nil || sink.OutcomeOf(a, err) != store.Unknown {
		t.Errorf("%+v, %v", a, err)
	}
}

// A server refuses a request whose headers are too long before any handler sees it.
func TestTooManyKeys(t *testing.T) {
	t.Parallel()
	s := client(t, serve(t, httpsink.Handler(sinktest.NewMemory())), patience)
	keys := make([]string, 3000)
	for i := range keys {
		keys[i] = strings.Repeat("k", 512)
	}
	if _, err := s.Read(t.Context(), "r", keys...); store.OutcomeOf(err) != store.Fail || !strings.Contains(err.Error(), "fewer keys") {
		t.Errorf("%v", err)
	}
}

// raw sends bytes on a connection of its own, ends the sending side, and returns the answer.
func raw(t *testing.T, url, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// A body that breaks off is no reason to give the effect up: nothing is decided.
func TestBrokenUpload(t *testing.T) {
	t.Parallel()
	inner := durable(t)
	url := serve(t, httpsink.Handler(inner))
	for _, path := range []string{"/effects", "/forget"} {
		resp := raw(t, url, "POST "+path+" HTTP/1.1\r\nHost: s\r\nFencing-Resource: r\r\nFencing-Token: 1\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\n{}")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(httpsink.HeaderResult) != "" {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
	}
	if all, err := inner.Resources(); err != nil || len(all) > 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}

// No answer may be kept by a cache: the next one is of another moment.
func TestNotCacheable(t *testing.T) {
	t.Parallel()
	url := serve(t, httpsink.Handler(durable(t)))
	for _, path := range []string{"/state", "/ledger", "/healthz", "/elsewhere"} {
		resp, err := http.DefaultTransport.RoundTrip(func() *http.Request {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Connection", "close")
			return req
		}())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
	}
}

// pages is a sink that has no time for whole ledgers.
type pages struct {
	*sinktest.Memory
	read int
}

func (p *pages) Ledger(context.Context, string) ([]sink.Entry, error) {
	return nil, errors.New("the whole ledger was asked for")
}

func (p *pages) LedgerAfter(ctx context.Context, resource string, after int64, n int) ([]sink.Entry, error) {
	out, err := p.Memory.LedgerAfter(ctx, resource, after, n)
	p.read += len(out)
	return out, err
}

// The pages of a ledger cost what the ledger does, not its square.
func TestLedgerPagesAreRead(t *testing.T) {
	t.Parallel()
	p := &pages{Memory: sinktest.NewMemory()}
	const n = 5000
	for i := range int64(n) {
		if _, err := p.Raise(t.Context(), "r", "l", i+1); err != nil {
			t.Fatal(err)
		}
	}
	l, err := client(t, serve(t, httpsink.Handler(p)), patience).Ledger(t.Context(), "r")
	if err != nil || len(l) != n || p.read > n+n/100 {
		t.Errorf("%d entries, of %d that were read: %v", len(l), p.read, err)
	}
}
