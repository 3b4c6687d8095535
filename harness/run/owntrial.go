package run

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
)

// A trial is a run that also tries what a program of a user's own says that it does: at each point
// that it offers a client is kept waiting once, and its requests are compared with what its links
// carried. What comes of it is in own.Trial and judged elsewhere.

const (
	// answerAfter is for how long the answer at a point is held back.
	answerAfter = time.Second
	// comesWithin is for how long a client is waited for.
	comesWithin = 10 * time.Second
)

// tried are the points in the order in which they are tried. Renewals are due only while a client
// works for long, so that both are tried together.
var tried = [][]control.Point{{control.AcquireSent}, {control.Holding, control.RenewSent}, {control.EffectSent}, {control.ReleaseSent}}

// workFor is for how long a client is told to work: renewals are due meanwhile, and a lease that
// is not renewed lasts longer, even with the wait before.
func workFor(ttl time.Duration) time.Duration { return ttl * 7 / 12 }

// tryPoints keeps a client waiting at each point that is offered.
func (o *ownRun) tryPoints(ctx context.Context) error {
	t := o.opt.Trial
	for _, together := range tried {
		first := len(t.Stands)
		for _, p := range together {
			if slices.Contains(t.Offer.Points, p) {
				t.Stands = append(t.Stands, own.Stand{Point: p})
			}
		}
		var g errgroup.Group
		for i := first; i < len(t.Stands); i++ {
			g.Go(func() error { return o.tryPoint(ctx, &t.Stands[i]) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// tryPoint keeps one client waiting, if one comes. That none does is for others to judge.
func (o *ownRun) tryPoint(ctx context.Context, s *own.Stand) error {
	hits, cancel, err := o.env.Fleet.Arm(s.Point, "")
	if err != nil {
		if o.env.Fleet.Fallen() {
			return nil // P18 tells
		}
		return err
	}
	defer cancel()
	limit := time.NewTimer(comesWithin)
	defer limit.Stop()
	select {
	case hit := <-hits:
		held := pause(ctx, answerAfter)
		s.Proc, s.Key, s.At, s.Went = hit.Proc, hit.Key, hit.At, history.Now()
		if s.Point == control.Holding {
			s.Hold = workFor(o.plan.Spec.Workload.TTL.D())
		}
		if err := hit.Go(s.Hold); err != nil {
			return errors.Join(held, err)
		}
		return held
	case <-limit.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// atInstants has the steps come at once whose points are not offered.
func (o *ownRun) atInstants(offer own.Offer) error {
	for i := range o.plan.Steps {
		if _, missing := unoffered(o.plan.Steps[i], offer); missing {
			o.plan.Steps[i].On, o.plan.Steps[i].Until = nil, nil
		}
	}
	return o.plan.Write(filepath.Join(o.dir, rundir.PlanFile))
}

// unoffered is a point that a step waits for and that the program does not offer.
func unoffered(st plan.Step, offer own.Offer) (control.Point, bool) {
	for _, p := range st.Points() {
		if !slices.Contains(offer.Points, p) {
			return p, true
		}
	}
	return "", false
}

// sentOf compares acquires and releases with what the links carried. Only those that set an attempt
// of their own count: no request before can have carried it. What the program offers no point
// before need not show on a link.
func (o *ownRun) sentOf(h *history.History) (out []own.Sent) {
	for i := range h.Events {
		e := &h.Events[i]
		if e.Type != history.Invoke || e.To == nil || e.To.Absent || history.Life(e.Proc) == history.Harness {
			continue
		}
		p := map[history.Op]control.Point{history.OpAcquire: control.AcquireSent, history.OpRelease: control.ReleaseSent}[e.Op]
		if slices.Contains(o.opt.Trial.Offer.Points, p) {
			out = append(out, own.Sent{Proc: e.Proc, ID: e.ID, At: o.firstWrite(h, e)})
		}
	}
	return out
}

// ofProgram says of an error that it is the mistake of a user's own program, if the run has one and
// was not interrupted.
func (r *runner) ofProgram(about string, err error) error {
	if err == nil || r.opt.System.Design() != system.Exec || errors.Is(err, context.Canceled) {
		return err
	}
	return &own.Mistake{About: about, Err: err}
}
