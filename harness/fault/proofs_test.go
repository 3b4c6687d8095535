package fault

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"fencepost/harness/cluster"
	"fencepost/harness/fleet"
	"fencepost/harness/link"
)

// A delay is seen at each end, whatever its jitter, and by requests through the link; that
// of one end says nothing about another.
func TestDelayMustProveItself(t *testing.T) {
	t.Parallel()
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
			t.Parallel()
			env, all := wires(t, 2)
			if c.inert {
				env.Inert = FamilyLatency
			}
			d, err := newDelay(t.Context(), env.For("latency", nil), ends(all), link.Mode{Kind: link.Latency, Latency: by, Jitter: c.jitter, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range c.let {
				if err := all[1].Set(t.Context(), dir, link.Mode{Kind: link.Pass}); err != nil {
					t.Fatal(err)
				}
			}
			if !c.quiet {
				before := all[0].Counters().Up.PassedBytes
				all[0].send(t)
				all[0].await(t, "arrived", func(n link.Counters) bool { return n.Up.PassedBytes == before+4 })
			}
			if ev := d.Probe(t.Context()); ev.Proven != c.proven || !strings.Contains(ev.Text, c.text) {
				t.Errorf("got %+v, want proven %t with %q", ev, c.proven, c.text)
			}
			if ev := d.After(t.Context()); ev.Proven == !c.inert || !c.inert && !strings.Contains(ev.Text, "healed, but w1->sink/sink up still takes") {
				t.Errorf("not healed: %+v", ev)
			}
			if err := d.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestDelayHeals(t *testing.T) {
	t.Parallel()
	env, all := wires(t, 1)
	d, err := newDelay(t.Context(), env.For("latency", nil), ends(all), link.Mode{Kind: link.Latency, Latency: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ev := d.After(t.Context()); !ev.Proven {
		t.Errorf("%+v", ev)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			r := newRepliesLost(a, []string{"w1"})
			if !c.quiet {
				all[0].send(t)
				requests, answers = requests+c.requests, answers+c.answers
				all[0].await(t, "answered", func(n link.Counters) bool {
					return n.Down.DroppedBytes == 4 || c.inert && n.Down.PassedBytes == 4+5+4
				})
			}
			if ev := r.Probe(t.Context()); ev.Proven != c.proven || !strings.Contains(ev.Text, c.text) {
				t.Errorf("got %+v, want proven %t with %q", ev, c.proven, c.text)
			}
			if err := r.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ev := r.After(t.Context()); !ev.Proven {
				t.Errorf("afterwards: %+v", ev)
			}
		})
	}
}

// A link that does not do what it was switched to is seen after one change.
func TestBehaves(t *testing.T) {
	t.Parallel()
	_, all := wires(t, 1)
	l := all[0].Link
	for _, m := range flakyModes {
		if err := l.SetBoth(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := behaves(t.Context(), l, m); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	if err := l.SetBoth(t.Context(), link.Mode{Kind: link.Pass}); err != nil {
		t.Fatal(err)
	}
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
		"refused":                {during: []error{quorum}, proven: true, text: "is refused for want of a quorum"},
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
			if r.during(t.Context(), &ev, "n1", c.majority); ev.Proven != c.proven || !strings.Contains(ev.Text, c.text) {
				t.Errorf("got %+v, want proven %t with %q", ev, c.proven, c.text)
			}
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

// ticksAt makes ticks each 20 ms of a clock that runs fast by ppm, late as late says.
func ticksAt(n int, ppm float64, late func(i int) time.Duration) []fleet.Tick {
	start := time.Unix(1000, 0)
	var out []fleet.Tick
	for i := 1; i <= n; i++ {
		true20 := float64(i) * float64(rateTick) / (1 + ppm/1e6)
		out = append(out, fleet.Tick{N: i, At: start.Add(time.Duration(true20) + late(i))})
	}
	return out
}

// The rate of a clock is told from its ticks though most of them are late, and some missing.
func TestRateByTicks(t *testing.T) {
	t.Parallel()
	busy := func(i int) time.Duration { return time.Duration(i*i%17) * 7 * time.Millisecond }
	for _, ppm := range []float64{9000, -9000, 8000, -8000, 100, 0, 900_000, -500_000} {
		for name, late := range map[string]func(int) time.Duration{
			"on time": func(int) time.Duration { return 0 }, "busy": busy,
			"late as a whole": func(i int) time.Duration { return 40*time.Millisecond + busy(i) },
		} {
			all := ticksAt(150, ppm, late) // three seconds
			all = append(all[:20:20], all[40:]...)
			got, ok := ratePPM(all, rateTick)
			if !ok || math.Abs(got-ppm) > max(100, math.Abs(ppm)/100) {
				t.Errorf("%s: %.0f ppm, %t, want %.0f", name, got, ok, ppm)
			}
		}
	}
	if _, ok := ratePPM(ticksAt(8, 0, busy), rateTick); ok {
		t.Error("a handful of ticks told a rate")
	}
}

// A wall clock is told by what its worker wrote, as far as it is meant to be wrong.
func TestOffsetByStamps(t *testing.T) {
	t.Parallel()
	const minutes = 10 * time.Minute
	for name, c := range map[string]struct {
		meant  time.Duration
		stamps []time.Duration // wrong by, in rows of w1.1
		other  []time.Duration // in rows of w2.1
		early  bool            // they were written before the fault
		proven bool
		text   string
	}{
		"ahead":                 {meant: minutes, stamps: []time.Duration{minutes - 20*time.Millisecond}, proven: true, text: "off by 9m59.98s"},
		"behind, and late":      {meant: -minutes, stamps: []time.Duration{-minutes - 3*time.Second, -minutes - 400*time.Millisecond}, proven: true, text: "by 2 rows"},
		"half a second is more": {meant: -minutes, stamps: []time.Duration{-minutes - 501*time.Millisecond}, text: "off by -10m0.501s"},
		"right all the same":    {meant: 5 * time.Second, stamps: []time.Duration{0, -time.Second}, text: "off by 0s"},
		"a second, and not":     {meant: time.Second, stamps: []time.Duration{0}, text: "off by 0s"},
		"a second, and half":    {meant: time.Second, stamps: []time.Duration{time.Second / 2}, proven: true, text: "off by 500ms"},
		"another's":             {meant: minutes, other: []time.Duration{minutes}, text: "has written no row"},
		"of before":             {meant: minutes, stamps: []time.Duration{minutes}, early: true, text: "has written no row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := &Env{}
			written := time.Now().Add(time.Minute)
			if c.early {
				written = time.Now().Add(-time.Minute)
			}
			env.Stamps = func(context.Context) (out []Stamp, err error) {
				for life, all := range map[string][]time.Duration{"w1.1": c.stamps, "w2.1": c.other} {
					for i, by := range all {
						at := written.Add(time.Duration(i) * time.Second)
						out = append(out, Stamp{Life: life, Wall: at.Add(by), Written: at})
					}
				}
				return out, nil
			}
			a := &activeClock{env: env, stamps: watchStamps(env)}
			defer a.stamps.stop()
			a.to.OffsetMS = c.meant.Milliseconds()
			ctx, cancel := context.WithTimeout(t.Context(), 2*stampsEvery)
			defer cancel()
			if c.proven {
				ctx = t.Context()
			}
			ev := Evidence{Proven: true}
			if a.offset(ctx, &ev, "w1.1"); ev.Proven != c.proven || !strings.Contains(ev.Text, c.text) {
				t.Errorf("got %+v, want proven %t with %q", ev, c.proven, c.text)
			}
		})
	}
	env := &Env{Stamps: func(context.Context) ([]Stamp, error) { return nil, errors.New("no node") }}
	a := &activeClock{env: env, stamps: watchStamps(env)}
	defer a.stamps.stop()
	a.to.OffsetMS = 1000
	ctx, cancel := context.WithTimeout(t.Context(), 2*stampsEvery)
	defer cancel()
	ev := Evidence{Proven: true}
	if a.offset(ctx, &ev, "w1.1"); ev.Proven || !strings.Contains(ev.Text, "cannot be read (no node)") {
		t.Errorf("%+v", ev)
	}
}

// A client that was told to stay is seen to have stayed by its claim.
func TestSlowJobStays(t *testing.T) {
	t.Parallel()
	const ttl, hold, who = 6 * time.Second, 9 * time.Second, "w1.1/c2"
	start := time.Unix(1000, 0)
	mine := func(renewed time.Duration) Claim {
		return Claim{By: who, Token: 7, Written: start.Add(renewed * time.Millisecond), TTL: ttl}
	}
	other := func(by string, token int64, written time.Duration) Claim {
		return Claim{By: by, Token: token, Written: start.Add(written * time.Millisecond), TTL: ttl}
	}
	ledger := func(entries int64) Claim { return Claim{By: "the ledger", Token: entries, Anonymous: true, TTL: ttl} }
	type look struct {
		at  time.Duration
		see Claim
		err error
	}
	blind := errors.New("no node answers")
	for name, c := range map[string]struct {
		first  Claim
		looks  []look
		proven bool
		text   string
	}{
		"renewed to the end":        {mine(0), []look{{2100, mine(2000), nil}, {4100, mine(4000), nil}, {8900, mine(8000), nil}}, true, "for 8.9 s of the 9.0 s for which it was to stay, with 3 renewals"},
		"released at the end":       {mine(0), []look{{8850, mine(8000), nil}, {8950, other("", 7, 8900), nil}}, true, "8.8 s"},
		"left at once":              {mine(0), []look{{0, mine(0), nil}, {100, other("", 7, 30), nil}}, false, "then nobody had it: it did not stay"},
		"left, and another got it":  {mine(0), []look{{100, other("w2.1/c1", 8, 40), nil}}, false, "then w2.1/c1 had it: it did not stay"},
		"left after the ttl":        {mine(0), []look{{6500, mine(6000), nil}, {6600, other("", 7, 6550), nil}}, false, "it did not stay"},
		"its lease ran out":         {mine(0), []look{{2100, mine(2000), nil}, {8000, mine(2000), nil}, {8100, other("w2.1/c1", 8, 8050), nil}}, true, "took it over 6.0 s after the last renewal"},
		"taken over before the ttl": {mine(0), []look{{2100, mine(2000), nil}, {7700, other("w2.1/c1", 8, 7700), nil}}, false, "it did not stay"},
		"seen again at the end":     {mine(0), []look{{100, mine(0), nil}, {4000, Claim{}, blind}, {8900, mine(8000), nil}}, true, "8.9 s"},
		"never seen again":          {mine(0), []look{{100, mine(0), nil}, {4000, Claim{}, blind}}, false, "the rows could not be read (no node answers)"},
		"another had it":            {other("w2.1/c1", 8, 0), nil, false, "which the rows say w2.1/c1 had"},
		"nobody had it":             {Claim{}, nil, false, "which the rows say nobody had"},
		"the ledger stands still":   {ledger(3), []look{{8900, ledger(3), nil}}, true, "8.9 s"},
		"the ledger grows at once":  {ledger(3), []look{{100, ledger(4), nil}}, false, "it did not stay"},
		"… when the lease is over":  {ledger(3), []look{{6100, ledger(3), nil}, {6200, ledger(4), nil}}, true, "its lease had run out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			close(done)
			a := &activeSlowJob{
				env: &Env{Stay: func(context.Context, string) (Claim, error) { return Claim{}, nil }}, hit: Hit{Proc: who, Key: "lock-01", Hold: hold},
				first: c.first, latest: c.first, since: start, last: start, cancel: func() {}, done: done,
			}
			for _, l := range c.looks {
				if a.saw(l.see, l.err, start.Add(l.at*time.Millisecond)) {
					break
				}
			}
			if ev := a.Probe(t.Context()); ev.Proven != c.proven || !strings.Contains(ev.Text, c.text) {
				t.Errorf("got %+v, want proven %t with %q", ev, c.proven, c.text)
			}
		})
	}
}

// A proof uses no word that is not explained, and none is explained for nothing.
func TestProofsUseTerms(t *testing.T) {
	t.Parallel()
	all := ""
	for _, name := range Names() {
		all += Proof(name)
	}
	for _, term := range Terms {
		if !strings.Contains(all, "*"+term.Name+"*") {
			t.Errorf("no proof uses %q", term.Name)
		}
		all = strings.ReplaceAll(all, "*"+term.Name+"*", "")
	}
	if strings.Contains(all, "*") {
		t.Errorf("words that are not explained: %s", all)
	}
}
