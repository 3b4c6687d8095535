package link

import (
	"context"
	"errors"
	"testing"
	"time"
)

func newProbe(t testing.TB, l *Link) *Probe {
	t.Helper()
	p, err := l.Probe()
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

// stays fails if a byte that is under way in the direction comes out.
func stays(t testing.TB, p *Probe, d Dir, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), quiet)
	defer cancel()
	if err := p.Await(ctx, d); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%s: %v, want %d bytes inside", d, err, n)
	}
	if got, err := p.Pending(d); got != n || err != nil {
		t.Fatalf("%s: %d bytes pending, %v, want %d", d, got, err, n)
	}
}

// A probe shows each mode of its direction, and nothing of the other one.
func TestProbeShowsTheMode(t *testing.T) {
	t.Parallel()
	forDirs(t, func(t *testing.T, d Dir) {
		r := newRig(t, Options{})
		p := newProbe(t, r.Link)
		send := func(d Dir) { t.Helper(); must(t, p.Send(d)) }
		await := func(d Dir) { t.Helper(); must(t, p.Await(ctxOf(t), d)) }
		send(d)
		await(d)

		r.set(t, d, Mode{Kind: Stall})
		send(d)
		send(1 - d)
		await(1 - d)
		stays(t, p, d, 1)
		r.set(t, d, Mode{Kind: Pass})
		await(d)

		const latency = 50 * time.Millisecond
		r.set(t, d, Mode{Kind: Latency, Latency: latency})
		send(d)
		await(d)
		if all := p.Passages(d); len(all) != 3 || all[2].Took() < latency {
			t.Errorf("delayed: %+v", all)
		}

		r.set(t, d, Mode{Kind: Drop})
		send(d)
		stays(t, p, d, 1)
		r.set(t, d, Mode{Kind: Pass})
		if err := p.Await(ctxOf(t), d); !wasReset(err) {
			t.Errorf("after a drop: %v", err)
		}

		r.set(t, d, Mode{Kind: Close})
		if _, err := r.Probe(); !errors.Is(err, ErrRefused) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Whoever reads counters sees other connections alone.
func TestProbeIsNotCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	before := r.Counters()
	p := newProbe(t, r.Link)
	for _, m := range []Mode{{Kind: Pass}, {Kind: Stall}, {Kind: Latency, Latency: time.Millisecond}, {Kind: Drop}} {
		for _, d := range Dirs {
			r.set(t, d, m)
			must(t, p.Send(d))
			if m.Kind != Stall && m.Kind != Drop {
				must(t, p.Await(ctxOf(t), d))
			}
		}
	}
	if now := r.Counters(); now != before {
		t.Errorf("while it was open:\ngot  %+v\nwant %+v", now, before)
	}
	p.Close()
	if now := r.Counters(); now != before {
		t.Errorf("when it was over:\ngot  %+v\nwant %+v", now, before)
	}
}

// A probe needs nobody behind the link, ends with it, and cannot be had of one that is gone.
func TestProbeAlone(t *testing.T) {
	t.Parallel()
	f := newFabric(t, Options{})
	l := addLink(t, f, "a", "b", "127.0.0.1:1")
	p := newProbe(t, l)
	for _, d := range Dirs {
		must(t, p.Send(d))
		must(t, p.Await(ctxOf(t), d))
	}
	must(t, f.Close())
	for _, d := range Dirs {
		eventually(t, "the probe ends with its link", func() bool {
			_, err := p.Pending(d)
			return err != nil
		})
	}
	if _, err := l.Probe(); !errors.Is(err, ErrClosed) {
		t.Errorf("of a link that is gone: %v", err)
	}
}
