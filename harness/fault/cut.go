package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fencepost/harness/env/link"
)

// cut is ends of links through which nothing passes. Each end testifies for itself: by its
// own counter, and by a byte of the harness's that was sent into it when it was cut.
type cut struct {
	*switched
	free   []link.End // the other directions of the same links, if nothing else is done to them
	doors  *doors     // through the links that are cut
	beside *doors     // through those that are not
}

// newCut cuts the ends; beside are links that are not cut and are watched too.
func newCut(ctx context.Context, env *Env, ends []link.End, m link.Mode, beside ...*link.Link) (*cut, error) {
	c := &cut{}
	links := linksOf(ends)
	for _, e := range link.Ends(links) {
		if !slices.Contains(ends, e) && e.Link.Mode(e.Dir).Kind == link.Pass {
			c.free = append(c.free, e)
		}
	}
	var err error
	c.switched, err = newSwitched(ctx, env, ends, m, func(ctx context.Context, t *trial) error {
		c.doors, c.beside = newDoors(ctx, env, links), newDoors(ctx, env, beside)
		return t.passes(ctx, slices.Concat(ends, c.free))
	}, beside...)
	if err != nil {
		return nil, err
	}
	// From here on nothing may come out of the ends, and out of the others it must.
	if err := c.trial.send(slices.Concat(ends, c.free)); err != nil {
		err = errors.Join(fmt.Errorf("send into what is cut: %w", err), c.Heal(ctx))
		c.close()
		return nil, err
	}
	return c, nil
}

// Probe of a cut is that of a fault that is nothing more.
func (c *cut) Probe(ctx context.Context) Evidence { return c.stopped(ctx) }

// stopped judges the ends: nothing passed, and somebody ran into them.
func (c *cut) stopped(ctx context.Context) Evidence {
	delta := c.watch.Delta()
	var leaks []string
	var blocked, tried int64
	for _, e := range c.ends {
		n := delta[e.Link.Name()].Dir(e.Dir)
		if n.PassedBytes > 0 {
			leaks = append(leaks, fmt.Sprintf("%s %s passed %d bytes", e.Link.Name(), e.Dir, n.PassedBytes))
		} else if own := c.trial.leak(e); own != "" {
			leaks = append(leaks, own)
		}
		blocked += n.HeldTotalBytes + n.DroppedBytes
	}
	for _, l := range c.links {
		tried += delta[l.Name()].ConnsBlackholed
	}
	if len(leaks) > 0 {
		return Evidence{Text: "the cut leaks: " + strings.Join(leaks, "; ")}
	}
	if blocked == 0 {
		return Evidence{Text: fmt.Sprintf("no byte was held or dropped on the %d links: nobody ran into the cut", len(c.links))}
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("each of %d ends of %d links passed 0 bytes, and nothing that the harness sent into it; "+
		"%d bytes held or dropped, %d new connections led nowhere",
		len(c.ends), len(c.links), blocked, tried)}
	if err := c.trial.await(ctx, c.free); err != nil {
		ev.also(false, "the other direction does not pass either (%s)", firstLine(err))
	}
	c.doors.shut(ctx, &ev)
	return ev
}

// After shows that the same ends pass again.
func (c *cut) After(ctx context.Context) Evidence {
	defer c.close()
	if err := c.trial.returns(ctx, c.ends); err != nil {
		return Evidence{Text: "healed, but what was cut does not pass: " + firstLine(err)}
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("healed: each of the %d ends passes what the harness sends", len(c.ends))}
	c.doors.open(ctx, &ev, "again")
	return ev
}

func cutMode(mode string) (link.Mode, error) {
	switch mode {
	case "", "stall":
		return link.Mode{Kind: link.Stall}, nil
	case "drop":
		return link.Mode{Kind: link.Drop}, nil
	}
	return link.Mode{}, fmt.Errorf("unknown mode %q; the modes are stall, drop", mode)
}

// cutting makes a fault whose only parameter is the mode of its cut.
func cutting(make func(link.Mode) Fault) func(Spec) (Fault, error) {
	return func(s Spec) (Fault, error) {
		m, err := cutMode(s.Mode)
		return make(m), err
	}
}
