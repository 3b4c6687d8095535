package link

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Any sequence of modes without Drop and Close delivers every byte of both
// directions in order and once, and the counters balance at each step.
func TestModesLoseNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	rapid.Check(t, func(rt *rapid.T) {
		f := NewFabric(Options{MaxHeld: 64 << 10})
		defer func() { must(t, f.Close()) }()
		l := addLink(t, f, "w1", "n1", s.addr())
		client := dial(t, l)
		defer client.Close()
		server := s.next(t)
		defer server.Close()
		ends := [2]io.ReadWriter{client, server}

		// Readers run all along, so that nothing but the modes holds bytes up; senders
		// are goroutines, so that backpressure holds up nobody else.
		var readers, senders sync.WaitGroup
		var got [2][]byte
		queue := [2]chan []byte{make(chan []byte, 64), make(chan []byte, 64)}
		for _, d := range Dirs {
			readers.Go(func() { got[d], _ = io.ReadAll(ends[1-d]) })
			senders.Go(func() {
				for b := range queue[d] {
					if _, err := ends[d].Write(b); err != nil {
						t.Errorf("write: %v", err)
					}
				}
			})
		}
		var sent [2]int
		ctx := context.Background()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			d := rapid.SampledFrom(Dirs[:]).Draw(rt, "dir")
			switch rapid.IntRange(0, 4).Draw(rt, "op") {
			case 0, 1:
				size := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 100_000)).Draw(rt, "size")
				queue[d] <- pattern(sent[d], size)
				sent[d] += size
			case 2:
				m := rapid.SampledFrom([]Mode{
					{Kind: Pass}, {Kind: Stall}, {Kind: Stall},
					{Kind: Latency, Latency: time.Millisecond, Jitter: time.Millisecond}, {Kind: Latency, Latency: time.Hour},
				}).Draw(rt, "mode")
				must(rt, l.Set(ctx, d, m))
			case 3:
				if l.Mode(d).Kind == Stall {
					_, err := Flush(ctx, End{l, d})
					must(rt, err)
				}
			case 4:
				must(rt, l.SetBoth(ctx, Mode{Kind: Pass}))
			}
			c := l.Counters()
			for _, d := range Dirs {
				b := c.Dir(d)
				if b.ReceivedBytes != b.PassedBytes+b.PendingBytes || b.HeldBytes > b.PendingBytes ||
					b.HeldTotalBytes > b.ReceivedBytes || b.DelayedBytes > b.ReceivedBytes || b.DroppedBytes+b.LostBytes != 0 {
					rt.Fatalf("%s does not balance: %+v", d, b)
				}
			}
		}
		must(rt, l.SetBoth(ctx, Mode{Kind: Pass}))
		for _, d := range Dirs {
			close(queue[d])
		}
		senders.Wait()
		must(rt, client.CloseWrite())
		must(rt, server.CloseWrite())
		readers.Wait()
		c := l.Counters()
		for _, d := range Dirs {
			if !bytes.Equal(got[d], pattern(0, sent[d])) {
				rt.Errorf("%s: %d bytes arrived of %d, or not those", d, len(got[d]), sent[d])
			}
			if b := c.Dir(d); b.ReceivedBytes != int64(sent[d]) || b.PassedBytes != int64(sent[d]) {
				rt.Errorf("%s: sent %d, counters %+v", d, sent[d], b)
			}
		}
	})
}

// While a direction is stalled, not one byte passes, whatever is under way when
// the stall begins.
func TestStallIsComplete(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{MaxHeld: 64 << 10})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(io.Discard, r.recv[d]) })
		wg.Go(func() {
			b := make([]byte, 3000)
			for {
				if _, err := r.send[d].Write(b); err != nil {
					return
				}
			}
		})
		for range 300 {
			r.set(t, d, Mode{Kind: Stall})
			w := NewWatch([]*Link{r.Link})
			base := r.Counters().Dir(d).HeldTotalBytes
			eventually(t, "bytes run into the stall", func() bool { return r.Counters().Dir(d).HeldBytes > 3000 })
			if c := w.Total().Dir(d); c.PassedBytes != 0 || base == 0 && c.HeldTotalBytes == 0 {
				t.Fatalf("during a stall: %+v", c)
			}
			r.set(t, d, Mode{Kind: Pass})
		}
		must(t, r.fab.Close())
		wg.Wait()
	})
}

// After a loss not one byte follows: what a receiver reads is always a prefix of
// what was sent, however the end of a drop races with the sender.
func TestNothingFollowsALoss(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		for range 150 {
			r := newRig(t, Options{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for at := 0; ; at += 1024 { // until the loss ends the connection
					if _, err := r.send[d].Write(pattern(at, 1024)); err != nil {
						return
					}
				}
			})
			var got []byte
			wg.Go(func() { got, _ = io.ReadAll(r.recv[d]) })
			r.set(t, d, Mode{Kind: Drop})
			eventually(t, "bytes are dropped", func() bool { return r.Counters().Dir(d).DroppedBytes > 0 })
			r.set(t, d, Mode{Kind: Pass})
			wg.Wait()
			if !bytes.Equal(got, pattern(0, len(got))) {
				t.Fatalf("%d bytes arrived that are not the first ones sent", len(got))
			}
			must(t, r.fab.Close())
		}
	})
}
