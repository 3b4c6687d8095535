package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "partition", On: Node, Family: FamilyLinks,
		About:  "cut nodes off from the other nodes, both ways; clients still reach them",
		Proof:  "*cut*, *reads*",
		Params: []string{"mode"},
		Swarm:  &Draw{Place: 1, Params: drawMode},
		New:    cutting(func(m link.Mode) Fault { return partition{mode: m, out: true, in: true} }),
	}, Kind{
		Name: "partition-oneway", On: Node, Family: FamilyLinks,
		About:  "cut one direction between nodes and the others: what the targets send is lost, or what they receive",
		Proof:  "*cut*, *reads*; the other direction of each link carries bytes",
		Params: []string{"mode", "sense"},
		Swarm:  &Draw{Place: 2, Params: func(rng *rand.Rand, s *Spec) { s.Sense = []string{"out", "in"}[rng.IntN(2)] }},
		New:    newOneway,
	}, Kind{
		Name: "partition-bridge", On: Node, Family: FamilyLinks,
		About:  "cut all nodes but the target off from each other: only the target sees every node",
		Proof:  "*cut*, *reads*",
		Params: []string{"mode"},
		// All see a majority, but with one node more gone too few do.
		Takes: history.TakesOneNode,
		Needs: Needs{Nodes: 3, Leaderless: true},
		Swarm: &Draw{Place: 3},
		New:   cutting(func(m link.Mode) Fault { return bridge{m} }),
	})
}

// partition cuts nodes off from the others, in one sense or both.
type partition struct {
	mode    link.Mode
	out, in bool // what the targets send, what they are sent
}

func newOneway(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	return partition{mode: m, out: s.Sense != "in", in: s.Sense == "in"}, errors.Join(err, checkSense(s.Sense))
}

// checkSense refuses a sense that there is not; "" is out.
func checkSense(sense string) error {
	if sense != "" && sense != "in" && sense != "out" {
		return fmt.Errorf("unknown sense %q; the senses are out, in", sense)
	}
	return nil
}

func (p partition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	others, err := env.split(targets)
	if err != nil {
		return nil, err
	}
	a := &activePartition{oneway: p.out != p.in}
	for _, nodes := range [][]string{targets, others} {
		a.sides = append(a.sides, side{nodes, len(nodes) > (len(targets)+len(others))/2})
	}
	var ends []link.End
	for _, from := range targets {
		for _, to := range others {
			if p.out {
				ends = append(ends, env.Cluster.Links().Flow(from, to)...)
			}
			if p.in {
				ends = append(ends, env.Cluster.Links().Flow(to, from)...)
			}
		}
	}
	return a, a.begin(ctx, env, ends, p.mode)
}

// bridge cuts all nodes but the target off from each other.
type bridge struct{ mode link.Mode }

func (p bridge) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	others, err := env.split(targets)
	if err != nil {
		return nil, err
	}
	if len(targets) != 1 || len(others) < 2 {
		return nil, errors.New("a bridge is one node between at least two others")
	}
	var ends []link.End
	for _, from := range others {
		for _, to := range others {
			if from != to {
				ends = append(ends, env.Cluster.Links().Flow(from, to)...)
			}
		}
	}
	// With three nodes each end still sees a majority, itself and the bridge.
	a := &activePartition{sides: []side{{targets, true}, {others, len(others) == 2}}}
	return a, a.begin(ctx, env, ends, p.mode)
}

// split returns the nodes on the other side of the targets.
func (e *Env) split(targets []string) ([]string, error) {
	if _, err := e.nodes(targets); err != nil {
		return nil, err
	}
	others := e.others(targets)
	if len(others) == 0 {
		return nil, errors.New("no node is left on the other side")
	}
	return others, nil
}

// side is nodes that see the same of the cluster.
type side struct {
	nodes    []string
	majority bool // each of them sees one
}

type activePartition struct {
	*cut
	reads  *reads
	sides  []side
	oneway bool // bytes still pass the other way
}

func (a *activePartition) begin(ctx context.Context, env *Env, ends []link.End, m link.Mode) (err error) {
	var nodes []string
	for _, s := range a.sides {
		nodes = slices.Concat(nodes, s.nodes)
	}
	a.reads = newReads(ctx, env, nodes)
	a.cut, err = newCut(ctx, env, ends, m)
	return err
}

// Probe asks from all sides: consensus must be within reach of those that see a majority,
// and out of reach of the others.
func (a *activePartition) Probe(ctx context.Context) Evidence {
	ev := a.stopped(ctx)
	if a.oneway {
		n := a.passed()
		ev.also(n > 0, "%d bytes passed the other way", n)
	}
	for _, s := range a.sides {
		for _, node := range s.nodes {
			a.reads.during(ctx, &ev, node, s.majority)
		}
	}
	return ev
}

func (a *activePartition) After(ctx context.Context) Evidence {
	ev := a.cut.After(ctx)
	a.reads.after(ctx, &ev)
	return ev
}
