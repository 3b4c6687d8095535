package httpsink_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/sink"
	boltsink "fencepost/core/sink/bolt"
	httpsink "fencepost/core/sink/http"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func durable(t *testing.T) *boltsink.Sink {
	t.Helper()
	s, err := boltsink.Open(filepath.Join(t.TempDir(), "sink.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func client(t *testing.T, url string, timeout time.Duration) *httpsink.Sink {
	t.Helper()
	c, err := httpsink.New(url, httpsink.Options{RequestTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// patience is longer than any answer takes on a busy machine: what is sent again is what
// the test loses.
const patience = time.Minute

func TestConformance(t *testing.T) {
	t.Parallel()
	url := serve(t, httpsink.Handler(durable(t)))
	c := client(t, url, patience)
	t.Run("all", func(t *testing.T) {
		t.Run("one client", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "one", func(*testing.T) sink.Sink { return c })
		})
		t.Run("one each", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "each", func(t *testing.T) sink.Sink { return client(t, url, patience) })
		})
	})
}

// faulty loses what it is told to, of the requests with a given number (from 1).
type faulty struct {
	inner     http.Handler
	n         atomic.Int64
	seen      func(n int64)  // nil: nobody is told
	before    map[int64]bool // closed unread: nothing is done
	after     map[int64]bool // done, and not answered
	otherwise map[int64]func(http.ResponseWriter)
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n := f.n.Add(1)
	if f.seen != nil {
		f.seen(n)
	}
	hangUp := func() {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	switch {
	case f.before[n]:
		_, _ = io.Copy(io.Discard, req.Body)
		hangUp()
	case f.after[n]:
		f.inner.ServeHTTP(httptest.NewRecorder(), req)
		hangUp()
	case f.otherwise[n] != nil:
		f.otherwise[n](w)
	default:
		f.inner.ServeHTTP(w, req)
	}
}

// A lost request is sent again, a lost answer found out; each copy is one of the client's
// own, also on a connection that was used before and without a body, which Go's transport
// would repeat of itself.
func TestLost(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string][]byte{"body": []byte("x"), "no body": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := durable(t)
			f := &faulty{inner: httpsink.Handler(inner), before: map[int64]bool{2: true}, after: map[int64]bool{4: true}}
			c := client(t, serve(t, f), patience)
			if _, err := c.Raise(t.Context(), "r", "l", 1); err != nil { // request 1: makes the connection
				t.Fatal(err)
			}
			a, err := c.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "a", Intent: "i", Value: 1, Payload: payload})
			if err != nil || a.Result != sink.Applied || f.n.Load() != 3 {
				t.Errorf("%+v, %v after %d requests", a, err, f.n.Load())
			}
			a, err = c.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "b", Intent: "i", Value: 2, Payload: payload})
			if err != nil || a.Result != sink.Duplicate || a.FirstToken != 1 || f.n.Load() != 5 {
				t.Errorf("%+v, %v after %d requests", a, err, f.n.Load())
			}
			if l, err := c.Ledger(t.Context(), "r"); err != nil || len(l) != 3 {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// No answer before the context ends is unknown; no connection is a failure; and a stale
// answer after a copy without an answer is unknown.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	inner := durable(t)
	silent := &faulty{inner: httpsink.Handler(inner), after: map[int64]bool{}}
	for n := range int64(1000) {
		silent.after[n] = true
	}
	effect := sink.Effect{Key: "a", Intent: "i", Value: 1}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	silent.seen = func(n int64) {
		if n == 3 {
			cancel()
		}
	}
	_, err := client(t, serve(t, silent), patience).Accept(ctx, "r", "l", 1, effect)
	if store.OutcomeOf(err) != store.Unknown || silent.n.Load() != 3 {
		t.Errorf("silence: %v after %d requests", err, silent.n.Load())
	}
	if a, err := client(t, serve(t, httpsink.Handler(inner)), patience).Accept(t.Context(), "r", "l", 1, effect); err != nil || a.Result != sink.Duplicate {
		t.Errorf("the same call again settles it: %+v, %v", a, err)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = client(t, "http://"+ln.Addr().String(), 0).Accept(ctx, "r", "l", 2, effect); store.OutcomeOf(err) != store.Fail {
		t.Errorf("nobody listens: %v", err)
	}

	if _, err := inner.Raise(t.Context(), "r", "l", 9); err != nil {
		t.Fatal(err)
	}
	f := &faulty{inner: httpsink.Handler(inner), before: map[int64]bool{1: true}}
	a, err := client(t, serve(t, f), patience).Accept(t.Context(), "r", "l", 2, sink.Effect{Key: "late"})
	if a.Result != sink.Stale || store.OutcomeOf(err) != store.Unknown || !errors.Is(err, sink.ErrStaleAfterUnknown) {
		t.Errorf("stale after a lost copy: %+v, %v", a, err)
	}
	a, err = client(t, serve(t, httpsink.Handler(inner)), patience).Accept(t.Context(), "r", "l", 2, sink.Effect{Key: "late"})
	if a.Result != sink.Stale || err != nil {
		t.Errorf("stale at once: %+v, %v", a, err)
	}
}

// A status decides nothing: an answer that some gateway made up is asked for again.
func TestNotADecision(t *testing.T) {
	t.Parallel()
	var of []func(http.ResponseWriter)
	for _, status := range []int{200, 302, 400, 409, 412, 422, 429, 500, 502, 503, 504} {
		of = append(of, func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
	}
	of = append(of,
		func(w http.ResponseWriter) { w.Header().Set(httpsink.HeaderResult, "stale") },   // with status 200
		func(w http.ResponseWriter) { w.Header().Set(httpsink.HeaderResult, "applied") }, // without numbers
		func(w http.ResponseWriter) { w.Header().Set(httpsink.HeaderResult, "perhaps") },
	)
	// Sound answers, of which each is to another request than was made.
	for _, headers := range []map[string]string{
		{},
		{httpsink.HeaderResource: "r"},
		{httpsink.HeaderResource: "s", httpsink.HeaderToken: "1"},
		{httpsink.HeaderResource: "r", httpsink.HeaderToken: "2"},
		{httpsink.HeaderResource: "r", httpsink.HeaderToken: "1", httpsink.HeaderKey: "k"},
	} {
		for result, status := range map[string]int{"applied": 200, "stale": 412, "issuer": 409, "invalid": 400} {
			of = append(of, func(w http.ResponseWriter) {
				for name, v := range headers {
					w.Header().Set(name, v)
				}
				w.Header().Set(httpsink.HeaderResult, result)
				w.Header().Set(httpsink.HeaderSeen, "9")
				w.Header().Set(httpsink.HeaderSeq, "1")
				w.WriteHeader(status)
			})
		}
	}
	var wg sync.WaitGroup
	for i, made := range of {
		wg.Go(func() {
			f := &faulty{inner: httpsink.Handler(durable(t)), otherwise: map[int64]func(http.ResponseWriter){1: made}}
			a, err := client(t, serve(t, f), patience).Raise(t.Context(), "r", "l", 1)
			if err != nil || a.Result != sink.Applied || f.n.Load() != 2 {
				t.Errorf("%d: %+v, %v after %d requests", i, a, err, f.n.Load())
			}
		})
	}
	wg.Wait()
}

// Each answer repeats what it answers, also what was read; the state of another resource is asked
// for again.
func TestRepeated(t *testing.T) {
	t.Parallel()
	f := &faulty{inner: httpsink.Handler(sinktest.NewMemory()), otherwise: map[int64]func(http.ResponseWriter){
		2: func(w http.ResponseWriter) {
			w.Header().Set(httpsink.HeaderResource, "other")
			_, _ = io.WriteString(w, `{"value":7,"seen":9,"seq":3}`)
		},
		4: func(w http.ResponseWriter) { // of the same resource, with another key
			w.Header().Set(httpsink.HeaderResource, "r")
			w.Header().Set(httpsink.HeaderToken, "1")
			w.Header().Set(httpsink.HeaderKey, "l")
			w.Header().Set(httpsink.HeaderResult, "duplicate")
			w.Header().Set(httpsink.HeaderSeen, "1")
			w.Header().Set(httpsink.HeaderSeq, "1")
		},
	}}
	c := client(t, serve(t, f), patience)
	if _, err := c.Raise(t.Context(), "r", "l", 1); err != nil {
		t.Fatal(err)
	}
	if st, err := c.Read(t.Context(), "r", "k", "l"); err != nil || st.Seen != 1 || f.n.Load() != 3 {
		t.Errorf("%+v, %v after %d requests", st, err, f.n.Load())
	}
	a, err := c.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "k", Value: 5})
	if err != nil || a.Result != sink.Applied || f.n.Load() != 5 {
		t.Errorf("%+v, %v after %d requests", a, err, f.n.Load())
	}
}

// What the headers lack is refused with the reason and leaves nothing behind; what a
// service with one issuer leaves out has a meaning.
func TestHeaders(t *testing.T) {
	t.Parallel()
	inner := durable(t)
	url := serve(t, httpsink.Handler(inner))
	do := func(method, path, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headers {
			name, v, _ := strings.Cut(h, ": ")
			req.Header.Add(name, v)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for _, c := range []struct {
		path, body, want string
		headers          []string
	}{
		{"/raise", "", "Fencing-Resource is missing", nil},
		{"/raise", "", "Fencing-Token is missing", []string{"Fencing-Resource: r"}},
		{"/raise", "", "not a whole number above 0", []string{"Fencing-Resource: r", "Fencing-Token: 0"}},
		{"/raise", "", "comes 2 times", []string{"Fencing-Resource: r", "Fencing-Token: 1", "Fencing-Token: 2"}},
		{"/raise", "", "comes 2 times", []string{"Fencing-Resource: r", "Fencing-Resource: s", "Fencing-Token: 2"}},
		{"/effects", "x", "Idempotency-Key is missing", []string{"Fencing-Resource: r", "Fencing-Token: 1"}},
		{"/effects", "x", "not a whole number", []string{"Fencing-Resource: r", "Fencing-Token: 1", "Idempotency-Key: k", "Fencing-Value: x"}},
		{"/effects", "x", "64 hex digits", []string{"Fencing-Resource: r", "Fencing-Token: 1", "Idempotency-Key: k", "Fencing-Intent: x"}},
		{"/effects", strings.Repeat("x", httpsink.MaxPayload+1), "too large", []string{"Fencing-Resource: r", "Fencing-Token: 1", "Idempotency-Key: k"}},
		{"/effects", "x", "512", []string{"Fencing-Resource: " + strings.Repeat("x", 513), "Fencing-Token: 1", "Idempotency-Key: k"}},
		{"/forget", "{}", "before is missing", []string{"Fencing-Resource: r"}},
	} {
		resp, body := do("POST", c.path, c.body, c.headers...)
		if resp.StatusCode != 400 || resp.Header.Get(httpsink.HeaderResult) != "invalid" || !strings.Contains(body, c.want) {
			t.Errorf("%s %v: %s %q, want %q", c.path, c.headers, resp.Status, body, c.want)
		}
	}
	if resp, body := do("GET", "/elsewhere", ""); resp.StatusCode != 404 || !strings.Contains(body, "POST /raise") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if all, err := inner.Resources(); err != nil || len(all) > 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}

	// As an HTTP job sends it: no issuer, no intent, no value.
	job := []string{"Fencing-Resource: job/q/1", "Fencing-Token: 7", "Idempotency-Key: 1"}
	for i, c := range []struct {
		body, result string
		status       int
	}{{"pay 10", "applied", 200}, {"pay 10", "duplicate", 200}, {"pay 20", "conflict", 422}} {
		resp, _ := do("POST", "/effects", c.body, job...)
		if resp.StatusCode != c.status || resp.Header.Get(httpsink.HeaderResult) != c.result || resp.Header.Get(httpsink.HeaderSeen) != "7" || resp.Header.Get(httpsink.HeaderFirst) != "7" {
			t.Errorf("%d: %s %v", i, resp.Status, resp.Header)
		}
	}
	if st, err := inner.Read(t.Context(), "job/q/1"); err != nil || st.Issuer != "job/q/1" || string(st.Payload) != "pay 10" {
		t.Errorf("%+v, %v", st, err)
	}
	if resp, _ := do("POST", "/raise", "", "Fencing-Resource: job/q/1", "Fencing-Token: 9", "Fencing-Issuer: other"); resp.StatusCode != 409 || resp.Header.Get(httpsink.HeaderIssuer) != "job/q/1" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}

// What no header can carry is refused before it is sent.
func TestClientRefuses(t *testing.T) {
	t.Parallel()
	f := &faulty{inner: httpsink.Handler(sinktest.NewMemory())}
	c := client(t, serve(t, f), 0)
	for name, call := range map[string]func() error{
		"resource": func() error { _, err := c.Raise(t.Context(), "", "l", 1); return err },
		"issuer":   func() error { _, err := c.Raise(t.Context(), "r", "l\n", 1); return err },
		"blank":    func() error { _, err := c.Raise(t.Context(), " r", "l", 1); return err },
		"token":    func() error { _, err := c.Raise(t.Context(), "r", "l", 0); return err },
		"key":      func() error { _, err := c.Accept(t.Context(), "r", "l", 1, sink.Effect{}); return err },
		"umlaut":   func() error { _, err := c.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "ü"}); return err },
		"payload": func() error {
			_, err := c.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "k", Payload: make([]byte, httpsink.MaxPayload+1)})
			return err
		},
		"read": func() error { _, err := c.Read(t.Context(), "r", "k\x00"); return err },
	} {
		if err := call(); store.OutcomeOf(err) != store.Fail || f.n.Load() > 0 {
			t.Errorf("%s: %v after %d requests", name, err, f.n.Load())
		}
	}
	for _, url := range []string{"", "sink:8080", "ftp://sink", "http://", "http://x?y", "http://x#y"} {
		if _, err := httpsink.New(url, httpsink.Options{}); err == nil {
			t.Errorf("%q is taken for a URL", url)
		}
	}
}

// A long ledger comes in pages.
func TestLedgerPages(t *testing.T) {
	t.Parallel()
	m := sinktest.NewMemory()
	const n = 12_000
	for i := range int64(n) {
		if _, err := m.Raise(t.Context(), "r", "l", i+1); err != nil {
			t.Fatal(err)
		}
	}
	l, err := client(t, serve(t, httpsink.Handler(m)), patience).Ledger(t.Context(), "r")
	if err != nil || len(l) != n || l[n-1].Token != n {
		t.Errorf("%d entries, %v", len(l), err)
	}
	if want := (sink.Entry{Seq: 1, Kind: sink.KindRaise, Issuer: "l", Token: 1}); l[0] != want {
		t.Errorf("%+v", l[0])
	}
}
