package fault

import (
	"context"
	"slices"

	"fencepost/harness/env/link"
)

func init() {
	register(Kind{
		Name: "partition", On: Node, Family: FamilyLinks,
		About:  "cut nodes off from the other nodes, both ways; clients still reach them",
		Proof:  "*cut*, *reads*",
		Params: []string{"mode"},
		Swarm:  &Draw{Place: 1, Params: drawMode},
		New:    cutting(func(m link.Mode) Fault { return partition{mode: m, out: true, in: true} }),
	})
}

// partition cuts nodes off from the others, in one sense or both.
type partition struct {
	mode    link.Mode
	out, in bool // what the targets send, what they are sent
}

func (p partition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	others, err := env.split(targets)
	if err != nil {
		return nil, err
	}
	var ends []link.End
	for _, a := range targets {
		for _, b := range others {
			if p.out {
				ends = append(ends, env.Cluster.Links().Flow(a, b)...)
			}
			if p.in {
				ends = append(ends, env.Cluster.Links().Flow(b, a)...)
			}
		}
	}
	before := newReads(ctx, env, slices.Concat(targets, others))
	c, err := newCut(ctx, env, ends, p.mode)
	if err != nil {
		return nil, err
	}
	return &activePartition{cut: c, reads: before, inside: targets, outside: others, oneway: p.out != p.in}, nil
}

type activePartition struct {
	*cut
	reads           *reads
	inside, outside []string
	oneway          bool // bytes still pass the other way
}

// Probe asks from both sides: consensus must be out of reach on the smaller
// side and within reach on a majority.
func (a *activePartition) Probe(ctx context.Context) Evidence {
	ev := a.stopped(ctx)
	if a.oneway {
		n := a.passed()
		ev.also(n > 0, "%d bytes passed the other way", n)
	}
	total := len(a.inside) + len(a.outside)
	for _, side := range [][]string{a.inside, a.outside} {
		for _, node := range side {
			a.reads.during(ctx, &ev, node, len(side) > total/2)
		}
	}
	return ev
}

func (a *activePartition) After(ctx context.Context) Evidence {
	ev := a.cut.After(ctx)
	a.reads.after(ctx, &ev)
	return ev
}
