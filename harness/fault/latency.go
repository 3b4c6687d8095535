package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "latency", On: Worker, Family: FamilyLatency,
		About:  "delay all traffic between workers and nodes, each way",
		Proof:  "*delayed*",
		Params: []string{"latency", "jitter"},
		Takes:  history.TakesTime,
		Swarm:  &Draw{Place: 5, Params: drawDelay},
		New:    delaying(func(m link.Mode) Fault { return latency{mode: m} }),
	}, Kind{
		Name: "latency-oneway", On: Worker, Family: FamilyLatency,
		About:  "delay one direction between workers and nodes: requests (out), or answers (in)",
		Proof:  "*delayed*; in the other direction of each link nothing is, neither of others nor of the harness's",
		Params: []string{"latency", "jitter", "sense"},
		Takes:  history.TakesTimeOneWay,
		New:    newLatencyOneway,
	}, Kind{
		Name: "slow-node", On: Node, Family: FamilyLatency,
		About:  "delay all traffic between nodes and their peers and clients, each way",
		Proof:  "*delayed*",
		Params: []string{"latency", "jitter"},
		New:    delaying(func(m link.Mode) Fault { return slowNode{mode: m} }),
	}, Kind{
		Name: "slow-peers", On: Node, Family: FamilyLatency,
		About:  "delay all traffic between nodes and their peers, each way; clients reach them as before",
		Proof:  "*delayed*, but for requests: nobody makes any through links between nodes",
		Params: []string{"latency", "jitter"},
		Needs:  Needs{Peers: true},
		New:    delaying(func(m link.Mode) Fault { return slowNode{mode: m, peers: true} }),
	})
}

// latency delays what workers and nodes say to each other, in the directions that are given; without any, in both.
type latency struct {
	mode link.Mode
	dirs []link.Dir
}

func newLatencyOneway(s Spec) (Fault, error) {
	m, err := delayMode(s)
	dir := link.Up // requests
	if s.Sense == "in" {
		dir = link.Down
	}
	return latency{m, []link.Dir{dir}}, errors.Join(err, checkSense(s.Sense))
}

func (p latency) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	return newDelay(ctx, env, link.Ends(links.all(), p.dirs...), p.mode)
}

// slowNode delays all that nodes say and hear, or what they do among each other.
type slowNode struct {
	mode  link.Mode
	peers bool
}

func (p slowNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.nodes(targets); err != nil {
		return nil, err
	}
	var ends []link.End
	for i, t := range targets {
		for _, l := range env.Cluster.Links().Of(t) {
			if taken := targets[:i]; slices.Contains(taken, l.From()) || slices.Contains(taken, l.To()) {
				continue // a link between two targets has its delay already
			}
			ends = append(ends, link.Ends([]*link.Link{l})...)
		}
		if p.peers {
			continue
		}
		clients := env.WorkerLinks.To(t)
		if len(clients) == 0 {
			return nil, fmt.Errorf("no worker has a link to %s", t)
		}
		ends = append(ends, link.Ends(clients)...)
	}
	return newDelay(ctx, env, ends, p.mode)
}

func drawDelay(rng *rand.Rand, s *Spec) {
	s.Latency = time.Duration(100+rng.IntN(900)) * time.Millisecond
	s.Jitter = s.Latency / 2
}

func delayMode(s Spec) (link.Mode, error) {
	m := link.Mode{Kind: link.Latency, Latency: s.Latency, Jitter: s.Jitter, Seed: s.Seed}
	switch {
	case s.Latency <= 0:
		return m, errors.New("latency is missing: a one-way delay such as 200ms")
	case s.Jitter < 0 || s.Jitter > s.Latency:
		return m, fmt.Errorf("jitter %s is not between 0 and the latency %s", s.Jitter, s.Latency)
	}
	return m, nil
}

// delaying makes a fault whose parameters are those of a delay.
func delaying(make func(link.Mode) Fault) func(Spec) (Fault, error) {
	return func(s Spec) (Fault, error) {
		m, err := delayMode(s)
		return make(m), err
	}
}

// delay is ends of links with a delay. Each end is timed by itself, and requests through
// the links are, before the fault and during it.
type delay struct {
	*switched
	mode   link.Mode
	others []link.End                 // the directions of the same links that are not delayed
	before map[link.End]time.Duration // of all ends
	doors  *doors
	trips  []trip // through the doors
}

func newDelay(ctx context.Context, env *Env, ends []link.End, m link.Mode) (*delay, error) {
	links := linksOf(ends)
	both := link.Ends(links)
	d := &delay{mode: m, others: slices.DeleteFunc(slices.Clone(both), func(e link.End) bool { return slices.Contains(ends, e) })}
	var err error
	d.switched, err = newSwitched(ctx, env, ends, m, func(ctx context.Context, t *trial) (err error) {
		d.doors = newDoors(ctx, env, links)
		d.trips = d.doors.roundTrips(ctx, answerTimeout)
		d.before, err = t.delays(ctx, both)
		return err
	})
	return d, err
}

// due is by how much each way must take longer of some samples. The mean of
// all is the latency; that of the samples of one end strays from it by a sixth of the
// jitter, of which the bound is at least three times as much away.
func (d *delay) due() time.Duration { return d.mode.Latency / 2 }

// Probe times bytes through each end, and requests through the links.
func (d *delay) Probe(ctx context.Context) Evidence {
	var delayed int64
	for _, c := range d.watch.Delta() {
		delayed += c.Up.DelayedBytes + c.Down.DelayedBytes
	}
	if delayed == 0 {
		return Evidence{Text: "no byte was delayed"}
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("%d bytes delayed by %s ± %s %s", delayed, d.mode.Latency, d.mode.Jitter, d.way())}
	d.byEnd(ctx, &ev)
	d.requests(ctx, &ev)
	return ev
}

// way says in which directions the ends are.
func (d *delay) way() string {
	if len(d.others) == 0 {
		return "each way"
	}
	return d.ends[0].Dir.String() + " alone"
}

// byEnd adds how much longer a byte takes through each end than before.
func (d *delay) byEnd(ctx context.Context, ev *Evidence) {
	now, err := d.trial.delays(ctx, slices.Concat(d.ends, d.others))
	if err != nil {
		ev.also(false, "what the harness sent did not arrive (%s)", firstLine(err))
		return
	}
	least, most, all := time.Duration(0), time.Duration(0), true
	for i, e := range d.ends {
		by := now[e] - d.before[e]
		if by < d.due() {
			all = false
			ev.also(false, "%s %s takes %d ms, and took %d before: by %d more are due", e.Link.Name(), e.Dir, now[e].Milliseconds(), d.before[e].Milliseconds(), d.due().Milliseconds())
		}
		if i == 0 || by < least {
			least = by
		}
		most = max(most, by)
	}
	if all {
		ev.also(true, "the harness's own bytes take longer through each of %d ends than before, by %d to %d ms", len(d.ends), least.Milliseconds(), most.Milliseconds())
	}
	d.otherWay(now, ev)
}

// otherWay adds that the directions which are not delayed are as they were.
func (d *delay) otherWay(now map[link.End]time.Duration, ev *Evidence) {
	if len(d.others) == 0 {
		return
	}
	counted, slow := d.watch.Delta(), 0
	for _, e := range d.others {
		by, bytes := now[e]-d.before[e], counted[e.Link.Name()].Dir(e.Dir).DelayedBytes
		if by >= d.due() || bytes > 0 {
			slow++
			ev.also(false, "%s %s is slow too: by %d ms, and %d bytes of others were delayed", e.Link.Name(), e.Dir, by.Milliseconds(), bytes)
		}
	}
	if slow == 0 {
		ev.also(true, "the other direction of each link is as fast as before")
	}
}

// requests adds how much longer an answer takes through each link than before.
func (d *delay) requests(ctx context.Context, ev *Evidence) {
	if len(d.doors.opened) == 0 {
		return
	}
	slower := 0
	now := d.doors.roundTrips(ctx, answerTimeout+8*(d.mode.Latency+d.mode.Jitter))
	for i, l := range d.doors.opened {
		switch n, was := now[i], d.trips[i]; {
		case n.err != nil && n.beside:
			ev.also(false, "a request through %s failed (%s)", l.Name(), firstLine(n.err))
		case n.err != nil || was.err != nil:
		case n.took-was.took < d.due():
			ev.also(false, "an answer through %s takes %d ms, and took %d before: by %d more are due", l.Name(), n.took.Milliseconds(), was.took.Milliseconds(), d.due().Milliseconds())
		default:
			slower++
		}
	}
	ev.also(slower > 0, "and so do requests to %d of %d services behind the links", slower, len(d.doors.opened))
}

// After shows that the delay is over: bytes take less long again.
func (d *delay) After(ctx context.Context) Evidence {
	defer d.close()
	now, err := d.trial.delays(ctx, d.ends)
	if err != nil {
		return Evidence{Text: "healed, but what the harness sent did not arrive: " + firstLine(err)}
	}
	ev := Evidence{Proven: true}
	for _, e := range d.ends {
		if now[e]-d.before[e] >= d.due() {
			ev.also(false, "healed, but %s %s still takes %d ms", e.Link.Name(), e.Dir, now[e].Milliseconds())
		}
	}
	if ev.Proven {
		ev.Text = fmt.Sprintf("healed: none of the %d ends takes as long any more", len(d.ends))
	}
	return ev
}
