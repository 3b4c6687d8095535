package fault

import (
	"context"
	"slices"

	"fencepost/harness/link"
)

// lostReplies lets requests through and drops the answers.
type lostReplies struct{ sink bool }

func (lostReplies) Kind() TargetKind { return Worker }

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
	now := map[*link.Link]spoken{} // the harness itself asks something soon
	for _, l := range r.links {
		now[l] = r.env.spoken(l)
	}
	passed := r.passed()
	ev := r.stopped(ctx)
	ev.also(passed > 0, "%d bytes of requests went through", passed)
	for _, w := range r.workers {
		r.lost(&ev, w, now)
	}
	return ev
}

// lost adds what answers a worker lost.
func (r *repliesLost) lost(ev *Evidence, worker string, now map[*link.Link]spoken) {
	var asked, answered int64
	unread := slices.ContainsFunc(r.links, func(l *link.Link) bool { return l.From() == worker && !now[l].known })
	for _, l := range r.links {
		if l.From() == worker {
			asked += now[l].requests - r.before[l].requests
			answered += now[l].answers - r.before[l].answers
		}
	}
	switch {
	case answered > 0:
		ev.also(true, "of %d statements of %s %d were answered, and no answer arrived", asked, worker, answered)
	case unread:
		ev.Text += "; what " + worker + " asked cannot be read on these links, so that a lost answer may be one to its driver's heartbeat"
	default:
		ev.also(false, "no statement of %s was answered meanwhile (%d were sent): no reply was lost", worker, asked)
	}
}
