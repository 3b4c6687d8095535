package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/env/link/httptap"
)

// Mode is what a gateway does to the first copy of each write.
type Mode int

// The modes. Reads always pass, and so do later copies of a write that was disturbed.
const (
	Pass   Mode = iota
	Slow        // the end of its body arrives late, whether its client still waits or not
	Break       // half of it arrives, and then its connection ends, on both sides
	Double      // it arrives twice at once, on two connections; the first answer is passed on
	Answer      // it does not arrive: the gateway answers by itself
)

// maxMessage bounds what is kept of a request or an answer.
const maxMessage = 8 << 20

// Gateway is a proxy of HTTP. Safe for concurrent use. Close it.
type Gateway struct {
	links  *link.Fabric
	far    *link.Link
	seen   *Seen
	http   *http.Client
	server *http.Server
	addr   string
	after  sync.WaitGroup // what is under way though its client has gone

	mu    sync.Mutex
	mode  Mode
	late  time.Duration
	known map[Request]bool          // that were disturbed
	slows map[Request]chan struct{} // closed when the headers of one have come out
	last  *kept                     // a decision that was passed on, for somebody else
	turn  int
}

// kept is an answer as the service gave it.
type kept struct {
	of     Request
	status int
	header http.Header
	body   []byte
}

// Start puts a gateway before a service. What comes out at its other side is read on a link of
// its own.
func Start(upstream string) (_ *Gateway, err error) {
	g := &Gateway{links: link.NewFabric(link.Options{}), seen: &Seen{}, known: map[Request]bool{}, slows: map[Request]chan struct{}{}}
	g.far, err = g.links.Add(link.Spec{From: "gateway", To: "sink", Listen: "127.0.0.1:0", Upstream: upstream, Tap: httptap.New(httptap.Options{
		Exchange: func(_ *link.Link, x httptap.Exchange) { g.seen.note(far, x) },
		Begun:    func(_ *link.Link, req *http.Request) { g.begun(requestOf(req)) },
	})})
	if err != nil {
		g.links.Close()
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.http = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.links.Close()
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.addr, g.server = ln.Addr().String(), &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	g.after.Go(func() { _ = g.server.Serve(ln) }) // until Close
	return g, nil
}

// Addr is where it is asked.
func (g *Gateway) Addr() string { return g.addr }

// Set changes what it does; late is for Slow.
func (g *Gateway) Set(m Mode, late time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mode, g.late = m, late
	clear(g.known)
}

// Near tells it of an exchange that a worker's link carried to it.
func (g *Gateway) Near(x httptap.Exchange) { g.seen.note(near, x) }

// Seen is what was carried to it and from it since an instant, as history.Now.
func (g *Gateway) Seen(since int64) Counts { return g.seen.since(since) }

// Close ends it, when what is late has arrived.
func (g *Gateway) Close() {
	_ = g.server.Close() // its clients are gone
	g.after.Wait()
	g.http.CloseIdleConnections()
	g.links.Close()
}

// take is what to do with a request.
func (g *Gateway) take(r Request, write bool) (Mode, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mode == Pass || !write || g.known[r] {
		return Pass, 0
	}
	g.known[r] = true
	return g.mode, g.late
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxMessage))
	if err != nil {
		hangUp(w)
		return
	}
	of := requestOf(req)
	mode, late := g.take(of, req.Method == http.MethodPost)
	switch mode {
	case Slow:
		g.slow(w, req, body, late)
	case Break:
		g.breakOff(req, body)
		hangUp(w)
	case Double:
		g.double(w, req, body)
	case Answer:
		g.answer(w, of)
	default:
		g.give(w, of, func() (*kept, error) { return g.forward(req.Context(), req, bytes.NewReader(body), int64(len(body))) })
	}
}

// hangUp ends the client's connection without an answer.
func hangUp(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// forward sends one copy of a request and reads the answer; a negative length sends it in chunks.
func (g *Gateway) forward(ctx context.Context, req *http.Request, body io.Reader, length int64) (*kept, error) {
	out, err := http.NewRequestWithContext(ctx, req.Method, "http://"+g.far.Addr()+req.URL.RequestURI(), body)
	if err != nil {
		return nil, err
	}
	out.Header, out.ContentLength, out.Host = req.Header.Clone(), length, req.Host
	resp, err := g.http.Do(out)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	k := &kept{of: requestOf(req), status: resp.StatusCode, header: resp.Header}
	k.body, err = io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	return k, err
}

// give passes an answer on; without one the client's connection ends.
func (g *Gateway) give(w http.ResponseWriter, of Request, get func() (*kept, error)) {
	k, err := get()
	if err != nil {
		hangUp(w)
		return
	}
	if of.decides() && k.status == http.StatusOK {
		g.mu.Lock()
		g.last = k
		g.mu.Unlock()
	}
	k.write(w)
}

func (k *kept) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), k.header)
	w.Header().Del("Content-Length")
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body) // who does not get it asks again
}

// begun lets the time of a slow write run.
func (g *Gateway) begun(r Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.slows[r]; c != nil {
		close(c)
		delete(g.slows, r)
	}
}

// slow holds the body back. The request goes on though its client may not. The time runs from
// when the far link has read the headers: what it measures is not less.
func (g *Gateway) slow(w http.ResponseWriter, req *http.Request, body []byte, late time.Duration) {
	ctx := context.WithoutCancel(req.Context())
	answer, begun, ended := make(chan *kept, 1), make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	g.slows[requestOf(req)] = begun
	g.mu.Unlock()
	g.after.Go(func() {
		in, out := io.Pipe()
		g.after.Go(func() {
			select {
			case <-begun:
				time.Sleep(late)
			case <-ended:
			}
			_, _ = out.Write(body)
			_ = out.Close()
		})
		k, err := g.forward(ctx, req, in, -1)
		close(ended)
		_ = in.Close() // if nobody reads it to its end
		if err == nil {
			answer <- k
		}
		close(answer)
	})
	select {
	case k := <-answer:
		if k != nil {
			k.write(w)
			return
		}
	case <-req.Context().Done():
	}
	hangUp(w)
}

// breakOff sends the headers of a request, and of its body less than they say.
func (g *Gateway) breakOff(req *http.Request, body []byte) {
	conn, err := net.Dial("tcp", g.far.Addr())
	if err != nil {
		return
	}
	defer conn.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", req.Method, req.URL.RequestURI(), req.Host)
	h := req.Header.Clone()
	h.Set("Content-Length", fmt.Sprint(len(body)+1))
	_ = h.Write(&b)
	b.WriteString("\r\n")
	b.Write(body)
	_, _ = io.WriteString(conn, b.String())
}

// double sends two copies at once, and passes on what is answered first.
func (g *Gateway) double(w http.ResponseWriter, req *http.Request, body []byte) {
	ctx := context.WithoutCancel(req.Context())
	answers := make(chan *kept, 2)
	for range 2 {
		g.after.Go(func() {
			k, _ := g.forward(ctx, req, bytes.NewReader(body), int64(len(body)))
			answers <- k
		})
	}
	for range 2 {
		if k := <-answers; k != nil {
			k.write(w)
			return
		}
	}
	hangUp(w)
}

// answer gives an answer of the gateway's own: in turn that there is none, and one that somebody
// else was given.
func (g *Gateway) answer(w http.ResponseWriter, of Request) {
	g.mu.Lock()
	g.turn++
	k := g.last
	if g.turn%2 == 0 || k == nil || k.of == of {
		k = nil
	}
	g.mu.Unlock()
	if k == nil {
		http.Error(w, "<html><h1>502 Bad Gateway</h1></html>", http.StatusBadGateway)
		return
	}
	k.write(w)
}

// Request is what tells a write from others: all copies of one are one.
type Request struct{ Path, Resource, Token, Key string }

// decides: its answer is a decision.
func (r Request) decides() bool { return r.Token != "" }

func requestOf(req *http.Request) Request {
	h := req.Header
	return Request{req.URL.Path, h.Get("Fencing-Resource"), h.Get("Fencing-Token"), h.Get("Idempotency-Key")}
}

// sides of a gateway.
type side int

const (
	near side = iota
	far
)

// Seen keeps what taps have read on both sides of a gateway.
type Seen struct {
	mu  sync.Mutex
	all [2][]carried
}

type carried struct {
	request  Request
	sent     int64
	took     time.Duration // to the answer; 0: there was none
	answered bool
}

func (s *Seen) note(on side, x httptap.Exchange) {
	r := requestOf(x.Request)
	if !r.decides() {
		return
	}
	c := carried{request: r, sent: x.Sent, answered: x.Response != nil}
	if c.answered {
		c.took = time.Duration(x.Answered - x.Sent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[on] = append(s.all[on], c)
}

// Counts are of writes, by what was carried on both sides of a gateway.
type Counts struct {
	Near, Far int           // requests
	Doubled   int           // writes of which more copies came out than went in
	Alone     int           // answers of which the service was not asked: none of the copies came out
	Broken    int           // copies that were not answered and did not come out whole
	Longest   time.Duration // from the first byte of a request to the last of its answer, at the far side
}

func (s *Seen) since(ts int64) (c Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var copies [2]map[Request]int
	answers, silent := map[Request]int{}, map[Request]int{}
	for on := range copies {
		copies[on] = map[Request]int{}
		for _, x := range s.all[on] {
			if x.sent < ts {
				continue
			}
			copies[on][x.request]++
			switch {
			case side(on) == near && x.answered:
				answers[x.request]++
			case side(on) == near:
				silent[x.request]++
			case x.answered:
				c.Longest = max(c.Longest, x.took)
			}
		}
	}
	for r, n := range copies[far] {
		c.Far += n
		if in := copies[near][r]; in > 0 && n > in {
			c.Doubled++
		}
	}
	for r, n := range copies[near] {
		c.Near += n
		if answers[r] > copies[far][r] {
			c.Alone += answers[r] - copies[far][r]
		}
		c.Broken += max(min(silent[r], n-copies[far][r]), 0)
	}
	return c
}

// Modes are all that disturb, by name.
var Modes = map[string]Mode{"slow": Slow, "broken": Break, "doubled": Double, "answering": Answer}

// Names are those of the Modes.
func Names() []string { return slices.Sorted(maps.Keys(Modes)) }
