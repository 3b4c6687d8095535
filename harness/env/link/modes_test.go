package link

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

func forDirs(t *testing.T, f func(t *testing.T, d Dir)) {
	for _, d := range Dirs {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			f(t, d)
		})
	}
}

func other(d Dir) Dir { return 1 - d }

func TestPassCarriesBothWaysAndCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.write(t, Up, "request")
	r.expect(t, Up, "request")
	r.write(t, Down, "an answer")
	r.expect(t, Down, "an answer")
	r.settles(t, Up, DirCounters{ReceivedBytes: 7, PassedBytes: 7})
	r.settles(t, Down, DirCounters{ReceivedBytes: 9, PassedBytes: 9})
	c := r.Counters()
	if c.ConnsAccepted != 1 || c.ConnsOpened != 1 || c.ConnsOpen != 1 || c.ConnsClosed != 0 {
		t.Errorf("connections: %+v", c)
	}
	r.send[Up].Close()
	if err := ended(t, r.recv[Up]); err != nil {
		t.Errorf("the server sees %v, want an orderly end", err)
	}
	r.recv[Up].Close()
	eventually(t, "closed", func() bool { c := r.Counters(); return c.ConnsClosed == 1 && c.ConnsOpen == 0 })
	if c := r.Counters(); c.ConnsCut != 0 || c.Up.LostBytes != 0 {
		t.Errorf("an orderly end counts as a cut: %+v", c)
	}
}

func TestStallHoldsAndHealingDelivers(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{})
		r.write(t, d, "before ")
		r.expect(t, d, "before ")
		r.set(t, d, Mode{Kind: Stall})
		r.write(t, d, "held ")
		r.received(t, d, 12)
		r.silent(t, d)
		check(t, "stalled", r.Counters().Dir(d), DirCounters{ReceivedBytes: 12, PassedBytes: 7, PendingBytes: 5, HeldBytes: 5, HeldTotalBytes: 5})

		// The other direction knows nothing of it.
		r.write(t, other(d), "other")
		r.expect(t, other(d), "other")

		r.set(t, d, Mode{Kind: Pass})
		r.write(t, d, "after")
		r.expect(t, d, "held after")
		r.settles(t, d, DirCounters{ReceivedBytes: 17, PassedBytes: 17, HeldTotalBytes: 5})
	})
}

func TestStallHoldsTheEnd(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		for _, how := range []string{"orderly", "reset"} {
			t.Run(how, func(t *testing.T) {
				r := newRig(t, Options{})
				r.set(t, d, Mode{Kind: Stall})
				r.write(t, d, "last words")
				r.received(t, d, 10)
				if how == "orderly" {
					must(t, r.send[d].CloseWrite())
				} else {
					reset(r.send[d])
				}
				r.silent(t, d)
				r.set(t, d, Mode{Kind: Pass})
				if how == "orderly" {
					b, err := io.ReadAll(r.recv[d])
					if string(b) != "last words" || err != nil {
						t.Errorf("got %q, %v", b, err)
					}
					return
				}
				if err := ended(t, r.recv[d]); !wasReset(err) {
					t.Errorf("the receiver of a reset sees %v", err)
				}
			})
		}
	})
}

func TestStallBackpressureIsBoundedAndLossless(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		const size, maxHeld = 24 << 20, 256 << 10
		r := newRig(t, Options{MaxHeld: maxHeld})
		r.set(t, d, Mode{Kind: Stall})
		sent := make(chan error, 1)
		go func() {
			_, err := r.send[d].Write(pattern(0, size))
			sent <- err
		}()
		eventually(t, "the buffer fills", func() bool { return r.Counters().Dir(d).HeldBytes >= maxHeld*3/4 })
		r.silent(t, d)
		if err := r.send[d].SetWriteDeadline(time.Now().Add(quiet)); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err == nil {
			t.Fatalf("%d bytes went into a stalled link", size)
		}
		c := r.Counters().Dir(d)
		// Toxiproxy's reader and chain have a chunk of 32 KiB each in hand.
		if limit := int64(maxHeld + 4*32<<10); c.HeldBytes > limit || c.PassedBytes != 0 {
			t.Errorf("held %d, want at most %d; passed %d", c.HeldBytes, limit, c.PassedBytes)
		}
		if c.HeldTotalBytes != c.HeldBytes {
			t.Errorf("held in all %d, held now %d", c.HeldTotalBytes, c.HeldBytes)
		}
		r.set(t, d, Mode{Kind: Pass})
		must(t, r.send[d].CloseWrite())
		got, err := io.ReadAll(r.recv[d])
		must(t, err)
		if string(got) != string(pattern(0, len(got))) || len(got) < maxHeld {
			t.Errorf("%d bytes arrived, not those sent", len(got))
		}
		n := int64(len(got))
		eventually(t, "all is counted", func() bool {
			c := r.Counters().Dir(d)
			return c.PassedBytes == n && c.ReceivedBytes == n
		})
	})
}

func TestFlushDeliversWhatIsHeldAndHoldsOn(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{})
		r.set(t, d, Mode{Kind: Stall})
		n, err := Flush(ctxOf(t), End{r.Link, d})
		if n != 0 || err != nil {
			t.Errorf("flush of nothing: %d, %v", n, err)
		}
		r.write(t, d, "one ")
		r.received(t, d, 4)
		n, err = Flush(ctxOf(t), End{r.Link, d})
		if n != 4 || err != nil {
			t.Errorf("flush: %d, %v", n, err)
		}
		check(t, "flushed", r.Counters().Dir(d), DirCounters{ReceivedBytes: 4, PassedBytes: 4, HeldTotalBytes: 4})
		r.expect(t, d, "one ")
		r.write(t, d, "two ")
		r.received(t, d, 8)
		r.silent(t, d)
		check(t, "held on", r.Counters().Dir(d), DirCounters{ReceivedBytes: 8, PassedBytes: 4, PendingBytes: 4, HeldBytes: 4, HeldTotalBytes: 8})

		must(t, r.send[d].CloseWrite())
		rest := make(chan string, 1)
		go func() {
			b, err := io.ReadAll(r.recv[d])
			rest <- fmt.Sprint(string(b), err)
		}()
		eventually(t, "the end is flushed too", func() bool {
			_, err := Flush(ctxOf(t), End{r.Link, d})
			must(t, err)
			return len(rest) == 1
		})
		if got := <-rest; got != "two <nil>" {
			t.Errorf("after the flush of the end: %s", got)
		}
	})
}

func TestFlushNeedsAStall(t *testing.T) {
	t.Parallel()
	for _, m := range []Mode{{Kind: Pass}, {Kind: Latency, Latency: time.Second}, {Kind: Drop}, {Kind: Close}} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			r.set(t, Up, m)
			var op *OpError
			if _, err := Flush(ctxOf(t), End{r.Link, Up}); !errors.Is(err, ErrNotStalled) || !errors.As(err, &op) || op.Link != "w1->n1" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDropLosesBytesAndHealingResets(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		for _, next := range []Mode{{Kind: Pass}, {Kind: Stall}, {Kind: Latency, Latency: time.Millisecond}} {
			t.Run(next.String(), func(t *testing.T) {
				r := newRig(t, Options{})
				r.set(t, d, Mode{Kind: Drop})
				quietConn := dial(t, r.Link) // loses nothing, so it may live
				quietPeer := r.srv.next(t)
				eventually(t, "it is open", func() bool { return r.Counters().ConnsOpen == 2 })
				r.write(t, d, "lost")
				r.received(t, d, 4)
				r.silent(t, d)
				eventually(t, "dropped", func() bool { return r.Counters().Dir(d).DroppedBytes == 4 })
				r.write(t, other(d), "other")
				r.expect(t, other(d), "other")

				r.set(t, d, Mode{Kind: Drop}) // no change, so no cut
				if c := r.Counters(); c.ConnsOpen != 2 || c.ConnsBlackholed != 1 {
					t.Errorf("during the drop: %+v", c)
				}
				r.set(t, d, next)
				// All of it holds when Set returns.
				c := r.Counters()
				check(t, "healed", c.Dir(d), DirCounters{ReceivedBytes: 4, DroppedBytes: 4})
				if c.ConnsOpen != 1 || c.ConnsCut != 1 || c.ConnsClosed != 1 {
					t.Errorf("after the drop: %+v", c)
				}
				for _, e := range []Dir{Up, Down} {
					if err := ended(t, r.recv[e]); !wasReset(err) {
						t.Errorf("%s ends with %v, want a reset", e, err)
					}
				}
				r.set(t, d, Mode{Kind: Pass})
				_, err := io.WriteString(quietConn, "alive")
				must(t, err)
				expectOn(t, quietPeer, "alive")
			})
		}
	})
}

func TestDropTakesWhatWasHeld(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		for _, first := range []Mode{{Kind: Stall}, {Kind: Latency, Latency: time.Hour}} {
			t.Run(first.String(), func(t *testing.T) {
				r := newRig(t, Options{})
				r.set(t, d, first)
				r.write(t, d, "doomed")
				r.received(t, d, 6)
				r.set(t, d, Mode{Kind: Drop})
				eventually(t, "dropped", func() bool { return r.Counters().Dir(d).DroppedBytes == 6 })
				r.set(t, d, Mode{Kind: Pass})
				if err := ended(t, r.recv[d]); !wasReset(err) {
					t.Errorf("ends with %v, want a reset", err)
				}
			})
		}
	})
}

func TestDropHoldsTheEnd(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{})
		r.set(t, d, Mode{Kind: Drop})
		must(t, r.send[d].CloseWrite())
		r.silent(t, d)
		r.set(t, d, Mode{Kind: Pass})
		if err := ended(t, r.recv[d]); err != nil {
			t.Errorf("no byte was lost, yet the stream ends with %v", err)
		}
	})
}

func TestCloseResetsAndRefuses(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{})
		r.set(t, d, Mode{Kind: Close})
		if c := r.Counters(); c.ConnsOpen != 0 || c.ConnsCut != 1 || c.ConnsClosed != 1 {
			t.Errorf("when Set returned: %+v", c)
		}
		for _, e := range Dirs {
			if err := ended(t, r.recv[e]); !wasReset(err) {
				t.Errorf("%s ends with %v, want a reset", e, err)
			}
		}
		for range 3 {
			if err := refused(t, r.Link); !wasReset(err) {
				t.Errorf("a new connection ends with %v, want a reset", err)
			}
		}
		if c := r.Counters(); c.ConnsRefused != 3 || c.ConnsOpened != 1 || c.ConnsAccepted != 4 {
			t.Errorf("refusals: %+v", c)
		}
		r.set(t, d, Mode{Kind: Pass})
		c := dial(t, r.Link)
		_, err := io.WriteString(c, "again")
		must(t, err)
		expectOn(t, r.srv.next(t), "again")
	})
}

func TestCloseCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.set(t, Up, Mode{Kind: Stall})
	r.write(t, Up, "inside")
	r.received(t, Up, 6)
	r.set(t, Up, Mode{Kind: Close})
	check(t, "closed", r.Counters().Up, DirCounters{ReceivedBytes: 6, LostBytes: 6, HeldTotalBytes: 6})
}

func TestModeValidation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		m  Mode
		ok bool
	}{
		{Mode{Kind: Pass}, true}, {Mode{Kind: Stall}, true}, {Mode{Kind: Drop}, true}, {Mode{Kind: Close}, true},
		{Mode{Kind: Latency, Latency: 1}, true}, {Mode{Kind: Latency, Jitter: 1}, true},
		{Mode{}, false}, {Mode{Kind: "slow"}, false}, {Mode{Kind: Latency}, false},
		{Mode{Kind: Latency, Latency: -1, Jitter: 1}, false}, {Mode{Kind: Latency, Latency: 1, Jitter: -1}, false},
		{Mode{Kind: Pass, Latency: 1}, false}, {Mode{Kind: Drop, Jitter: 1}, false},
	} {
		err := tc.m.Validate()
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrMode) {
			t.Errorf("%+v: %v", tc.m, err)
		}
	}
	r := newRig(t, Options{})
	for _, c := range []Change{{End{r.Link, Up}, Mode{}}, {End{r.Link, 2}, Mode{Kind: Pass}}, {End{nil, Up}, Mode{Kind: Pass}}} {
		good := Change{End{r.Link, Down}, Mode{Kind: Stall}}
		if err := Apply(ctxOf(t), good, c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if m := r.Mode(Down); m.Kind != Pass {
		t.Errorf("an operation with an invalid change switched a link to %s", m)
	}
}

// pattern is a stretch of an endless sequence in which every place is told apart.
func pattern(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		k := from + i
		b[i] = byte(k ^ k>>8 ^ k>>16)
	}
	return b
}
