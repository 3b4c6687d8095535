package fault

import (
	"context"
	"errors"
	"fmt"

	"fencepost/harness/link"
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

// partition cuts nodes off from the others.
type partition struct{ mode link.Mode }

func newPartition(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	return partition{m}, err
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
			ends = append(ends, env.Cluster.Links().Flow(a, b)...)
			ends = append(ends, env.Cluster.Links().Flow(b, a)...)
		}
	}
	s, err := newSwitched(ctx, env, ends, p.mode)
	if err != nil {
		return nil, err
	}
	return &activePartition{switched: s, inside: targets, outside: others}, nil
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
	*switched
	inside, outside []string
	// reverse: bytes still pass the other way.
	reverse bool
}

// Probe asks from both sides: consensus must be out of reach on the smaller
// side and within reach on a majority.
func (a *activePartition) Probe(ctx context.Context) Evidence {
	ev := a.stopped()
	if a.reverse {
		n := a.passed()
		ev.also(n > 0, "%d bytes passed the other way", n)
	}
	total := len(a.inside) + len(a.outside)
	for _, side := range [][]string{a.inside, a.outside} {
		for _, node := range side {
			ev.read(ctx, a.env, node, len(side) > total/2)
		}
	}
	return ev
}

// oneway cuts one sense between nodes and the others.
type oneway struct {
	mode link.Mode
	in   bool
}

func newOneway(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	if s.Sense != "" && s.Sense != "in" && s.Sense != "out" {
		err = errors.Join(err, fmt.Errorf("unknown sense %q; the senses are out, in", s.Sense))
	}
	return oneway{m, s.Sense == "in"}, err
}

func (oneway) Kind() TargetKind { return Node }

func (p oneway) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	others, err := env.split(targets)
	if err != nil {
		return nil, err
	}
	var ends []link.End
	for _, a := range targets {
		for _, b := range others {
			if p.in {
				ends = append(ends, env.Cluster.Links().Flow(b, a)...)
			} else {
				ends = append(ends, env.Cluster.Links().Flow(a, b)...)
			}
		}
	}
	s, err := newSwitched(ctx, env, ends, p.mode)
	if err != nil {
		return nil, err
	}
	return &activePartition{switched: s, inside: targets, outside: others, reverse: true}, nil
}

// bridge cuts all nodes but the target off from each other.
type bridge struct{ mode link.Mode }

func newBridge(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	return bridge{m}, err
}

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
	s, err := newSwitched(ctx, env, ends, p.mode)
	if err != nil {
		return nil, err
	}
	return &activeBridge{switched: s, bridge: targets[0], ends: others}, nil
}

type activeBridge struct {
	*switched
	bridge string
	ends   []string
}

// Probe: with three nodes each end still sees a majority, itself and the bridge.
func (a *activeBridge) Probe(ctx context.Context) Evidence {
	ev := a.stopped()
	ev.read(ctx, a.env, a.bridge, true)
	for _, node := range a.ends {
		ev.read(ctx, a.env, node, len(a.ends) == 2)
	}
	return ev
}

// ring cuts the i-th worker off from the i-th node; workers beyond the number
// of nodes see all.
type ring struct{ mode link.Mode }

func newRing(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	return ring{m}, err
}

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
	s, err := newSwitched(ctx, env, link.Ends(cut), p.mode, rest...)
	if err != nil {
		return nil, err
	}
	return &activeRing{s}, nil
}

type activeRing struct{ *switched }

func (a *activeRing) Probe(context.Context) Evidence {
	ev := a.stopped()
	n := a.passed()
	ev.also(n > 0, "the links to the other nodes passed %d bytes", n)
	return ev
}

// clientPartition cuts workers off from the lock store, or (sink) from the sink.
type clientPartition struct {
	mode link.Mode
	sink bool
}

func newClientPartition(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	return clientPartition{mode: m}, err
}

func newSinkOutage(s Spec) (Fault, error) {
	m, err := cutMode(s.Mode)
	return clientPartition{mode: m, sink: true}, err
}

func (clientPartition) Kind() TargetKind { return Worker }

func (p clientPartition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	cut, alive, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	if p.sink {
		cut, alive = alive, cut
	}
	s, err := newSwitched(ctx, env, link.Ends(cut), p.mode, alive...)
	if err != nil {
		return nil, err
	}
	return &activeClientPartition{switched: s, sink: p.sink}, nil
}

type activeClientPartition struct {
	*switched
	sink bool
}

// Probe shows the one kind of links dead and counts what passed on the other.
func (a *activeClientPartition) Probe(context.Context) Evidence {
	ev := a.stopped()
	alive := "sink"
	if a.sink {
		alive = "lock store"
	}
	// A client that stands still in its job may have nothing to say to the sink.
	ev.also(!a.sink || a.passed() > 0, "the links to the %s passed %d bytes meanwhile", alive, a.passed())
	return ev
}

type lostReplies struct{ sink bool }

func (lostReplies) Kind() TargetKind { return Worker }

func (l lostReplies) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, sink, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	if l.sink {
		links = sink
	}
	s, err := newSwitched(ctx, env, link.Ends(links, link.Down), link.Mode{Kind: link.Drop})
	if err != nil {
		return nil, err
	}
	return &activeLostReplies{s}, nil
}

type activeLostReplies struct{ *switched }

// Probe demands requests that got through and answers that did not.
func (a *activeLostReplies) Probe(context.Context) Evidence {
	ev := a.stopped()
	n := a.passed()
	ev.also(n > 0, "%d bytes of requests went through", n)
	return ev
}
