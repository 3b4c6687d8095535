package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fencepost/harness/env/link"
)

// trial is a probe in each of some links. The harness holds both ends of each, so that
// every direction of an idle link can be tested, and timed by one clock.
type trial struct {
	links  []*link.Link
	probes map[*link.Link]*link.Probe
}

func newTrial(links []*link.Link) (*trial, error) {
	t := &trial{links: links, probes: map[*link.Link]*link.Probe{}}
	for _, l := range links {
		p, err := l.Probe()
		if err != nil {
			t.close()
			return nil, err
		}
		t.probes[l] = p
	}
	return t, nil
}

func (t *trial) close() {
	for _, p := range t.probes {
		p.Close()
	}
}

// send puts a byte into each end.
func (t *trial) send(ends []link.End) error {
	for _, e := range ends {
		if err := t.probes[e.Link].Send(e.Dir); err != nil {
			return err
		}
	}
	return nil
}

// await waits until all that was sent into the ends has come out.
func (t *trial) await(ctx context.Context, ends []link.End) error {
	for _, e := range ends {
		if err := t.probes[e.Link].Await(ctx, e.Dir); err != nil {
			return err
		}
	}
	return nil
}

// passes sends a byte into each end and waits until it has come out.
func (t *trial) passes(ctx context.Context, ends []link.End) error {
	if err := t.send(ends); err != nil {
		return err
	}
	return t.await(ctx, ends)
}

// leak says that everything has come out of an end that was sent, or that its connection
// has ended: under a cut neither may be. "" if neither is.
func (t *trial) leak(e link.End) string {
	switch n, err := t.probes[e.Link].Pending(e.Dir); {
	case err != nil:
		return fmt.Sprintf("a connection of the harness's through %s was ended", e.Link.Name())
	case n == 0:
		return fmt.Sprintf("%s %s passed what the harness sent", e.Link.Name(), e.Dir)
	}
	return ""
}

// returns shows that the ends pass again: on the same connections or, as a drop has
// cost those bytes, on new ones.
func (t *trial) returns(ctx context.Context, ends []link.End) error {
	err := t.await(ctx, ends)
	if err == nil {
		err = t.passes(ctx, ends)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	next, err := newTrial(t.links)
	if err != nil {
		return err
	}
	defer next.close()
	return next.passes(ctx, ends)
}

// Delays are measured by delaySamples bytes, delaySpacing apart, so that each is a
// chunk of its own.
const (
	delaySamples = 16
	delaySpacing = 3 * time.Millisecond
)

// delays is how long bytes take through each end: the median, which a busy machine's
// pauses do not move.
func (t *trial) delays(ctx context.Context, ends []link.End) (map[link.End]time.Duration, error) {
	tick := time.NewTicker(delaySpacing)
	defer tick.Stop()
	for range delaySamples {
		if err := t.send(ends); err != nil {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err := t.await(ctx, ends); err != nil {
		return nil, err
	}
	out := map[link.End]time.Duration{}
	for _, e := range ends {
		var took []time.Duration
		all := t.probes[e.Link].Passages(e.Dir)
		for _, p := range all[len(all)-delaySamples:] {
			took = append(took, p.Took())
		}
		out[e] = median(took)
	}
	return out, nil
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// behaves reports, by a connection of its own, how a link that has just been switched to
// a mode differs from it; nil if it does not. Within silence nothing comes out of a cut.
func behaves(ctx context.Context, l *link.Link, m link.Mode) error {
	p, err := l.Probe()
	if m.Kind == link.Close {
		if errors.Is(err, link.ErrRefused) {
			return nil
		}
		if err == nil {
			p.Close()
			err = errors.New("it lets connections be made")
		}
	}
	if err != nil {
		return fmt.Errorf("%s as %s: %w", l.Name(), m, err)
	}
	defer p.Close()
	for _, d := range link.Dirs {
		if err := p.Send(d); err != nil {
			return fmt.Errorf("%s as %s: %w", l.Name(), m, err)
		}
	}
	cut := m.Kind == link.Stall || m.Kind == link.Drop
	if cut {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flickSilence)
		defer cancel()
	}
	for _, d := range link.Dirs {
		err := p.Await(ctx, d)
		switch {
		case cut && err == nil:
			return fmt.Errorf("%s as %s: %s lets a byte through", l.Name(), m, d)
		case !cut && err != nil:
			return fmt.Errorf("as %s: %w", m, err)
		case m.Kind == link.Latency && p.Passages(d)[0].Took() < m.Latency-m.Jitter:
			return fmt.Errorf("%s as %s: a byte took %s %s", l.Name(), m, p.Passages(d)[0].Took(), d)
		}
	}
	return nil
}

// flickSilence is how long nothing may come out of a link that was just cut. A byte of a
// link that was not takes a fraction of a millisecond, on a busy machine some: of the
// dozens of changes of a fault that did nothing many are seen.
const flickSilence = 30 * time.Millisecond
