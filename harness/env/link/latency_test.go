package link

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

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
