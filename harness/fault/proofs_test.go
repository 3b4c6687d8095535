package fault

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/target/system"
)

// A delay is seen at each end, whatever its jitter, and by requests through the link; that
// of one end says nothing about another. No test runs beside it: what takes longer than before is to do so
// for the delay.
func TestDelayMustProveItself(t *testing.T) {
	const by = 100 * time.Millisecond
	for name, c := range map[string]struct {
		jitter time.Duration
		inert  bool
		let    []link.Dir // of the second link
		quiet  bool
		proven bool
		text   string
	}{
		"a delay":             {proven: true, text: "take longer through each of 4 ends than before, by"},
		"as much jitter":      {jitter: by, proven: true, text: "and so do requests to 2 of 2 services"},
		"never in force":      {inert: true, text: "no byte was delayed"},
		"an end is not slow":  {jitter: by, let: []link.Dir{link.Down}, text: "w2->sink/sink down takes"},
		"a link is not slow":  {let: []link.Dir{link.Up, link.Down}, text: "w2->sink/sink up takes"},
		"nobody had the pain": {quiet: true, text: "no byte was delayed"},
	} {
		t.Run(name, func(t *testing.T) {
			env, all := wires(t, 2)
			if c.inert {
				env.Inert = FamilyLatency
			}
			d, err := newDelay(t.Context(), env.For("latency", nil), ends(all), link.Mode{Kind: link.Latency, Latency: by, Jitter: c.jitter, Seed: 1})
			must(t, err)
			for _, dir := range c.let {
				must(t, all[1].Set(t.Context(), dir, link.Mode{Kind: link.Pass}))
			}
			if !c.quiet {
				before := all[0].Counters().Up.PassedBytes
				all[0].send(t)
				all[0].await(t, "arrived", func(n link.Counters) bool { return n.Up.PassedBytes == before+4 })
			}
			shows(t, d.Probe(t.Context()), c.proven, c.text)
			if ev := d.After(t.Context()); ev.Proven == !c.inert || !c.inert && !strings.Contains(ev.Text, "healed, but w1->sink/sink up still takes") {
				t.Errorf("not healed: %+v", ev)
			}
			heal(t, d)
		})
	}
}

// A delay of one direction shows that the other one has none: from the harness's bytes and from
// those of others. It runs alone as TestDelayMustProveItself does.
func TestDelayOfOneDirectionMustProveBoth(t *testing.T) {
	const by = 100 * time.Millisecond
	for name, c := range map[string]struct {
		dir           link.Dir
		inert, andTwo bool
		proven        bool
		text          string
	}{
		"requests":            {dir: link.Up, proven: true, text: "up alone; the harness's own bytes take longer through each of 1 ends than before, by"},
		"answers":             {dir: link.Down, proven: true, text: "the other direction of each link is as fast as before"},
		"both, not one":       {dir: link.Up, andTwo: true, text: "w1->sink/sink down is slow too"},
		"both, not the other": {dir: link.Down, andTwo: true, text: "w1->sink/sink up is slow too"},
		"never in force":      {dir: link.Up, inert: true, text: "no byte was delayed"},
	} {
		t.Run(name, func(t *testing.T) {
			env, all := wires(t, 1)
			if c.inert {
				env.Inert = FamilyLatency
			}
			d, err := newDelay(t.Context(), env.For("latency-oneway", nil), ends(all, c.dir), link.Mode{Kind: link.Latency, Latency: by})
			must(t, err)
			if c.andTwo {
				must(t, all[0].SetBoth(t.Context(), link.Mode{Kind: link.Latency, Latency: by}))
			}
			before := all[0].Counters().Down.PassedBytes
			all[0].send(t)
			all[0].await(t, "answered", func(n link.Counters) bool { return n.Down.PassedBytes == before+4 })
			shows(t, d.Probe(t.Context()), c.proven, c.text)
			must(t, all[0].SetBoth(t.Context(), link.Mode{Kind: link.Pass}))
			heal(t, d)
			shows(t, d.After(t.Context()), true, "")
		})
	}
}

func TestDelayHeals(t *testing.T) {
	t.Parallel()
	env, all := wires(t, 1)
	d, err := newDelay(t.Context(), env.For("latency", nil), ends(all), link.Mode{Kind: link.Latency, Latency: 100 * time.Millisecond})
	must(t, err)
	heal(t, d)
	shows(t, d.After(t.Context()), true, "")
}

// Lost replies need requests that passed as well as answers that did not, and answers to
// statements, not to heartbeats.
func TestLostRepliesMustProveBoth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inert, quiet      bool
		requests, answers int64 // that came meanwhile
		unread            bool
		proven            bool
		text              string
	}{
		"lost":                      {requests: 3, answers: 2, proven: true, text: "of 3 statements of w1 2 were answered, and no answer arrived"},
		"heartbeats alone":          {text: "no statement of w1 was answered meanwhile (0 were sent)"},
		"statements without answer": {requests: 1, text: "no statement of w1 was answered meanwhile (1 were sent)"},
		"a protocol that is hidden": {unread: true, proven: true, text: "4 bytes of answers to w1 were dropped; to what, nobody reads"},
		"never in force":            {inert: true, requests: 3, answers: 2, text: "the cut leaks: w1->sink/sink down passed"},
		"nobody asked":              {quiet: true, text: "nobody ran into the cut"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, all := wires(t, 1)
			if c.inert {
				env.Inert = FamilyReplies
			}
			var requests, answers int64 = 100, 90
			env.Spoken = func(*link.Link) (int64, int64, bool) { return requests, answers, !c.unread }
			env = env.For("sink-lost-replies", nil)
			a, err := newCut(t.Context(), env, ends(all, link.Down), link.Mode{Kind: link.Drop})
			must(t, err)
			r := newRepliesLost(a, []string{"w1"})
			if !c.quiet {
				all[0].send(t)
				requests, answers = requests+c.requests, answers+c.answers
				all[0].await(t, "answered", func(n link.Counters) bool {
					return n.Down.DroppedBytes == 4 || c.inert && n.Down.PassedBytes == 4+5+4
				})
			}
			shows(t, r.Probe(t.Context()), c.proven, c.text)
			heal(t, r)
			shows(t, r.After(t.Context()), true, "")
		})
	}
}

// A link that does not do what it was switched to is seen after one change.
func TestBehaves(t *testing.T) {
	t.Parallel()
	_, all := wires(t, 1)
	l := all[0].Link
	for _, m := range flakyModes {
		must(t, l.SetBoth(t.Context(), m))
		if err := behaves(t.Context(), l, m); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	must(t, l.SetBoth(t.Context(), link.Mode{Kind: link.Pass}))
	for _, m := range flakyModes {
		if err := behaves(t.Context(), l, m); (err == nil) != (m.Kind == link.Pass) {
			t.Errorf("a link that passes, as %s: %v", m, err)
		}
	}
}

// somewhere is a cluster whose nodes are in states.
type somewhere struct {
	cluster.Cluster
	nodes []cluster.Node
}

type someNode struct {
	cluster.Node
	name  string
	state cluster.State
}

func (n someNode) Name() string         { return n.name }
func (n someNode) State() cluster.State { return n.state }

func (s somewhere) Nodes() []cluster.Node { return s.nodes }

// A minority must say that it has no quorum, having answered before; no answer says nothing.
func TestMinorityReads(t *testing.T) {
	t.Parallel()
	quorum, silent := errors.New("unavailable"), errors.New("no answer")
	for name, c := range map[string]struct {
		before   error
		during   []error // one a try, the last for all more
		majority bool
		proven   bool
		text     string
	}{
		"refused":                {during: []error{quorum}, proven: true, text: "a SERIAL read through n1, answered before, is refused for want of a quorum"},
		"refused at last":        {during: []error{silent, silent, quorum}, proven: true, text: "is refused for want of a quorum"},
		"answered":               {during: []error{nil}, text: "sees no majority, is answered"},
		"answered at last":       {during: []error{silent, nil}, text: "sees no majority, is answered"},
		"silent":                 {during: []error{silent}, text: "fails, but not for want of a quorum (no answer)"},
		"refused before too":     {before: quorum, during: []error{quorum}, text: "failed before the fault already"},
		"a majority":             {majority: true, during: []error{silent, nil}, proven: true, text: "is answered"},
		"a majority that is not": {majority: true, during: []error{quorum}, text: "which sees a majority, fails"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err, next := c.before, 0
			env := &Env{
				Cluster:  somewhere{nodes: []cluster.Node{someNode{name: "n1", state: cluster.Running}}},
				NoQuorum: func(err error) bool { return errors.Is(err, quorum) },
				Read: func(context.Context, string) error {
					if next > 0 {
						err = c.during[min(next, len(c.during))-1]
						next++
					}
					return err
				},
			}
			r := newReads(t.Context(), env, []string{"n1"})
			next = 1
			ev := Evidence{Proven: true}
			r.during(t.Context(), &ev, "n1", c.majority)
			shows(t, ev, c.proven, c.text)
			next, err = 0, nil
			ev = Evidence{Proven: true}
			if r.after(t.Context(), &ev); !ev.Proven || (c.before == nil) != strings.Contains(ev.Text, "answered again") {
				t.Errorf("afterwards: %+v", ev)
			}
			err = silent
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			ev = Evidence{Proven: true}
			if r.after(ctx, &ev); ev.Proven != (c.before != nil) {
				t.Errorf("not healed: %+v", ev)
			}
			env.Cluster = somewhere{nodes: []cluster.Node{someNode{name: "n1", state: cluster.Killed}}}
			ev = Evidence{Proven: true}
			if r.after(t.Context(), &ev); !ev.Proven {
				t.Errorf("killed by another fault: %+v", ev)
			}
		})
	}
}

// Each family of faults has a known-broken harness that leaves it out, directed at a run
// that needs it.
func TestEveryFamilyHasItsInertVariant(t *testing.T) {
	t.Parallel()
	left := map[Family]bool{}
	for _, f := range Families() {
		left[f] = true
	}
	for _, v := range system.Broken() {
		if v.Inert == "" {
			continue
		}
		if !left[Family(v.Inert)] {
			t.Errorf("%s: there is no family %q, or it is taken", v.Name, v.Inert)
		}
		delete(left, Family(v.Inert))
		if v.Name != Family(v.Inert).Inert() {
			t.Errorf("%s leaves out %q", v.Name, v.Inert)
		}
	}
	for f := range left {
		t.Errorf("no known-broken harness leaves out %q", f)
	}
}
