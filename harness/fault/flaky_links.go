package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/target/workload"
)

func init() {
	register(Kind{
		Name: "flaky-links", On: Worker, Family: FamilyLinks,
		About: "workers' links take turns to stall, drop, close and slow down, each for a fraction of a second",
		Proof: "After each change a connection of the harness's own through that link behaves as the change says. " +
			"Bytes of others were held or dropped, and some passed",
		Swarm: &Draw{Place: 6},
		New:   func(s Spec) (Fault, error) { return flakyLinks{s.Seed}, nil },
	})
}

// flakyLinks changes the mode of one link after the other, by the seed.
type flakyLinks struct{ seed uint64 }

// flakyModes are drawn from evenly; pass, so that something works in between.
var flakyModes = []link.Mode{
	{Kind: link.Pass}, {Kind: link.Pass}, {Kind: link.Stall}, {Kind: link.Drop}, {Kind: link.Close},
	{Kind: link.Latency, Latency: 150 * time.Millisecond, Jitter: 100 * time.Millisecond},
}

// flakyPause is the mean time between two changes.
const flakyPause = 150 * time.Millisecond

func (p flakyLinks) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	of, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	links := of.all()
	// Pass is no change, but takes the ends and starts the watch.
	ends := link.Ends(links)
	s, err := newSwitched(ctx, env, ends, link.Mode{Kind: link.Pass}, func(ctx context.Context, t *trial) error {
		defer t.close() // each change has a probe of its own
		return t.passes(ctx, ends)
	})
	if err != nil {
		return nil, err
	}
	a := &activeFlaky{switched: s, links: links, stop: make(chan struct{}), done: make(chan struct{})}
	go a.flip(p.seed)
	return a, nil
}

type activeFlaky struct {
	*switched
	links []*link.Link
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once

	mu     sync.Mutex
	flips  int
	err    error // of a switch
	differ error // a link does not behave as it was switched: the first
}

func (a *activeFlaky) flip(seed uint64) {
	defer close(a.done)
	rng := workload.Rand(seed, "flaky-links")
	for {
		// What the look at a change takes is part of the pause after it.
		t := time.NewTimer(time.Duration((0.5 + rng.Float64()) * float64(flakyPause)))
		l, m := a.links[rng.IntN(len(a.links))], flakyModes[rng.IntN(len(flakyModes))]
		ctx, cancel := context.WithTimeout(context.Background(), OpTimeout)
		err := a.env.set(ctx, link.Ends([]*link.Link{l}), m)
		var differ error
		if err == nil {
			differ = behaves(ctx, l, m)
		}
		cancel()
		a.mu.Lock()
		a.flips++
		a.err, a.differ = cmp.Or(a.err, err), cmp.Or(a.differ, differ)
		a.mu.Unlock()
		select {
		case <-a.stop:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// Probe: each link behaved as it was switched, bytes were lost or held, and some passed.
func (a *activeFlaky) Probe(context.Context) Evidence {
	a.mu.Lock()
	flips, err, differ := a.flips, a.err, a.differ
	a.mu.Unlock()
	switch {
	case err != nil:
		return Evidence{Text: "switching a link failed: " + firstLine(err)}
	case differ != nil:
		return Evidence{Text: "a link does not do what it was switched to: " + firstLine(differ)}
	}
	n := a.watch.Total()
	blocked := n.Up.HeldTotalBytes + n.Up.DroppedBytes + n.Down.HeldTotalBytes + n.Down.DroppedBytes
	cut := n.ConnsCut + n.ConnsRefused
	passed := n.Up.PassedBytes + n.Down.PassedBytes
	return Evidence{
		Proven: flips > 0 && blocked > 0 && passed > 0,
		Text: fmt.Sprintf("%d changes on %d links, each seen by a connection of the harness's own: %d bytes held or dropped, %d connections cut or refused, %d bytes delayed, %d bytes passed",
			flips, len(a.links), blocked, cut, n.Up.DelayedBytes+n.Down.DelayedBytes, passed),
	}
}

// Heal stops the changes and lets the links pass.
func (a *activeFlaky) Heal(ctx context.Context) error {
	a.once.Do(func() { close(a.stop) })
	<-a.done
	return errors.Join(a.err, a.switched.Heal(ctx))
}

// After shows that every link passes.
func (a *activeFlaky) After(ctx context.Context) Evidence {
	defer a.close()
	for _, l := range a.links {
		if err := behaves(ctx, l, link.Mode{Kind: link.Pass}); err != nil {
			return Evidence{Text: "healed, but a link does not pass: " + firstLine(err)}
		}
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("healed: each of the %d links passes", len(a.links))}
}
