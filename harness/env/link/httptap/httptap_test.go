package httptap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/link"
	"fencepost/harness/env/link/linktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard is what a tap tells.
type heard struct {
	mu        sync.Mutex
	exchanges []Exchange
	unread    []string
}

func (h *heard) tap() *Tap {
	return New(Options{
		Exchange: func(_ *link.Link, e Exchange) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.exchanges = append(h.exchanges, e)
		},
		Unread: func(_ *link.Link, reason error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.unread = append(h.unread, reason.Error())
		},
	})
}

// text is an exchange in short.
func text(e Exchange) string {
	s := fmt.Sprintf("%s %s %q", e.Request.Method, e.Request.URL.Path, e.Body)
	if e.Response == nil {
		return s + " unanswered"
	}
	return fmt.Sprintf("%s: %d %q", s, e.Response.StatusCode, e.Answer)
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, e := range h.exchanges {
		out = append(out, text(e))
	}
	return strings.Join(out, "; ")
}

type said struct {
	d link.Dir
	s string
}

func up(s string) said   { return said{link.Up, s} }
func down(s string) said { return said{link.Down, s} }

// talk says all of it on one connection, in pieces of the size (0: as it is).
func talk(l *link.Link, tap *Tap, piece int, all []said) {
	s := tap.Open(l)
	for _, x := range all {
		for b := []byte(x.s); len(b) > 0; {
			n := len(b)
			if piece > 0 {
				n = min(n, piece)
			}
			s.Said(x.d, bytes.Clone(b[:n]))
			b = b[n:]
		}
	}
	s.Ended()
}

const (
	get    = "GET /state HTTP/1.1\r\nHost: s\r\nFencing-Resource: r\r\n\r\n"
	post   = "POST /effects HTTP/1.1\r\nHost: s\r\nContent-Length: 4\r\n\r\nbody"
	answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
)

func TestExchanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want, unread string
		say                []said
	}{
		{name: "one after the other", say: []said{up(get), down(answer), up(post), down(answer)}, want: `GET /state "": 200 "{}"; POST /effects "body": 200 "{}"`},
		{name: "pipelined", say: []said{up(get + post), down(answer + answer)}, want: `GET /state "": 200 "{}"; POST /effects "body": 200 "{}"`},
		{name: "in chunks", say: []said{up("POST /raise HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
			down("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")}, want: `POST /raise "abcde": 200 "{}"`},
		{name: "lines without a carriage return", say: []said{up("GET /state HTTP/1.1\nHost: s\n\n"), down(answer)}, want: `GET /state "": 200 "{}"`},
		{name: "an answer that goes on until the end", say: []said{up(get), down("HTTP/1.0 200 OK\r\n\r\n{"), down("}")}, want: `GET /state "": 200 "{}"`},
		{name: "an interim answer", say: []said{up("POST /effects HTTP/1.1\r\nHost: s\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"), down("HTTP/1.1 100 Continue\r\n\r\n"), up("body"), down(answer)},
			want: `POST /effects "body": 200 "{}"`},
		{name: "no content", say: []said{up(post), down("HTTP/1.1 204 No Content\r\n\r\n"), up(get), down(answer)}, want: `POST /effects "body": 204 ""; GET /state "": 200 "{}"`},
		{name: "no answer", say: []said{up(get), down(answer), up(post)}, want: `GET /state "": 200 "{}"; POST /effects "body" unanswered`},
		{name: "half an answer", say: []said{up(get), down(answer[:len(answer)-1])}, want: `GET /state "" unanswered`},
		{name: "half a request", say: []said{up(post[:len(post)-1])}},
		{name: "nothing"},
		{name: "an answer to half a request", say: []said{up(post[:len(post)-1]), down(answer)}},
		{name: "TLS", say: []said{up("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")}, unread: "not HTTP/1"},
		{name: "HTTP/2", say: []said{up("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}, unread: "not HTTP/1"},
		{name: "no request", say: []said{up("HELLO\r\n\r\n")}, unread: "not HTTP/1"},
		{name: "no answer of HTTP", say: []said{up(get), down("OK\r\n\r\n")}, unread: "not HTTP/1", want: `GET /state "" unanswered`},
		{name: "another protocol", say: []said{up(get), down("HTTP/1.1 101 Switching Protocols\r\n\r\n")}, unread: "not HTTP/1", want: `GET /state "" unanswered`},
		{name: "too long", say: []said{up("POST /effects HTTP/1.1\r\nHost: s\r\nContent-Length: 9000000\r\n\r\n" + strings.Repeat("x", maxMessage))}, unread: "more than"},
	} {
		for _, piece := range []int{0, 1, 7, 1000} {
			if len(c.say) > 0 && len(c.say[0].s) > 1<<20 && piece != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", c.name, piece), func(t *testing.T) {
				t.Parallel()
				h := &heard{}
				tap := h.tap()
				l := linktest.Open(t, "sink", "127.0.0.1:9", tap)
				talk(l, tap, piece, c.say)
				if got := h.all(); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if c.unread == "" && len(h.unread) > 0 || c.unread != "" && (len(h.unread) != 1 || !strings.Contains(h.unread[0], c.unread)) {
					t.Errorf("unread %q, want %q", h.unread, c.unread)
				}
			})
		}
	}
}

// Through a link, with Go's own client and server: the times enclose the service's decision,
// and an answer that the link drops was said all the same.
func TestThroughALink(t *testing.T) {
	t.Parallel()
	h := &heard{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	}))
	defer srv.Close()
	l := linktest.Open(t, "sink", srv.Listener.Addr().String(), h.tap())
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	ask := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr()+"/effects", strings.NewReader(strings.Repeat("y", 100_000)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Set(t.Context(), link.Down, link.Mode{Kind: link.Drop}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() { lost <- ask(ctx) }()
	count := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.exchanges)
	}
	for count() < 2 {
		select {
		case err := <-lost:
			t.Fatalf("the answer came: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-lost; err == nil {
		t.Error("the answer came although it was dropped")
	}
	for _, e := range h.exchanges {
		if len(e.Body) != 100_000 || len(e.Answer) != 5000 || e.Sent <= 0 || e.Answered < e.Sent {
			t.Errorf("%s, sent %d, answered %d", text(e)[:40], e.Sent, e.Answered)
		}
	}
}

func FuzzSaid(f *testing.F) {
	f.Add([]byte(get+post), []byte(answer+answer), uint64(1))
	f.Add([]byte(post), []byte("HTTP/1.0 200 OK\r\n\r\n"), uint64(2))
	f.Fuzz(func(t *testing.T, a, b []byte, seed uint64) {
		tap := New(Options{})
		s := tap.Open(linktest.Open(t, "sink", "127.0.0.1:9", tap))
		rng := rand.New(rand.NewPCG(seed, 0))
		for d, b := range [][]byte{a, b} {
			for len(b) > 0 {
				n := 1 + rng.IntN(len(b))
				s.Said(link.Dir(d), b[:n])
				b = b[n:]
			}
		}
		s.Ended()
	})
}

// BenchmarkSaid is the price of a decision of the sink.
func BenchmarkSaid(b *testing.B) {
	tap := New(Options{})
	s := tap.Open(linktest.Open(b, "sink", "127.0.0.1:9", tap))
	ask := []byte("POST /effects HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 0\r\nFencing-Issuer: lock-01\r\nFencing-Resource: res-lock-01\r\nFencing-Token: 17\r\nFencing-Value: 42\r\nIdempotency-Key: lock-01/w1.1/c1#3\r\n\r\n")
	say := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nFencing-First: 17\r\nFencing-Result: applied\r\nFencing-Seen: 17\r\nFencing-Seq: 83\r\nDate: Mon, 01 Jan 2029 00:00:00 GMT\r\nContent-Length: 21\r\n\r\n{\"result\":\"applied\"}\n")
	b.ReportAllocs()
	for b.Loop() {
		s.Said(link.Up, ask)
		s.Said(link.Down, say)
	}
}

// Who has its headers alone has begun, once, before its body is whole.
func TestBegun(t *testing.T) {
	t.Parallel()
	var got []string
	tap := New(Options{
		Begun:    func(_ *link.Link, req *http.Request) { got = append(got, "begun "+req.URL.Path) },
		Exchange: func(_ *link.Link, e Exchange) { got = append(got, text(e)) },
	})
	for head, body := range map[string]string{"Content-Length: 4": "body", "Transfer-Encoding: chunked": "4\r\nbody\r\n0\r\n\r\n"} {
		for _, piece := range []int{0, 1} {
			got = nil
			talk(nil, tap, piece, []said{
				up("POST /a HTTP/1.1\r\nHost: h\r\n" + head + "\r\n"), up("\r\n"), up(body),
				down("HTTP/1.1 204 No Content\r\n\r\n"),
				up("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nb"),
				down("HTTP/1.1 204 No Content\r\n\r\n"),
			})
			want := `begun /a; POST /a "body": 204 ""; POST /b "b": 204 ""`
			if piece == 1 {
				want = `begun /a; POST /a "body": 204 ""; begun /b; POST /b "b": 204 ""`
			}
			if s := strings.Join(got, "; "); s != want {
				t.Errorf("%s in pieces of %d: %s, want %s", head, piece, s, want)
			}
		}
	}
}
