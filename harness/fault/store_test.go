package fault

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
)

// pair is two nodes, which are processes that answer anything, and what a store's servers would
// say of themselves. The test's goroutine alone asks.
type pair struct {
	cluster.Cluster
	nodes []namedNode

	keys    map[string]bool // of n1, which n2 follows
	lost    bool            // n1 has no data
	wrong   time.Duration
	primary string
	behind  bool // what follows has no link to its primary
	// What a cheat leaves out, or undoes.
	keeps, remembers, sticks, refuses bool
}

type namedNode struct {
	processNode
	name string
}

func (n namedNode) Name() string { return n.name }

func newPair(t *testing.T) *pair {
	p := &pair{keys: map[string]bool{}, primary: "n1"}
	for _, name := range []string{"n1", "n2"} {
		p.nodes = append(p.nodes, namedNode{processNode{startService(t)}, name})
	}
	return p
}

func (p *pair) Nodes() []cluster.Node { return []cluster.Node{p.nodes[0], p.nodes[1]} }

func (p *pair) Node(name string) (cluster.Node, bool) {
	for _, n := range p.nodes {
		if n.name == name {
			return n, true
		}
	}
	return nil, false
}

func (p *pair) Access() cluster.Access { return cluster.Access{} }

func (p *pair) Addr(node string) string {
	n, _ := p.Node(node)
	return n.(namedNode).Service.Addr()
}

func (p *pair) Mark(_ context.Context, node, key string) (bool, error) {
	if node != p.primary || p.refuses && node == "n2" {
		return false, nil
	}
	p.keys[key] = true
	return true, nil
}

func (p *pair) Marked(_ context.Context, _, key string) (bool, error) {
	return p.keys[key] && (!p.lost || p.remembers), nil
}

func (p *pair) Lose(node string) error {
	if n, _ := p.Node(node); n.PID() != 0 {
		return errors.New("it runs")
	}
	p.lost = !p.keeps
	return nil
}

func (p *pair) Stored(string) (bool, error) { return !p.lost, nil }

func (p *pair) SetClock(_ string, offset time.Duration) error {
	if !p.sticks {
		p.wrong = offset
	}
	return nil
}

func (p *pair) Now(context.Context, string) (time.Time, error) { return time.Now().Add(p.wrong), nil }

func (p *pair) Role(_ context.Context, node string) (servers.Role, error) {
	if node == p.primary {
		return servers.Role{Primary: true, Text: "role:master"}, nil
	}
	return servers.Role{InSync: !p.behind, Text: "role:slave"}, nil
}

func (p *pair) Promote(_ context.Context, node string) error {
	if !p.sticks {
		p.primary = node
	}
	return nil
}

func (p *pair) env() *Env {
	return (&Env{Cluster: p, Store: p, Read: func(context.Context, string) error { return nil }, ReadAs: "a linearizable read"}).Ready()
}

// Faults of a store's servers are seen when they were done, and when they were not.
func TestFaultsOfStoresMustProveThemselves(t *testing.T) {
	t.Parallel()
	ahead := Spec{Fault: "server-clock", Targets: []string{"n1"}, Offset: time.Minute}
	lost := Spec{Fault: "lose-data", Targets: []string{"n1"}}
	over := Spec{Fault: "promote", Targets: []string{"n1"}}
	for name, c := range map[string]struct {
		spec  Spec
		inert bool
		cheat func(*pair)
		proofs
	}{
		"lose-data": {lost, false, nil,
			proofs{true, "their ports refuse connections; a linearizable read through n2 is answered; the directory with the data of n1 is not there", true, "n1 has not got the key any more"}},
		"lose-data of a replica": {Spec{Fault: "lose-data", Targets: []string{"n2"}}, false, nil,
			proofs{true, "the directory with the data of n2 is not there", true, "n2 lost its data: while it was down, its data directory did not exist"}},
		"the data of a replica stay": {Spec{Fault: "lose-data", Targets: []string{"n2"}}, false, func(p *pair) { p.keeps = true },
			proofs{false, "the directory with the data of n2 is still there", false, "whether n2 lost its data is not known"}},
		"lose-data nobody": {lost, true, nil, proofs{false, "still runs, in state", false, "n1 still has the key"}},
		"the data stay":    {lost, false, func(p *pair) { p.keeps = true }, proofs{false, "the directory with the data of n1 is still there", false, "n1 still has the key"}},
		"a key comes back": {lost, false, func(p *pair) { p.remembers = true }, proofs{true, "is not there", false, "n1 still has the key"}},
		"server-clock": {ahead, false, nil,
			proofs{true, "the clock of n1 is ahead of the harness's by 1m0s (1m0s ± 500ms is meant)", true, "by 0s (0s ± 500ms is meant)"}},
		"server-clock back":   {Spec{Fault: "server-clock", Targets: []string{"n1"}, Offset: -time.Hour}, false, nil, proofs{true, "by -1h0m0s", true, "by 0s"}},
		"server-clock nobody": {ahead, true, nil, proofs{false, "by 0s (1m0s ± 500ms is meant)", true, "by 0s"}},
		"a clock that stays":  {ahead, false, func(p *pair) { p.sticks = true }, proofs{false, "by 0s (1m0s", true, "by 0s"}},
		"promote":             {over, false, nil, proofs{true, `n2, which said "role:slave" before, says "role:master"; it takes a key of the harness's`, true, `n1 says "role:slave"; it has the key that n2 was given: true`}},
		"promote nobody":      {over, true, nil, proofs{false, "still runs, in state", false, `n1 says "role:master"`}},
		"it stays a replica":  {over, false, func(p *pair) { p.sticks = true }, proofs{false, `says "role:slave"`, false, `n1 says "role:master"`}},
		"it takes no key":     {over, false, func(p *pair) { p.refuses = true }, proofs{false, "it takes no key of the harness's", true, `n1 says "role:slave"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			if c.cheat != nil {
				c.cheat(p)
			}
			env := p.env()
			if c.inert {
				env.Inert = Of(c.spec.Fault).Family
			}
			mustProve(t, env, c.spec, 0, c.proofs)
			for _, n := range p.nodes {
				if n.PID() == 0 {
					t.Errorf("%s does not run when it is over", n.name)
				}
			}
		})
	}
}

// A fault that could show nothing is not begun.
func TestFaultsOfStoresLookFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec  Spec
		cheat func(*pair)
		want  string
	}{
		{Spec{Fault: "promote", Targets: []string{"n2"}}, nil, "n2: it is not the primary: it says role:slave"},
		{Spec{Fault: "promote", Targets: []string{"n1"}}, func(p *pair) { p.behind = true }, "n2 is no replica in sync"},
		{Spec{Fault: "promote", Targets: []string{"n1", "n2"}}, nil, "name one target"},
		{Spec{Fault: "server-clock", Targets: []string{"n1"}, Offset: time.Minute}, func(p *pair) { p.wrong = time.Hour }, "its clock is wrong by 1h0m0s"},
		{Spec{Fault: "lose-data", Targets: []string{"n1"}}, func(p *pair) { p.lost = true }, "it does not have the key that it has just been given"},
	} {
		p := newPair(t)
		if c.cheat != nil {
			c.cheat(p)
		}
		f, err := New(c.spec)
		must(t, err)
		_, err = f.Inject(t.Context(), p.env().For(c.spec.Fault, nil), c.spec.Targets)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %v: %v, want %q", c.spec.Fault, c.spec.Targets, err, c.want)
		}
		for _, n := range p.nodes {
			if n.PID() == 0 {
				t.Errorf("%s: %s was killed", c.spec.Fault, n.name)
			}
		}
		env := p.env()
		env.Store = nil
		if _, err := f.Inject(t.Context(), env.For(c.spec.Fault, nil), c.spec.Targets); !errors.Is(err, errNoStore) {
			t.Errorf("%s on Cassandra: %v", c.spec.Fault, err)
		}
	}
}

// A server that ended and another one that took its place is no server whose clock jumped.
func TestServerClockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	env := p.env().For("server-clock", nil)
	a, err := serverClock{time.Minute}.Inject(t.Context(), env, []string{"n1"})
	must(t, err)
	must(t, p.nodes[0].Kill(t.Context()))
	must(t, p.nodes[0].Start(t.Context()))
	shows(t, a.Probe(t.Context()), false, "n1 is not the process any more that it was")
	heal(t, a)
}
