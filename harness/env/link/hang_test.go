package link

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// These are the ways in which a Toxiproxy whose chains are edited hangs for good
// or leaks: a client that does not read, and abrupt closes under churn.

// prompt fails if an operation takes so long that it can only have waited for
// a peer. Goroutine leaks are TestMain's business.
func prompt(t testing.TB, what string, f func() error) {
	t.Helper()
	start := time.Now()
	must(t, f())
	if d := time.Since(start); d > DefaultWatchdog {
		t.Errorf("%s took %v", what, d)
	}
}

// full fills the path of a direction whose receiver does not read, until
// neither the sender nor the link moves a byte any more.
func full(t testing.TB, r *rig, d Dir) (sent int64) {
	t.Helper()
	block := make([]byte, 1<<20)
	deadline := time.Now().Add(patience)
	for still := 0; time.Now().Before(deadline); {
		must(t, r.send[d].SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		n, _ := r.send[d].Write(block)
		sent += int64(n)
		still++
		if n > 0 || !writing(r, d) {
			still = 0
		}
		if still == 4 {
			must(t, r.send[d].SetWriteDeadline(time.Time{}))
			return sent
		}
	}
	t.Fatalf("%d bytes went into a link that nobody reads from", sent)
	return 0
}

// writing reports whether a write to the receiver is under way.
func writing(r *rig, d Dir) bool {
	open, _ := r.live()
	for _, c := range open {
		f := c.flows[d]
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.writing
	}
	return false
}

func TestReceiverThatDoesNotRead(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		for _, m := range []Mode{{Kind: Stall}, {Kind: Drop}, {Kind: Latency, Latency: time.Second}, {Kind: Close}} {
			t.Run(m.String(), func(t *testing.T) {
				r := newRig(t, Options{MaxHeld: 1 << 20})
				full(t, r, d)
				prompt(t, "set", func() error { return r.Set(ctxOf(t), d, m) })
				prompt(t, "heal", func() error { return r.SetBoth(ctxOf(t), Mode{Kind: Pass}) })
				// Others are served.
				c := dial(t, r.Link)
				_, err := io.WriteString(c, "hello")
				must(t, err)
				expectOn(t, r.srv.next(t), "hello")
				prompt(t, "close", r.fab.Close)
			})
		}
	})
}

// Not one byte moves once a stall is in force, even those that a stuck write had
// under way when the receiver begins to read; healing delivers all of them.
func TestStallStopsAWriteUnderWay(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{MaxHeld: 1 << 20})
		sent := full(t, r, d)
		r.set(t, d, Mode{Kind: Stall})
		before := r.Counters().Dir(d)
		got, err := io.ReadAll(io.LimitReader(r.recv[d], before.PassedBytes))
		must(t, err)
		r.silent(t, d)
		after := r.Counters().Dir(d)
		if after.PassedBytes != before.PassedBytes || int64(len(got)) != before.PassedBytes {
			t.Errorf("passed %d before and %d after, read %d", before.PassedBytes, after.PassedBytes, len(got))
		}
		// Reading went on meanwhile, so the exact figure is today's: all that is inside
		// is held, and was counted as held once.
		if after.HeldBytes != after.PendingBytes || after.HeldTotalBytes != after.HeldBytes || after.HeldBytes == 0 {
			t.Errorf("held: %+v", after)
		}
		r.set(t, d, Mode{Kind: Pass})
		must(t, r.send[d].CloseWrite())
		rest, err := io.Copy(io.Discard, r.recv[d])
		if err != nil || before.PassedBytes+rest != sent {
			t.Errorf("%d of %d bytes arrived, %v", before.PassedBytes+rest, sent, err)
		}
	})
}

func TestDropStopsAWriteUnderWay(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{MaxHeld: 1 << 20})
		sent := full(t, r, d)
		r.set(t, d, Mode{Kind: Drop})
		passed := r.Counters().Dir(d).PassedBytes
		eventually(t, "all the rest is dropped", func() bool {
			c := r.Counters().Dir(d)
			return c.PassedBytes == passed && c.DroppedBytes == sent-passed
		})
		r.set(t, d, Mode{Kind: Pass})
		if c := r.Counters(); c.ConnsCut != 1 {
			t.Errorf("the connection outlives its loss: %+v", c)
		}
	})
}

func TestFlushWatchdog(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Watchdog: 3 * time.Second, MaxHeld: 1 << 20})
	full(t, r, Up)
	r.set(t, Up, Mode{Kind: Stall})
	_, err := Flush(context.Background(), End{r.Link, Up})
	var w *WatchdogError
	if !errors.As(err, &w) || !errors.Is(err, ErrWatchdog) || !errors.Is(err, context.DeadlineExceeded) || w.Link != "w1->n1" || w.Op != "flush" {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Flush(ctx, End{r.Link, Up}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrWatchdog) {
		t.Errorf("with a cancelled context: %v", err)
	}
	// A cancelled context does not keep a link from healing.
	if err := r.Set(ctx, Up, Mode{Kind: Pass}); err != nil || r.Mode(Up).Kind != Pass {
		t.Errorf("heal with a cancelled context: %v, mode %s", err, r.Mode(Up))
	}
}

// Abrupt closes with answers in flight while modes change all the time.
func TestChurn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		answer, count int
	}{{"20 kB x 4", 20_000, 4}, {"300 B x 4", 300, 4}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			churn(t, make([]byte, tc.answer), tc.count)
		})
	}
}

func churn(t *testing.T, answer []byte, count int) {
	const clients, conns = 12, 1500
	upstream := handle(t, func(c *net.TCPConn) {
		var b [64]byte
		for {
			if _, err := io.ReadFull(c, b[:]); err != nil {
				return
			}
			for range count {
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}
	})
	f := newFabric(t, Options{MaxHeld: 128 << 10})
	l := addLink(t, f, "w1", "n1", upstream)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var dials atomic.Int64
	for i := range clients {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", l.Addr())
				if err != nil {
					continue
				}
				dials.Add(1)
				for range rng.IntN(4) {
					_, _ = c.Write(make([]byte, 64))
				}
				_ = c.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(3)) * time.Millisecond))
				_, _ = io.CopyN(io.Discard, c, int64(rng.IntN(2*len(answer))))
				switch rng.IntN(3) {
				case 0:
					reset(c.(*net.TCPConn))
				case 1:
					_ = c.(*net.TCPConn).CloseWrite()
					_ = c.Close()
				default:
					_ = c.Close()
				}
			}
		})
	}
	modes := []Mode{{Kind: Pass}, {Kind: Stall}, {Kind: Drop}, {Kind: Close}, {Kind: Latency, Latency: time.Millisecond, Jitter: time.Millisecond}}
	var setters sync.WaitGroup
	var worst, switches atomic.Int64
	for i := range 2 {
		rng := rand.New(rand.NewPCG(uint64(i), 8))
		setters.Go(func() {
			var prev Counters
			for dials.Load() < conns && !t.Failed() {
				switches.Add(1)
				start := time.Now()
				if err := l.Set(ctxOf(t), Dirs[rng.IntN(2)], modes[rng.IntN(len(modes))]); err != nil {
					t.Errorf("set: %v", err)
					return
				}
				if rng.IntN(4) == 0 {
					if _, err := Flush(ctxOf(t), End{l, Dirs[rng.IntN(2)]}); err != nil && !errors.Is(err, ErrNotStalled) {
						t.Errorf("flush: %v", err)
						return
					}
				}
				worst.Store(max(worst.Load(), int64(time.Since(start))))
				c := l.Counters()
				for _, d := range Dirs {
					if b := c.Dir(d); b.ReceivedBytes != b.PassedBytes+b.DroppedBytes+b.LostBytes+b.PendingBytes {
						t.Errorf("%s does not balance: %+v", d, b)
					}
				}
				if delta := c.Sub(prev); !grown(delta) {
					t.Errorf("a counter went back: %+v", delta)
				}
				prev = c
			}
		})
	}
	setters.Wait()
	must(t, f.Heal(ctxOf(t)))
	close(stop)
	wg.Wait()
	eventually(t, "all connections end", func() bool {
		c := l.Counters()
		return c.ConnsOpen == 0 && c.ConnsAccepted == c.ConnsOpened+c.ConnsRefused+c.ConnsUnreachable
	})
	c := l.Counters()
	for _, d := range Dirs {
		if b := c.Dir(d); b.PendingBytes != 0 || b.HeldBytes != 0 || b.ReceivedBytes != b.PassedBytes+b.DroppedBytes+b.LostBytes {
			t.Errorf("%s at the end: %+v", d, b)
		}
	}
	t.Logf("%d connections, %d switches, the slowest with its flush %v", dials.Load(), switches.Load(), time.Duration(worst.Load()))
	prompt(t, "close", f.Close)
}

func grown(c Counters) bool {
	for _, v := range []int64{
		c.ConnsAccepted, c.ConnsOpened, c.ConnsClosed, c.ConnsCut, c.ConnsRefused, c.ConnsUnreachable, c.ConnsBlackholed,
		c.Up.ReceivedBytes, c.Up.PassedBytes, c.Up.DroppedBytes, c.Up.LostBytes, c.Up.HeldTotalBytes, c.Up.DelayedBytes,
		c.Down.ReceivedBytes, c.Down.PassedBytes, c.Down.DroppedBytes, c.Down.LostBytes, c.Down.HeldTotalBytes, c.Down.DelayedBytes,
	} {
		if v < 0 {
			return false
		}
	}
	return true
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.write(t, Up, "question")
	must(t, r.send[Up].CloseWrite())
	b, err := io.ReadAll(r.recv[Up])
	if string(b) != "question" || err != nil {
		t.Fatalf("the server reads %q, %v", b, err)
	}
	r.write(t, Down, "answer")
	must(t, r.send[Down].CloseWrite())
	b, err = io.ReadAll(r.recv[Down])
	if string(b) != "answer" || err != nil {
		t.Fatalf("the client reads %q, %v", b, err)
	}
	eventually(t, "the connection is gone", func() bool { return r.Counters().ConnsClosed == 1 })
	if c := r.Counters(); c.ConnsCut != 0 || c.Up.LostBytes != 0 || c.Down.LostBytes != 0 {
		t.Errorf("%+v", c)
	}
}

func TestResetPassesThrough(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{})
		reset(r.send[d])
		if err := ended(t, r.recv[d]); !wasReset(err) {
			t.Errorf("the other side sees %v", err)
		}
		r.recv[d].Close()
		eventually(t, "the connection is gone", func() bool { return r.Counters().ConnsOpen == 0 })
	})
}
