package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fencepost/harness/env/link"
	"fencepost/harness/fleet"
)

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

// partition cuts nodes off from the others, in one sense or both.
type partition struct {
	mode    link.Mode
	out, in bool // what the targets send, what they are sent
}

func newOneway(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	if s.Sense != "" && s.Sense != "in" && s.Sense != "out" {
		err = errors.Join(err, fmt.Errorf("unknown sense %q; the senses are out, in", s.Sense))
	}
	return partition{mode: m, out: s.Sense != "in", in: s.Sense == "in"}, err
}

func (partition) Kind() TargetKind { return Node }

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

// bridge cuts all nodes but the target off from each other.
type bridge struct{ mode link.Mode }

func (bridge) Kind() TargetKind { return Node }

func (p bridge) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	others, err := env.split(targets)
	if err != nil {
		return nil, err
	}
	if len(targets) != 1 || len(others) < 2 {
		return nil, errors.New("a bridge is one node between at least two others")
	}
	var ends []link.End
	for _, a := range others {
		for _, b := range others {
			if a != b {
				ends = append(ends, env.Cluster.Links().Flow(a, b)...)
			}
		}
	}
	before := newReads(ctx, env, slices.Concat(targets, others))
	c, err := newCut(ctx, env, ends, p.mode)
	if err != nil {
		return nil, err
	}
	return &activeBridge{cut: c, reads: before, bridge: targets[0], ends: others}, nil
}

type activeBridge struct {
	*cut
	reads  *reads
	bridge string
	ends   []string
}

// Probe: with three nodes each end still sees a majority, itself and the bridge.
func (a *activeBridge) Probe(ctx context.Context) Evidence {
	ev := a.stopped(ctx)
	a.reads.during(ctx, &ev, a.bridge, true)
	for _, node := range a.ends {
		a.reads.during(ctx, &ev, node, len(a.ends) == 2)
	}
	return ev
}

func (a *activeBridge) After(ctx context.Context) Evidence {
	ev := a.cut.After(ctx)
	a.reads.after(ctx, &ev)
	return ev
}

// ring cuts the i-th worker off from the i-th node; workers beyond the number
// of nodes see all.
type ring struct{ mode link.Mode }

func (ring) Kind() TargetKind { return Worker }

func (p ring) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.workers(targets); err != nil {
		return nil, err
	}
	nodes := env.Cluster.Nodes()
	if len(targets) < len(nodes) {
		return nil, fmt.Errorf("a ring over %d nodes needs as many workers, not %d", len(nodes), len(targets))
	}
	var cut, rest []*link.Link
	for i, w := range targets {
		for j, n := range nodes {
			links := env.WorkerLinks.Between(w, n.Name())
			if i == j {
				cut = append(cut, links...)
			} else {
				rest = append(rest, links...)
			}
		}
	}
	c, err := newCut(ctx, env, link.Ends(cut), p.mode, rest...)
	if err != nil {
		return nil, err
	}
	return &activeCut{cut: c, passes: "the links to the other nodes passed %d bytes", must: true}, nil
}

// activeCut is a cut beside which something still passes.
type activeCut struct {
	*cut
	passes string // says so, with a place for the number of bytes
	must   bool   // without any the fault is not proven
}

func (a *activeCut) Probe(ctx context.Context) Evidence {
	ev := a.stopped(ctx)
	n := a.passed()
	ev.also(!a.must || n > 0, a.passes, n)
	a.beside.open(ctx, &ev, "beside those that are cut")
	return ev
}

// clientPartition cuts workers off from the lock store, or (sink) from the sink.
type clientPartition struct {
	mode link.Mode
	sink bool
}

func (clientPartition) Kind() TargetKind { return Worker }

func (p clientPartition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	// A client that stands still in its job may have nothing to say to the sink.
	cut, alive, active := links.store(), links.sink, &activeCut{passes: "the links to the sink passed %d bytes meanwhile"}
	if p.sink {
		cut, alive, active = links.sink, links.store(), &activeCut{passes: "the links to the lock store passed %d bytes meanwhile", must: true}
	}
	if active.cut, err = newCut(ctx, env, link.Ends(cut), p.mode, alive...); err != nil {
		return nil, err
	}
	return active, nil
}

// heartbeatLoss cuts the heartbeats of workers, and what they see of others', and
// nothing else: they keep what they own.
type heartbeatLoss struct{ mode link.Mode }

func (heartbeatLoss) Kind() TargetKind { return Worker }

func (h heartbeatLoss) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	c, err := newCut(ctx, env, link.Ends(links.beat), h.mode, links.lock...)
	if err != nil {
		return nil, err
	}
	return &activeCut{cut: c, passes: "the links to the shards passed %d bytes meanwhile", must: true}, nil
}

// peerPartition cuts the links by which other workers reach the targets.
type peerPartition struct{ mode link.Mode }

func (peerPartition) Kind() TargetKind { return Worker }

func (p peerPartition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.workers(targets); err != nil {
		return nil, err
	}
	var links []*link.Link
	for _, w := range targets {
		links = append(links, env.WorkerLinks.Between(fleet.Peers, w)...)
	}
	return newCut(ctx, env, link.Ends(links), p.mode)
}
