package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"fencepost/harness/plan"
	"fencepost/harness/record/history"
)

// stays is what the injections of each fault have shown so far.
type stays struct {
	mu sync.Mutex
	of map[string]*stayed
}

// stayed is by the fault's name.
type stayed struct {
	first  time.Time // when the first injection was in force
	cycles int64     // in those that are over
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
	r.stays.mu.Lock()
	defer r.stays.mu.Unlock()
	if r.stays.of == nil {
		r.stays.of = map[string]*stayed{}
	}
	if r.stays.of[st.Fault] == nil {
		r.stays.of[st.Fault] = &stayed{first: now.began}
	}
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
	r.stays.mu.Lock()
	so := r.stays.of[st.Fault]
	first, before := so.first, so.cycles
	r.stays.mu.Unlock()
	if id == r.plan.LastOf(st.Fault) {
		over := first.Add(p.LongestGap.D(w.TTL.D()) + w.TTL.D()/6)
		if err := pause(ctx, time.Until(over)); err != nil {
			return err
		}
		want := int64(demand.MinCycles) + int64(demand.MinCycles)/8 // as in enough
		deadline := in.began.Add(st.For.D() + max(stretch*st.For.D(), leastStretch))
		for before+r.cyclesOf(p.Group, in.targets)-in.cycles < want && time.Now().Before(deadline) {
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	r.stays.mu.Lock()
	so.cycles += r.cyclesOf(p.Group, in.targets) - in.cycles
	r.stays.mu.Unlock()
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
