package fault

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/harness/env/link"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A cut proves itself end by end, and by somebody who ran into it. What one end shows says
// nothing about another.
func TestCutMustProveItself(t *testing.T) {
	t.Parallel()
	const up, down = link.Up, link.Down
	for name, c := range map[string]struct {
		mode  link.Kind
		inert bool
		// late are ends of the second link, which is idle, that are let through behind the
		// fault's back.
		let    []link.Dir
		quiet  bool // the first worker says nothing
		proven bool
		text   string
	}{
		"stall":                     {mode: link.Stall, proven: true, text: "each of 4 ends of 2 links passed 0 bytes, and nothing that the harness sent into it; 4 bytes held or dropped"},
		"drop":                      {mode: link.Drop, proven: true, text: "2 of 2 services that answered through the links before do so no more, but beside them"},
		"nobody tried":              {mode: link.Stall, quiet: true, text: "nobody ran into the cut"},
		"never in force":            {mode: link.Stall, inert: true, text: "the cut leaks: w1->sink/sink up passed 4 bytes"},
		"never in force, and quiet": {mode: link.Drop, inert: true, quiet: true, text: "w1->sink/sink down passed what the harness sent; w2->sink/sink up passed what the harness sent"},
		"an idle link is not cut":   {mode: link.Stall, let: []link.Dir{up, down}, text: "the cut leaks: w2->sink/sink up passed what the harness sent; w2->sink/sink down passed what the harness sent"},
		"an idle end is not cut":    {mode: link.Stall, let: []link.Dir{down}, text: "the cut leaks: w2->sink/sink down passed what the harness sent"},
		"a drop that ended":         {mode: link.Drop, let: []link.Dir{up}, text: "w2->sink/sink"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, all := wires(t, 2)
			if c.inert {
				env.Inert = FamilyLinks
			}
			a, err := newCut(t.Context(), env.For("partition-client", nil), ends(all), link.Mode{Kind: c.mode})
			must(t, err)
			for _, d := range c.let {
				must(t, all[1].Set(t.Context(), d, link.Mode{Kind: link.Pass}))
			}
			if !c.quiet {
				all[0].send(t)
				all[0].decided(t)
			}
			leaking := len(c.let)
			if c.inert {
				leaking = 4
			}
			eventually(t, "what the harness sent has come out where it can", func() bool {
				n := 0
				for _, e := range a.ends {
					if a.trial.leak(e) != "" {
						n++
					}
				}
				return n >= leaking
			})
			shows(t, a.Probe(t.Context()), c.proven, c.text)
			heal(t, a)
			if after := a.After(t.Context()); !after.Proven || !strings.Contains(after.Text, "each of the 4 ends passes") || !strings.Contains(after.Text, "2 of 2 services answer through the links again") {
				t.Errorf("afterwards: %+v", after)
			}
		})
	}
}

// Healing that does not heal is seen.
func TestCutThatStays(t *testing.T) {
	t.Parallel()
	env, all := wires(t, 1)
	a, err := newCut(t.Context(), env.For("partition-client", nil), ends(all), link.Mode{Kind: link.Stall})
	must(t, err)
	ctx, cancel := cancelled(t)
	cancel()
	shows(t, a.After(ctx), false, "does not pass")
	heal(t, a)
}

// The other direction of a link that is cut one way is tried too, and what is behind it is
// asked as clients ask.
func TestCutOneWay(t *testing.T) {
	t.Parallel()
	env, all := wires(t, 1)
	a, err := newCut(t.Context(), env.For("lost-replies", nil), ends(all, link.Down), link.Mode{Kind: link.Drop})
	must(t, err)
	if !slices.Equal(a.free, ends(all, link.Up)) {
		t.Fatalf("free: %v", a.free)
	}
	all[0].send(t)
	all[0].await(t, "dropped", func(n link.Counters) bool { return n.Down.DroppedBytes == 4 })
	shows(t, a.Probe(t.Context()), true, "")
	must(t, all[0].Set(t.Context(), link.Up, link.Mode{Kind: link.Stall}))
	must(t, a.trial.send(a.free))
	ctx, cancel := cancelled(t)
	cancel()
	shows(t, a.stopped(ctx), false, "the other direction does not pass either")
	must(t, all[0].SetBoth(t.Context(), link.Mode{Kind: link.Pass}))
	a.After(t.Context())
}

// A service that is away for another reason is left out; one that answers past a cut is not.
func TestDoors(t *testing.T) {
	t.Parallel()
	addr, stop := echo(t)
	env, all := wires(t, 2)
	gone, err := env.WorkerLinks.Add(link.Spec{From: "w9", To: "sink", Listen: "127.0.0.1:0", Upstream: addr})
	must(t, err)
	env.Inert = FamilyLinks
	d := newDoors(t.Context(), env, []*link.Link{all[0].Link, all[1].Link, gone})
	if len(d.opened) != 3 {
		t.Fatalf("%d answered", len(d.opened))
	}
	stop()
	ev := Evidence{Proven: true}
	d.shut(t.Context(), &ev)
	if ev.Proven || !strings.Contains(ev.Text, "a request through w1->sink/sink is answered") || strings.Contains(ev.Text, "w9->sink is") {
		t.Errorf("of links that are not cut: %+v", ev)
	}
	ev = Evidence{Proven: true}
	d.open(t.Context(), &ev, "again")
	shows(t, ev, true, "2 of 3 services answer")
	ev = Evidence{Proven: true}
	if newDoors(t.Context(), env, nil).shut(t.Context(), &ev); !ev.Proven || ev.Text != "" {
		t.Errorf("without services: %+v", ev)
	}
}

// Two faults on one end of a link would heal each other.
func TestLinksAreUnderOneFault(t *testing.T) {
	t.Parallel()
	env, all := wires(t, 1)
	env = env.For("lost-replies", nil)
	env.SinkGreeting = nil // nobody is to be asked through a link that is cut
	a, err := newCut(t.Context(), env, ends(all, link.Up), link.Mode{Kind: link.Stall})
	must(t, err)
	if _, err := newCut(t.Context(), env, ends(all), link.Mode{Kind: link.Drop}); err == nil || !strings.Contains(err.Error(), "w1->sink/sink (up) is under another fault already") {
		t.Errorf("the second fault: %v", err)
	}
	b, err := newCut(t.Context(), env, ends(all, link.Down), link.Mode{Kind: link.Stall})
	if err != nil {
		t.Fatalf("the other direction: %v", err)
	}
	for _, c := range []*cut{a, b} {
		heal(t, c)
		c.After(t.Context())
	}
	c, err := newCut(t.Context(), env, ends(all), link.Mode{Kind: link.Stall})
	if err != nil {
		t.Fatalf("after healing: %v", err)
	}
	heal(t, c)
	c.After(t.Context())
}
