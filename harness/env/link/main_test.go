package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// No goroutine is excepted: streams end by their sockets, and Toxiproxy's own
// leaks come from editing chains and from its accept loop, which are not used.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test. It is only ever spent by a failing one.
const patience = 30 * time.Second

// quiet is how long a socket must stay silent to count as silent. It cannot make
// a correct link fail; the counters, which are exact, are checked beside it.
const quiet = 30 * time.Millisecond

func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// failer is testing.TB or *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually looks at the condition until it holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// server accepts connections and hands them to the test.
type server struct {
	ln    net.Listener
	conns chan *net.TCPConn
}

func newServer(t testing.TB) *server { return newServerAt(t, "127.0.0.1:0") }

// newServerAt takes an address of its own, such as 127.0.0.2:0, for tests that
// give a port up and want it back: no other test listens there meanwhile.
func newServerAt(t testing.TB, addr string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	must(t, err)
	s := &server{ln: ln, conns: make(chan *net.TCPConn, 1024)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns <- c.(*net.TCPConn)
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
		close(s.conns)
		for c := range s.conns {
			c.Close()
		}
	})
	return s
}

func (s *server) addr() string { return s.ln.Addr().String() }

// next returns the next accepted connection.
func (s *server) next(t testing.TB) *net.TCPConn {
	t.Helper()
	select {
	case c := <-s.conns:
		t.Cleanup(func() { c.Close() })
		return c
	case <-time.After(patience):
		t.Fatal("no connection reached the server")
		return nil
	}
}

// handle serves every connection with f until the test ends.
func handle(t testing.TB, f func(*net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	live := map[*net.TCPConn]bool{}
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			c := nc.(*net.TCPConn)
			mu.Lock()
			live[c] = true
			mu.Unlock()
			wg.Go(func() {
				f(c)
				c.Close()
				mu.Lock()
				delete(live, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range live {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

func newFabric(t testing.TB, o Options) *Fabric {
	t.Helper()
	f := NewFabric(o)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close the fabric: %v", err)
		}
	})
	return f
}

func addLink(t testing.TB, f *Fabric, from, to, upstream string) *Link {
	t.Helper()
	l, err := f.Add(Spec{From: from, To: to, Listen: "127.0.0.1:0", Upstream: upstream, Seed: 1})
	must(t, err)
	return l
}

func dial(t testing.TB, l *Link) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", l.Addr(), patience)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// rig is one connection through one link: both ends by direction.
type rig struct {
	*Link
	fab  *Fabric
	srv  *server
	send [2]*net.TCPConn // by Dir
	recv [2]*net.TCPConn
}

func newRig(t testing.TB, o Options) *rig { return newRigAt(t, "127.0.0.1:0", o) }

func newRigAt(t testing.TB, listen string, o Options) *rig {
	t.Helper()
	s := newServer(t)
	f := newFabric(t, o)
	l, err := f.Add(Spec{From: "w1", To: "n1", Listen: listen, Upstream: s.addr(), Seed: 1})
	must(t, err)
	c := dial(t, l)
	u := s.next(t)
	eventually(t, "the link opens the connection", func() bool { return l.Counters().ConnsOpen == 1 })
	return &rig{Link: l, fab: f, srv: s, send: [2]*net.TCPConn{c, u}, recv: [2]*net.TCPConn{u, c}}
}

func (r *rig) write(t testing.TB, d Dir, b string) {
	t.Helper()
	_, err := io.WriteString(r.send[d], b)
	must(t, err)
}

// expect reads exactly b.
func (r *rig) expect(t testing.TB, d Dir, b string) {
	t.Helper()
	expectOn(t, r.recv[d], b)
}

func expectOn(t testing.TB, c *net.TCPConn, b string) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, len(b))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatalf("read %q: %v", b, err)
	}
	if string(got) != b {
		t.Fatalf("got %q, want %q", got, b)
	}
}

// silent fails if anything, an end included, arrives.
func (r *rig) silent(t testing.TB, d Dir) {
	t.Helper()
	must(t, r.recv[d].SetReadDeadline(time.Now().Add(quiet)))
	var b [1]byte
	if n, err := r.recv[d].Read(b[:]); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s is not silent: %d bytes, %v", d, n, err)
	}
	must(t, r.recv[d].SetReadDeadline(time.Now().Add(patience)))
}

// received waits until the link has taken n bytes in all.
func (r *rig) received(t testing.TB, d Dir, n int64) {
	t.Helper()
	eventually(t, "the link receives the bytes", func() bool { return r.Counters().Dir(d).ReceivedBytes == n })
}

func (r *rig) set(t testing.TB, d Dir, m Mode) {
	t.Helper()
	must(t, r.Set(ctxOf(t), d, m))
}

// ended returns how the connection ends: nil for an orderly end.
func ended(t testing.TB, c *net.TCPConn) error {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection does not end")
	}
	return err
}

func wasReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// settles waits until the counters of a direction are as wanted: a receiver can
// have read bytes before the write that delivered them has returned.
func (r *rig) settles(t testing.TB, d Dir, want DirCounters) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for r.Counters().Dir(d) != want {
		if time.Now().After(deadline) {
			t.Fatalf("%s: got  %+v\nwant %+v", d, r.Counters().Dir(d), want)
		}
		runtime.Gosched()
	}
}

// check compares the counters of a direction now.
func check(t testing.TB, what string, got, want DirCounters) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got  %+v\nwant %+v", what, got, want)
	}
}

// refused connects and returns how the link gets rid of the client. The reset may
// come before connect has returned.
func refused(t testing.TB, l *Link) error {
	t.Helper()
	c, err := net.DialTimeout("tcp", l.Addr(), patience)
	if err != nil {
		return err
	}
	defer c.Close()
	return ended(t, c.(*net.TCPConn))
}
