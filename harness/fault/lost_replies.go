package fault

import (
	"context"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

func init() {
	register(Kind{
		Name: "lost-replies", On: Worker, Family: FamilyReplies,
		About: "requests of workers to the lock store arrive and are executed, the answers are dropped",
		Proof: "*replies lost*",
		Swarm: &Draw{Place: 4, Points: []control.Point{control.AcquireSent, control.ReleaseSent}},
		New:   plain(lostReplies{}),
	}, Kind{
		Name: "sink-lost-replies", On: Worker, Family: FamilyReplies,
		About: "requests of workers to the sink arrive and are executed, the answers are dropped",
		Proof: "*replies lost*",
		Takes: history.TakesSink,
		New:   plain(lostReplies{sink: true}),
	})
}

// lostReplies lets requests through and drops the answers.
type lostReplies struct{ sink bool }

func (l lostReplies) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	silent := links.store()
	if l.sink {
		silent = links.sink
	}
	c, err := newCut(ctx, env, link.Ends(silent, link.Down), link.Mode{Kind: link.Drop})
	if err != nil {
		return nil, err
	}
	return newRepliesLost(c, targets), nil
}

// repliesLost demands requests that got through as well as answers that did not.
type repliesLost struct {
	*cut
	workers []string
	before  map[*link.Link]spoken
}

// spoken is what was said on a link so far.
type spoken struct {
	requests, answers int64
	known             bool
}

func (e *Env) spoken(l *link.Link) (s spoken) {
	if e.Spoken != nil {
		s.requests, s.answers, s.known = e.Spoken(l)
	}
	return s
}

func newRepliesLost(c *cut, workers []string) *repliesLost {
	r := &repliesLost{cut: c, workers: workers, before: map[*link.Link]spoken{}}
	for _, l := range c.links {
		r.before[l] = c.env.spoken(l)
	}
	return r
}

// Probe: nothing that came for the workers has passed, so every answer to a statement
// since then is lost.
func (r *repliesLost) Probe(ctx context.Context) Evidence {
	now, delta := map[*link.Link]spoken{}, r.watch.Delta() // the harness itself asks something soon
	for _, l := range r.links {
		now[l] = r.env.spoken(l)
	}
	passed := r.passed()
	ev := r.stopped(ctx)
	if !ev.Proven {
		return ev
	}
	ev.also(passed > 0, "%d bytes of requests went through", passed)
	for _, w := range r.workers {
		var lost lostOf
		for _, l := range r.links {
			if l.From() == w {
				lost.add(r.before[l], now[l], delta[l.Name()])
			}
		}
		lost.judge(&ev, w)
	}
	return ev
}

// lostOf is what a worker lost, over its links.
type lostOf struct {
	asked, answered int64
	dropped         int64 // bytes
	unread          bool  // on a link whose protocol is not read
}

func (o *lostOf) add(before, now spoken, moved link.Counters) {
	o.asked += now.requests - before.requests
	o.answered += now.answers - before.answers
	o.dropped += moved.Down.DroppedBytes
	o.unread = o.unread || !now.known
}

func (o *lostOf) judge(ev *Evidence, worker string) {
	switch {
	case o.answered > 0:
		ev.also(true, "of %d statements of %s %d were answered, and no answer arrived", o.asked, worker, o.answered)
	case o.unread:
		ev.also(o.dropped > 0, "%d bytes of answers to %s were dropped; to what, nobody reads on these links", o.dropped, worker)
	default:
		ev.also(false, "no statement of %s was answered meanwhile (%d were sent): no reply was lost", worker, o.asked)
	}
}
