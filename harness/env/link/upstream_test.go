package link

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

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
