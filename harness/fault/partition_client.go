package fault

import (
	"context"
	"fmt"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

func init() {
	register(Kind{
		Name: "partition-client", On: Worker, Family: FamilyLinks,
		About:  "cut workers off from every node of the lock store, both ways; they still reach the sink",
		Proof:  "*cut*, *asked*; the sink answers through its links",
		Params: []string{"mode"},
		Swarm:  &Draw{Place: 1, Params: drawMode, Points: []control.Point{control.Holding}},
		// A client that stands still in its job may have nothing to say to the sink.
		New: workerCut{of: toStore, passes: "the links to the sink passed %d bytes meanwhile"}.make,
	}, Kind{
		Name: "sink-outage", On: Worker, Family: FamilyLinks,
		About:  "cut workers off from the sink, both ways; they still reach the lock store",
		Proof:  "*cut*, *asked*; the links to the lock store carry bytes",
		Params: []string{"mode"},
		Takes:  history.TakesSink,
		Swarm:  &Draw{Place: 3, Params: drawMode},
		New:    workerCut{of: toSink, passes: "the links to the lock store passed %d bytes meanwhile", must: true}.make,
	}, Kind{
		Name: "heartbeat-loss", On: Worker, Family: FamilyLinks,
		About:  "cut only the heartbeats by which workers see each other (job scenarios)",
		Proof:  "*cut*, *asked*; the links to the shards carry bytes",
		Params: []string{"mode"},
		Needs:  Needs{Jobs: true},
		// What is cut is advice.
		Takes: history.TakesNothing,
		New:   workerCut{of: beats, passes: "the links to the shards passed %d bytes meanwhile", must: true}.make,
	}, Kind{
		Name: "partition-peers", On: Worker, Family: FamilyLinks,
		About:  "cut workers off from what other workers enqueue for their shards (job scenarios)",
		Proof:  "*cut*, *asked*",
		Params: []string{"mode"},
		Needs:  Needs{Jobs: true},
		// What is cut is advice.
		Takes: history.TakesNothing,
		New:   workerCut{of: fromPeers}.make,
	}, Kind{
		Name: "partition-ring", On: Worker, Family: FamilyLinks,
		About:  "cut the first worker off from the first node, the second from the second …: each sees another majority",
		Proof:  "*cut*, *asked*; the links to the other nodes carry bytes",
		Params: []string{"mode"},
		// A worker loses one node, and the others see each other.
		Takes: history.TakesNothing,
		Needs: Needs{Nodes: 2},
		Swarm: &Draw{Place: 2, All: true, Params: drawMode},
		New:   workerCut{of: ring, passes: "the links to the other nodes passed %d bytes", must: true}.make,
	})
}

// workerCut cuts links of workers, beside which others still pass.
type workerCut struct {
	mode link.Mode
	// of are the links that are cut, and those beside them.
	of     func(env *Env, workers []string) (cut, beside []*link.Link, err error)
	passes string // says that something passed, with a place for the number of bytes; "": nothing need
	must   bool   // without any the fault is not proven
}

func (p workerCut) make(s Spec) (_ Fault, err error) {
	p.mode, err = cutMode(s.Mode)
	return p, err
}

func (p workerCut) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, beside, err := p.of(env, targets)
	if err != nil {
		return nil, err
	}
	a := &activeCut{workerCut: p}
	a.cut, err = newCut(ctx, env, link.Ends(links), p.mode, beside...)
	return a, err
}

// toStore, toSink, beats, fromPeers and ring are workers' links by what they lead to.

func toStore(env *Env, workers []string) (cut, beside []*link.Link, err error) {
	l, err := env.workerLinks(workers)
	return l.store(), l.sink, err
}

func toSink(env *Env, workers []string) (cut, beside []*link.Link, err error) {
	l, err := env.workerLinks(workers)
	return l.sink, l.store(), err
}

// beats are the heartbeats of workers, and what they see of others': they keep what they own.
func beats(env *Env, workers []string) (cut, beside []*link.Link, err error) {
	l, err := env.workerLinks(workers)
	return l.beat, l.lock, err
}

// fromPeers are the links by which other workers reach these.
func fromPeers(env *Env, workers []string) (cut, beside []*link.Link, err error) {
	_, err = env.workers(workers)
	for _, w := range workers {
		cut = append(cut, env.WorkerLinks.Between(fleet.Peers, w)...)
	}
	return cut, nil, err
}

// ring is of the i-th worker the links to the i-th node; workers beyond the number of nodes
// see all.
func ring(env *Env, workers []string) (cut, beside []*link.Link, err error) {
	if _, err := env.workers(workers); err != nil {
		return nil, nil, err
	}
	nodes := env.Cluster.Nodes()
	if len(workers) < len(nodes) {
		return nil, nil, fmt.Errorf("a ring over %d nodes needs as many workers, not %d", len(nodes), len(workers))
	}
	for i, w := range workers {
		for j, n := range nodes {
			links := env.WorkerLinks.Between(w, n.Name())
			if i == j {
				cut = append(cut, links...)
			} else {
				beside = append(beside, links...)
			}
		}
	}
	return cut, beside, nil
}

type activeCut struct {
	workerCut
	*cut
}

func (a *activeCut) Probe(ctx context.Context) Evidence {
	ev := a.stopped(ctx)
	if a.passes != "" {
		n := a.passed()
		ev.also(!a.must || n > 0, a.passes, n)
	}
	a.beside.open(ctx, &ev, "beside those that are cut")
	return ev
}
