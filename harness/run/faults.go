package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

// errNotTriggered: the event that should have set a fault off never came.
var errNotTriggered = errors.New("the trigger never came")

// runSteps carries out all lanes of steps side by side and returns when all are
// healed. Errors are recorded as missing evidence (the run is then INVALID), and
// returned for the log. deadline bounds the wait for triggers.
func (r *runner) runSteps(ctx context.Context, deadline time.Duration) []error {
	start := time.Now()
	lanes := lanes(r.plan.Steps)
	errs := make(chan error, len(lanes))
	for _, lane := range lanes {
		go func() {
			var all []error
			for _, st := range lane {
				all = append(all, r.runStep(ctx, st, start, deadline))
			}
			errs <- errors.Join(all...)
		}()
	}
	var out []error
	for range lanes {
		if err := <-errs; err != nil {
			out = append(out, err)
		}
	}
	return out
}

// lanes groups steps: a lane has one step, or all those that name it.
func lanes(steps []plan.Step) [][]*plan.Step {
	var out [][]*plan.Step
	named := map[string]int{}
	for i := range steps {
		st := &steps[i]
		if at, ok := named[st.Lane]; ok {
			out[at] = append(out[at], st)
			continue
		}
		if st.Lane != "" {
			named[st.Lane] = len(out)
		}
		out = append(out, []*plan.Step{st})
	}
	return out
}

func (r *runner) runStep(ctx context.Context, st *plan.Step, start time.Time, deadline time.Duration) error {
	f, err := fault.New(st.Spec)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Until(start.Add(st.At.D()))); err != nil {
		return err
	}
	for i, id := range st.IDs {
		targets := st.Targets
		if st.InTurn {
			at := i % len(targets)
			targets = targets[at : at+1]
		}
		if err := r.injectOnce(ctx, st, f, id, targets, deadline); err != nil {
			return fmt.Errorf("fault %s (%s on %s): %w", id, st.Fault, strings.Join(targets, ", "), err)
		}
	}
	return nil
}

// injectOnce is one injection: wait for the trigger, inject, let go, wait, probe, heal.
func (r *runner) injectOnce(ctx context.Context, st *plan.Step, f fault.Fault, id string, targets []string, deadline time.Duration) error {
	hit, err := r.awaitTrigger(ctx, st, id, deadline)
	if err != nil {
		return err
	}
	targets, err = r.resolve(ctx, targets, hit)
	if err != nil {
		if hit != nil {
			_ = hit.Go(0)
		}
		return err
	}
	note := history.Fault{ID: id, Name: st.Fault, Targets: targets, Trigger: "at " + st.At.D().String(), Times: st.Times}
	if st.Latency > 0 {
		note.DelayMS = (st.Latency - st.Jitter).Milliseconds()
	}
	if hit != nil {
		note.Trigger = fmt.Sprintf("%s at point %s of %s", hit.Proc, hit.Point, hit.Key)
	}
	env := r.env.For(st.Fault, hitOf(st, hit))
	opCtx, cancel := context.WithTimeout(osproc.As(ctx, id), fault.OpTimeout)
	active, err := f.Inject(opCtx, env, targets)
	cancel()
	if err != nil {
		if hit != nil {
			_ = hit.Go(0)
		}
		return fmt.Errorf("inject: %w", err)
	}
	r.fault(note, history.ActionInject, fault.Evidence{})
	in := r.inForce(st, targets)
	if hit != nil {
		// One that is stopped finds it later.
		if err := hit.Go(env.Hold()); err != nil {
			err = fmt.Errorf("resume %s: %w", hit.Proc, err)
			return errors.Join(err, r.heal(active, note))
		}
	}
	waitErr := pause(ctx, st.For.D())
	var next *fleet.Hit
	var late error
	if waitErr == nil && st.Until != nil {
		next, late = r.awaitOther(ctx, st, id, hit, targets, deadline)
	}
	if waitErr == nil && st.On == nil && len(r.plan.Steps) == 1 && !st.InTurn {
		// The phase's cycles are meant to happen under the fault.
		waitErr = r.enough(ctx, history.PhaseFault, st.For.D())
	}
	if waitErr == nil {
		waitErr = r.stay(ctx, st, id, in)
	}
	if waitErr == nil {
		opCtx, cancel := context.WithTimeout(ctx, fault.OpTimeout)
		ev := active.Probe(opCtx)
		cancel()
		switch {
		case late != nil:
			ev = fault.Evidence{Text: late.Error() + "; " + ev.Text}
		case hit != nil && hit.Late():
			ev = fault.Evidence{Text: fmt.Sprintf("%s stood at its point for %s and then went on by itself, "+
				"before it was told that the fault was in force", hit.Proc, control.GoTimeout)}
		}
		r.fault(note, history.ActionEvidence, ev)
	}
	// Heal also when the run is interrupted: a paused worker must not stay so.
	err = errors.Join(waitErr, late, r.heal(active, note))
	if next != nil {
		err = errors.Join(err, pause(ctx, st.Until.Stay.D()), next.Go(0))
	}
	if a, ok := active.(fault.Aftermath); ok && err == nil {
		opCtx, cancel := context.WithTimeout(ctx, fault.OpTimeout)
		defer cancel()
		r.fault(note, history.ActionEvidence, a.After(opCtx))
	}
	return err
}

// hitOf describes the client that a fault comes to; nil for a fault at an instant.
func hitOf(st *plan.Step, h *fleet.Hit) *fault.Hit {
	if h == nil {
		return nil
	}
	return &fault.Hit{Proc: h.Proc, Key: h.Key, Hold: st.On.Hold.D()}
}

// resolve replaces the target coordinator by the node that it is now, and worker-at-point
// by the worker of the hit.
func (r *runner) resolve(ctx context.Context, targets []string, hit *fleet.Hit) ([]string, error) {
	out := slices.Clone(targets)
	for i, t := range out {
		if t == fault.WorkerAtPoint && hit != nil {
			out[i] = hit.Worker
		}
		if t != fault.Coordinator {
			continue
		}
		ip, err := r.target.coordinator(ctx)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(r.opt.Cluster.Nodes(), func(n cluster.Node) bool { return n.IP() == ip })
		if at < 0 {
			return nil, fmt.Errorf("the coordinator %s is not a node of this cluster", ip)
		}
		nodes := r.opt.Cluster.Nodes()
		for n := 0; n < len(nodes) && (nodes[at].State() != cluster.Running || slices.Contains(out, nodes[at].Name())); n++ {
			at = (at + 1) % len(nodes)
		}
		out[i] = nodes[at].Name()
	}
	return out, nil
}

func (r *runner) heal(a fault.Active, note history.Fault) error {
	ctx, cancel := context.WithTimeout(osproc.As(context.Background(), note.ID), fault.RestartTimeout)
	defer cancel()
	err := a.Heal(ctx)
	r.fault(note, history.ActionHeal, fault.Evidence{})
	if err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	return nil
}

// awaitTrigger arms the step's point and waits for the hit; nil for a step at an instant.
func (r *runner) awaitTrigger(ctx context.Context, st *plan.Step, id string, deadline time.Duration) (*fleet.Hit, error) {
	if st.On == nil {
		return nil, nil
	}
	var workers []string // all
	if st.On.Worker != fault.WorkerAtPoint {
		workers = []string{st.On.Worker}
	}
	hit, err := r.awaitHit(ctx, history.Armed{Fault: id, Name: st.Fault}, st.On.Point, "", deadline, workers)
	if errors.Is(err, errNotTriggered) {
		err = fmt.Errorf("%w in %s", err, st.On.Worker)
	}
	return hit, err
}

// errNobodyElse: the event that should have ended a fault never came.
var errNobodyElse = errors.New("nobody else came so far")

// awaitOther waits until a client of a worker that is no target stands at the step's second
// point, at the lock or resource where the first was.
func (r *runner) awaitOther(ctx context.Context, st *plan.Step, id string, first *fleet.Hit, targets []string, deadline time.Duration) (*fleet.Hit, error) {
	var others []string
	for _, w := range r.env.Fleet.Workers() {
		if !slices.Contains(targets, w.Name()) {
			others = append(others, w.Name())
		}
	}
	armed := history.Armed{Fault: id, Name: st.Fault, Ends: true}
	hit, err := r.awaitHit(ctx, armed, st.Until.Point, first.Key, deadline, others)
	if errors.Is(err, errNotTriggered) {
		err = fmt.Errorf("%w within %s: %s at %s", errNobodyElse, deadline, st.Until.Point, first.Key)
	}
	return hit, err
}

// awaitHit arms a point, at a key ("": any) in workers (none: all), waits for the hit, and records
// what came of it.
func (r *runner) awaitHit(ctx context.Context, armed history.Armed, p control.Point, key string, deadline time.Duration, workers []string) (*fleet.Hit, error) {
	armed.Since = history.Now()
	hits, cancel, err := r.env.Fleet.Arm(p, key, workers...)
	if err != nil {
		return nil, err
	}
	defer cancel()
	note := history.Event{Op: history.NoteArm, Details: &history.Details{Point: string(p), Armed: &armed}}
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case hit := <-hits:
		note.Key, armed.Proc = hit.Key, hit.Proc
		r.note(note)
		return &hit, nil
	case <-timer.C:
		r.note(note)
		return nil, fmt.Errorf("%w within %s: %s", errNotTriggered, deadline, p)
	case <-ctx.Done():
		r.note(note)
		return nil, ctx.Err()
	}
}

// fault records a fault note and shows it.
func (r *runner) fault(f history.Fault, action string, ev fault.Evidence) {
	f.Action, f.Proven, f.Text = action, ev.Proven, ev.Text
	r.note(history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &f}})
	r.progress.fault(f)
}

func pause(ctx context.Context, d time.Duration) error {
	if clock.Go().Sleep(ctx, d) != nil {
		return ctx.Err()
	}
	return nil
}

// stays is what the injections of each fault, by its name, have shown so far.
type stays struct {
	mu sync.Mutex
	of map[string]stayed
}

type stayed struct {
	first  time.Time // when the first injection was in force
	cycles int64     // in those that are over
}

// add counts cycles of an injection that began then, and returns what there is.
func (s *stays) add(fault string, began time.Time, cycles int64) stayed {
	s.mu.Lock()
	defer s.mu.Unlock()
	so, ok := s.of[fault]
	if !ok {
		so.first = began
	}
	so.cycles += cycles
	if s.of == nil {
		s.of = map[string]stayed{}
	}
	s.of[fault] = so
	return so
}

// injected is one injection in force.
type injected struct {
	began   time.Time
	targets []string
	cycles  int64 // of those who count, when it began
}

// inForce notes that a fault is in force now.
func (r *runner) inForce(st *plan.Step, targets []string) injected {
	now := injected{began: time.Now(), targets: targets}
	if p := r.plan.DemandOf(st.Fault); p != nil {
		now.cycles = r.cyclesOf(p.Group, targets)
	}
	r.stays.add(st.Fault, now.began, 0)
	return now
}

// stay lets the last injection of a fault stay in force until what the scenario demands
// can be seen: for longer than work may stand still, counted from the first injection,
// and until the cycles are there or its time is over, as in enough.
func (r *runner) stay(ctx context.Context, st *plan.Step, id string, in injected) error {
	p := r.plan.DemandOf(st.Fault)
	if p == nil {
		return nil
	}
	w := r.plan.Spec.Workload
	demand := p.Noted(w)
	so := r.stays.add(st.Fault, in.began, 0)
	if id == r.plan.LastOf(st.Fault) {
		over := so.first.Add(p.LongestGap.D(w.TTL.D()) + w.TTL.D()/6)
		if err := pause(ctx, time.Until(over)); err != nil {
			return err
		}
		want := int64(demand.MinCycles) + int64(demand.MinCycles)/8 // as in enough
		deadline := in.began.Add(st.For.D() + max(stretch*st.For.D(), leastStretch))
		for so.cycles+r.cyclesOf(p.Group, in.targets)-in.cycles < want && time.Now().Before(deadline) {
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	r.stays.add(st.Fault, in.began, r.cyclesOf(p.Group, in.targets)-in.cycles)
	return nil
}

// cyclesOf are the cycles so far of a group of workers.
func (r *runner) cyclesOf(group string, targets []string) (n int64) {
	for _, w := range r.env.Fleet.Workers() {
		if group == "" || (group == history.GroupTargets) == slices.Contains(targets, w.Name()) {
			n += w.Stats().Cycles
		}
	}
	return n
}
