package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/link"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/env/link/linktest"
	"fencepost/harness/record/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service answers each request whose body came whole, with its number.
type service struct {
	mu  sync.Mutex
	got []string
}

func (s *service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, fmt.Sprintf("%s %s %q %t", req.Method, req.Header.Get("Idempotency-Key"), body, err == nil))
	w.Header().Set("Fencing-Result", "applied")
	_, _ = fmt.Fprint(w, len(s.got))
}

func (s *service) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, "; ")
}

// world is a client, a link that is read, a gateway and a service.
type world struct {
	t *testing.T
	s *service
	g *Gateway
	l *link.Link
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, s: &service{}}
	srv := httptest.NewServer(w.s)
	t.Cleanup(srv.Close)
	var err error
	if w.g, err = Start(strings.TrimPrefix(srv.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.g.Close)
	w.l = linktest.Open(t, "sink", w.g.Addr(), httptap.New(httptap.Options{Exchange: func(_ *link.Link, x httptap.Exchange) { w.g.Near(x) }}))
	return w
}

// ask makes a request of its own connection; "" is no answer.
func (w *world) ask(ctx context.Context, method, key string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.l.Addr()+"/effects", strings.NewReader("body"))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Fencing-Resource", "r")
	req.Header.Set("Fencing-Token", "1")
	req.Header.Set("Idempotency-Key", key)
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Fencing-Result"), strings.TrimSpace(string(b)))
}

// Each mode does to the first copy of a write what it says, and passes the second one and reads.
// What the taps have seen of it says so.
func TestModes(t *testing.T) {
	t.Parallel()
	const whole = `POST k "body" true`
	bad := "502  <html><h1>502 Bad Gateway</h1></html>"
	for name, c := range map[string]struct {
		mode          Mode
		first, second string // answers
		got           string
		seen          func(Counts) bool
	}{
		"pass":   {Pass, "200 applied 2", "200 applied 3", whole + "; " + whole, func(n Counts) bool { return n.Near == 2 && n.Far == 2 && n.Doubled+n.Alone+n.Broken == 0 }},
		"slow":   {Slow, "200 applied 2", "200 applied 3", whole + "; " + whole, func(n Counts) bool { return n.Longest >= 300*time.Millisecond && n.Doubled+n.Alone+n.Broken == 0 }},
		"break":  {Break, "", "200 applied 3", `POST k "body" false; ` + whole, func(n Counts) bool { return n.Broken == 1 && n.Doubled+n.Alone == 0 }},
		"double": {Double, "200 applied", "200 applied 4", whole + "; " + whole + "; " + whole, func(n Counts) bool { return n.Doubled == 1 && n.Alone+n.Broken == 0 && n.Far == 3 && n.Near == 2 }},
		"answer": {Answer, "200 applied 1", "200 applied 2", whole, func(n Counts) bool { return n.Alone == 1 && n.Far == 1 && n.Near == 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if got := w.ask(t.Context(), http.MethodPost, "earlier"); got != "200 applied 1" {
				t.Fatal(got)
			}
			since := history.Now()
			w.g.Set(c.mode, 300*time.Millisecond)
			if got := w.ask(t.Context(), http.MethodPost, "k"); !strings.HasPrefix(got, c.first) || c.first == "" && got != "" {
				t.Errorf("the first copy is answered %q, want %q", got, c.first)
			}
			for c.mode == Double && strings.Count(w.s.all(), whole) < 2 || c.mode == Break && !strings.Contains(w.s.all(), "false") {
				time.Sleep(time.Millisecond)
			}
			if got := w.ask(t.Context(), http.MethodPost, "k"); got != c.second {
				t.Errorf("the second copy is answered %q, want %q", got, c.second)
			}
			if c.mode == Answer { // by turns
				if got := w.ask(t.Context(), http.MethodPost, "l"); got != bad {
					t.Errorf("the next write is answered %q, want %q", got, bad)
				}
			}
			if got := strings.TrimPrefix(w.s.all(), `POST earlier "body" true; `); got != c.got {
				t.Errorf("the service got %s, want %s", got, c.got)
			}
			if c.mode == Answer {
				return // three writes
			}
			n := w.g.Seen(since)
			for end := time.Now().Add(10 * time.Second); !c.seen(n) && time.Now().Before(end); n = w.g.Seen(since) {
				time.Sleep(time.Millisecond)
			}
			if !c.seen(n) {
				t.Errorf("seen: %+v", n)
			}
		})
	}
}

// What is late arrives though its client has gone, and reads are never disturbed.
func TestLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.g.Set(Slow, 200*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got := w.ask(ctx, http.MethodPost, "k"); got != "" {
		t.Errorf("answered %q", got)
	}
	if got := w.ask(t.Context(), http.MethodGet, "k"); got != "200 applied 2" && got != "200 applied 1" {
		t.Errorf("a read is answered %q", got)
	}
	for !strings.Contains(w.s.all(), `POST k "body" true`) {
		time.Sleep(time.Millisecond)
	}
	w.g.Set(Answer, 0)
	if got := w.ask(t.Context(), http.MethodGet, "k"); !strings.HasPrefix(got, "200 applied") {
		t.Errorf("a read is answered %q", got)
	}
}

// Answers of the gateway's own are counted as such, whatever they say.
func TestAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(t.Context(), http.MethodPost, "earlier")
	since := history.Now()
	w.g.Set(Answer, 0)
	for _, key := range []string{"a", "b", "c"} {
		w.ask(t.Context(), http.MethodPost, key)
	}
	for w.g.Seen(since).Alone < 3 {
		time.Sleep(time.Millisecond)
	}
	if n := w.g.Seen(since); n != (Counts{Near: 3, Alone: 3}) {
		t.Errorf("%+v", n)
	}
}
