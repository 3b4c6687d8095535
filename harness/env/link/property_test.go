package link

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
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

func TestLatencyDelaysEachChunkAndKeepsOrder(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		const n, latency, jitter = 100, 300 * time.Millisecond, 150 * time.Millisecond
		r := newRig(t, Options{})
		r.set(t, d, Mode{Kind: Latency, Latency: latency, Jitter: jitter, Seed: 3})
		var want strings.Builder
		start := time.Now()
		for i := range n {
			s := fmt.Sprintf("message %d;", i)
			want.WriteString(s)
			r.write(t, d, s)
			// Separate chunks: the link has read one before the next is sent.
			r.received(t, d, int64(want.Len()))
		}
		r.expect(t, d, want.String())
		took := time.Since(start)
		if took < latency-jitter {
			t.Errorf("all arrived after %v, before the least delay", took)
		}
		// Served one after the other the delays add up to more than this.
		if took > n*(latency-jitter) {
			t.Errorf("%d chunks took %v: the delays do not overlap", n, took)
		}
		total := int64(want.Len())
		r.settles(t, d, DirCounters{ReceivedBytes: total, PassedBytes: total, DelayedBytes: total})
	})
}

func TestLatencyEndsWithTheMode(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		for _, via := range []Mode{{Kind: Pass}, {Kind: Latency, Latency: time.Millisecond}, {Kind: Stall}} {
			t.Run(via.String(), func(t *testing.T) {
				r := newRig(t, Options{})
				r.set(t, d, Mode{Kind: Latency, Latency: time.Hour})
				r.write(t, d, "slow")
				must(t, r.send[d].CloseWrite())
				r.received(t, d, 4)
				r.silent(t, d)
				r.set(t, d, via)
				if via.Kind == Stall {
					r.silent(t, d)
					check(t, "stalled", r.Counters().Dir(d), DirCounters{ReceivedBytes: 4, DelayedBytes: 4, PendingBytes: 4, HeldBytes: 4, HeldTotalBytes: 4})
					r.set(t, d, Mode{Kind: Pass})
				}
				if b, err := io.ReadAll(r.recv[d]); string(b) != "slow" || err != nil {
					t.Errorf("got %q, %v", b, err)
				}
			})
		}
	})
}

func TestJitterIsSeeded(t *testing.T) {
	t.Parallel()
	delays := func(name string, linkSeed, modeSeed, id uint64, d Dir) string {
		l := &Link{seed: seedOf(Spec{From: name, To: "n1", Seed: linkSeed})}
		f := &flow{conn: &conn{link: l, id: id}, dir: d, ctl: newControl()}
		st := &modeState{Mode: Mode{Kind: Latency, Latency: 50 * time.Millisecond, Jitter: 20 * time.Millisecond, Seed: modeSeed}}
		var out []string
		var zero time.Time
		for range 50 {
			k := f.delayed(st, &chunk{}, zero)
			at := k.due.Sub(zero)
			if at < 30*time.Millisecond || at > 70*time.Millisecond {
				t.Fatalf("delay %v out of 50±20 ms", at)
			}
			out = append(out, at.String())
		}
		return strings.Join(out, " ")
	}
	base := delays("w1", 1, 1, 0, Up)
	if again := delays("w1", 1, 1, 0, Up); again != base {
		t.Error("the same seeds give other delays")
	}
	for what, got := range map[string]string{
		"link": delays("w2", 1, 1, 0, Up), "link seed": delays("w1", 2, 1, 0, Up), "mode seed": delays("w1", 1, 2, 0, Up),
		"connection": delays("w1", 1, 1, 1, Up), "direction": delays("w1", 1, 1, 0, Down),
	} {
		if got == base {
			t.Errorf("another %s gives the same delays", what)
		}
	}
}
