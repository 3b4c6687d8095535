package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func names(ls []*Link) string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Name())
	}
	return strings.Join(out, " ")
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	f := newFabric(t, Options{})
	s := newServer(t)
	for _, sp := range []Spec{{From: "n1", To: "n2"}, {From: "n2", To: "n1"}, {From: "n1", To: "n3"}, {From: "w1", To: "n1"}, {From: "w1", To: "n1", Purpose: "sink"}} {
		sp.Listen, sp.Upstream = "127.0.0.1:0", s.addr()
		_, err := f.Add(sp)
		must(t, err)
	}
	for _, tc := range []struct{ what, got, want string }{
		{"All", names(f.All()), "n1->n2 n1->n3 n2->n1 w1->n1 w1->n1/sink"},
		{"To n1", names(f.To("n1")), "n2->n1 w1->n1 w1->n1/sink"},
		{"Of n2", names(f.Of("n2")), "n1->n2 n2->n1"},
		{"Between w1 n1", names(f.Between("w1", "n1")), "w1->n1 w1->n1/sink"},
		{"Between n1 w1", names(f.Between("n1", "w1")), ""},
		{"To nobody", names(f.To("n9")), ""},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, tc.got, tc.want)
		}
	}
	var flow []string
	for _, e := range f.Flow("n1", "n2") {
		flow = append(flow, e.Link.Name()+" "+e.Dir.String())
	}
	if want := []string{"n1->n2 up", "n2->n1 down"}; !slices.Equal(flow, want) {
		t.Errorf("Flow: %v, want %v", flow, want)
	}
	l, ok := f.Get("w1->n1/sink")
	if !ok || l.Purpose() != "sink" || l.From() != "w1" || l.To() != "n1" {
		t.Errorf("Get: %v %v", l, ok)
	}
	if _, ok := f.Get("n3->n1"); ok {
		t.Error("Get finds what is not there")
	}
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	f := newFabric(t, Options{})
	good := Spec{From: "a", To: "b", Listen: "127.0.0.1:0", Upstream: "127.0.0.1:9042"}
	_, err := f.Add(good)
	must(t, err)
	if _, err := f.Add(good); !errors.Is(err, ErrExists) {
		t.Errorf("the same again: %v", err)
	}
	for what, change := range map[string]func(*Spec){
		"no From":         func(s *Spec) { s.From = "" },
		"no To":           func(s *Spec) { s.To = "" },
		"an arrow inside": func(s *Spec) { s.From = "a->b" },
		"no Listen":       func(s *Spec) { s.Listen = "" },
		"no Upstream":     func(s *Spec) { s.Upstream = "" },
		"a host name":     func(s *Spec) { s.Upstream = "localhost:9042" },
		"upstream port 0": func(s *Spec) { s.Upstream = "127.0.0.1:0" },
		"no port":         func(s *Spec) { s.Listen = "127.0.0.1:" },
	} {
		s := good
		s.Purpose = "other"
		change(&s)
		var op *OpError
		if _, err := f.Add(s); !errors.Is(err, ErrSpec) || !errors.As(err, &op) || op.Op != "add" {
			t.Errorf("%s: %v", what, err)
		}
	}
	taken := good
	taken.From, taken.Listen = "c", f.All()[0].Addr()
	if _, err := f.Add(taken); err == nil {
		t.Error("two links listen at one address")
	}
	if _, ok := f.Get("c->b"); ok {
		t.Error("a link that failed to listen is registered")
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.0.0.3:0", Options{})
	r.set(t, Up, Mode{Kind: Stall})
	r.write(t, Up, "inside")
	r.received(t, Up, 6)
	addr := r.Addr()
	must(t, r.fab.Close())
	must(t, r.fab.Close())
	if err := ended(t, r.recv[Down]); !wasReset(err) {
		t.Errorf("the client sees %v, want a reset", err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("a closed link still listens")
	}
	if c := r.Counters(); c.ConnsOpen != 0 || c.ConnsCut != 1 || c.Up.LostBytes != 6 {
		t.Errorf("final counters: %+v", c)
	}
	if err := r.SetBoth(ctxOf(t), Mode{Kind: Pass}); !errors.Is(err, ErrClosed) {
		t.Errorf("set on a closed link: %v", err)
	}
	// The address is free again.
	l, err := newFabric(t, Options{}).Add(Spec{From: "w1", To: "n1", Listen: addr, Upstream: r.srv.addr()})
	must(t, err)
	if l.Addr() != addr {
		t.Errorf("listens at %s, want %s", l.Addr(), addr)
	}
	if _, err := r.fab.Add(Spec{From: "w1", To: "n1", Listen: addr, Upstream: r.srv.addr()}); !errors.Is(err, ErrClosed) {
		t.Errorf("add to a closed fabric: %v", err)
	}
}

// Sixty links with live traffic on each switch together.
func TestSetOnManyLinks(t *testing.T) {
	t.Parallel()
	const n = 60
	upstream := handle(t, echo)
	f, g := newFabric(t, Options{}), newFabric(t, Options{})
	var links []*Link
	var conns []*net.TCPConn
	for i := range n {
		of := f
		if i%2 == 1 {
			of = g
		}
		l := addLink(t, of, fmt.Sprintf("w%d", i), "n1", upstream)
		links = append(links, l)
		c := dial(t, l)
		_, err := c.Write([]byte("x"))
		must(t, err)
		expectOn(t, c, "x")
		conns = append(conns, c)
	}
	var worst time.Duration
	for _, k := range []Kind{Stall, Pass, Stall, Pass, Stall} {
		start := time.Now()
		must(t, SetEnds(ctxOf(t), Ends(links, Up), Mode{Kind: k}))
		worst = max(worst, time.Since(start))
	}
	w := NewWatch(links)
	t.Logf("the slowest switch of %d links took %v", n, worst)
	for _, c := range conns {
		_, err := c.Write([]byte("held"))
		must(t, err)
	}
	eventually(t, "all is held", func() bool { return w.Total().Up.HeldBytes == 4*n })
	for name, c := range w.Delta() {
		check(t, name, c.Up, DirCounters{ReceivedBytes: 4, PendingBytes: 4, HeldBytes: 4, HeldTotalBytes: 4})
	}
	freed, err := Flush(ctxOf(t), Ends(links, Up)...)
	if freed != 4*n || err != nil {
		t.Errorf("flush: %d, %v", freed, err)
	}
	for _, c := range conns {
		expectOn(t, c, "held")
	}
	if d := w.Total(); d.Up.PassedBytes != 4*n || d.Up.HeldTotalBytes != 4*n || d.ConnsOpen != n || d.ConnsOpened != 0 {
		t.Errorf("evidence: %+v", d)
	}
	must(t, f.Heal(ctxOf(t)))
	for _, l := range f.All() {
		if l.Mode(Up).Kind != Pass || l.Mode(Down).Kind != Pass {
			t.Errorf("%s is not healed", l.Name())
		}
	}
	if m := g.All()[0].Mode(Up); m.Kind != Stall {
		t.Errorf("healing one fabric put another's link into %s", m)
	}
}

func TestConnectionsIntoABlackHoleAreCounted(t *testing.T) {
	t.Parallel()
	for _, k := range []Kind{Stall, Drop} {
		forDirs(t, func(t *testing.T, d Dir) {
			r := newRig(t, Options{})
			r.set(t, d, Mode{Kind: k})
			w := NewWatch([]*Link{r.Link})
			dial(t, r.Link)
			r.srv.next(t)
			eventually(t, "it is counted", func() bool { return w.Total().ConnsBlackholed == 1 })
		})
	}
}

// Whatever else uses zerolog in this process keeps its level.
func TestZerologIsLeftAlone(t *testing.T) {
	t.Parallel()
	before := zerolog.GlobalLevel()
	r := newRig(t, Options{})
	r.write(t, Up, "x")
	r.expect(t, Up, "x")
	must(t, r.fab.Close())
	if after := zerolog.GlobalLevel(); after != before {
		t.Errorf("the global level went from %v to %v", before, after)
	}
}

func echo(c *net.TCPConn) {
	b := make([]byte, 32<<10)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

func TestUpstreamThatRefuses(t *testing.T) {
	t.Parallel()
	s := newServerAt(t, "127.0.0.2:0")
	f := newFabric(t, Options{})
	l := addLink(t, f, "w1", "n1", s.addr())
	s.ln.Close()
	for i := range int64(3) {
		if err := refused(t, l); !wasReset(err) {
			t.Errorf("the client of a dead upstream sees %v, want a reset", err)
		}
		if c := l.Counters(); c.ConnsUnreachable != i+1 || c.ConnsOpened != 0 {
			t.Errorf("%+v", c)
		}
	}
	// The upstream comes back at the same address, as a restarted node does.
	ln, err := net.Listen("tcp", l.Upstream())
	must(t, err)
	defer ln.Close()
	c := dial(t, l)
	u, err := ln.Accept()
	must(t, err)
	defer u.Close()
	_, err = io.WriteString(c, "hello again")
	must(t, err)
	expectOn(t, u.(*net.TCPConn), "hello again")
}

// TestUpstreamThatIsLate: an upstream is asked for as long as the link has patience, which notices what is cut.
func TestUpstreamThatIsLate(t *testing.T) {
	t.Parallel()
	s := newServerAt(t, "127.0.0.2:0")
	f := newFabric(t, Options{})
	l, err := f.Add(Spec{From: "n1", To: "n2", Listen: "127.0.0.1:0", Upstream: s.addr(), Patience: 10 * time.Second})
	must(t, err)
	s.ln.Close()
	c := dial(t, l)
	time.Sleep(5 * redial)
	if n := l.Counters(); n.ConnsAccepted != 1 || n.ConnsUnreachable != 0 {
		t.Errorf("%+v", n)
	}
	ln, err := net.Listen("tcp", l.Upstream())
	must(t, err)
	u, err := ln.Accept()
	must(t, err)
	defer u.Close()
	_, err = io.WriteString(c, "hello at last")
	must(t, err)
	expectOn(t, u.(*net.TCPConn), "hello at last")

	ln.Close()
	late := dial(t, l)
	time.Sleep(5 * redial)
	must(t, l.SetBoth(t.Context(), Mode{Kind: Close}))
	if err := ended(t, late); !wasReset(err) {
		t.Errorf("the client of a link that is closed sees %v, want a reset", err)
	}
}

// blackhole returns an address whose kernel does not answer a SYN: a listener
// whose queue is full and that does not accept.
func blackhole(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, syscall.Listen(fd, 0))
	sa, err := syscall.Getsockname(fd)
	must(t, err)
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*syscall.SockaddrInet4).Port}).String()
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("this kernel accepts into a full queue")
	return ""
}

func TestUpstreamThatSwallows(t *testing.T) {
	t.Parallel()
	const clients, timeout = 20, time.Second
	dead := blackhole(t)
	s := newServer(t)
	f := newFabric(t, Options{DialTimeout: timeout})
	bad := addLink(t, f, "w1", "n1", dead)
	good := addLink(t, f, "w1", "n2", s.addr())

	start := time.Now()
	var conns []*net.TCPConn
	for range clients {
		conns = append(conns, dial(t, bad)) // never waits: accepting goes on
	}
	// Another link serves at once.
	c := dial(t, good)
	_, err := io.WriteString(c, "hello")
	must(t, err)
	expectOn(t, s.next(t), "hello")

	for _, c := range conns {
		if err := ended(t, c); !wasReset(err) {
			t.Errorf("the client of a black hole sees %v, want a reset", err)
		}
	}
	// In a loop that dials serially it would be 20 times the timeout.
	if took := time.Since(start); took > clients*timeout/2 {
		t.Errorf("%d clients took %v", clients, took)
	}
	if c := bad.Counters(); c.ConnsUnreachable != clients || c.ConnsAccepted != clients {
		t.Errorf("%+v", c)
	}
}

func TestDialIsAbandoned(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		end  func(*testing.T, *Fabric, *Link) error
	}{
		{"by close mode", func(t *testing.T, _ *Fabric, l *Link) error { return l.Set(ctxOf(t), Down, Mode{Kind: Close}) }},
		{"by the end", func(t *testing.T, f *Fabric, l *Link) error { return f.Close() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFabric(t, Options{DialTimeout: time.Hour})
			l := addLink(t, f, "w1", "n1", blackhole(t))
			c := dial(t, l)
			eventually(t, "the link dials", func() bool { return l.Counters().ConnsAccepted == 1 })
			prompt(t, tc.name, func() error { return tc.end(t, f, l) })
			if err := ended(t, c); !wasReset(err) {
				t.Errorf("the client sees %v, want a reset", err)
			}
			if c := l.Counters(); c.ConnsRefused != 1 || c.ConnsOpened != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}
