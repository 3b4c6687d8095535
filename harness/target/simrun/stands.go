package simrun

import (
	"time"

	"fencepost/core/engine"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

// DrawStanding and DrawJobsStanding are runs whose processes stand still again and again.
func DrawStanding(seed uint64) Config {
	c := Draw(seed)
	c.Stands, c.Locks = 40, 30 // mostly nobody else wants the lock meanwhile
	return c
}

// DrawJobsStanding: see DrawStanding.
func DrawJobsStanding(seed uint64) Config {
	c := DrawJobs(seed)
	c.Stands = 9
	return c
}

// DrawAtMostOnce is such a run of jobs of which each may be cut short once at most.
func DrawAtMostOnce(seed uint64) Config {
	c := DrawJobsStanding(seed)
	c.Mixture = &workload.Mixture{AtMostOnce: 1}
	return c
}

// stand has the process of a life stand still, unless all is healed. What its clocks show goes
// on.
func (l *life) stand() {
	if l.rec.r.healed.Load() {
		return
	}
	d := l.rec.r.TTL + l.rec.r.TTL/2
	l.rows.Pause(d)
	l.effects.Pause(d)
	time.Sleep(d)
}

// answered stops a life's clients where the answer to a request has come, and is not recorded.
type answered struct {
	*recorder
	l *life
}

// Record implements workload.Recorder.
func (a answered) Record(e history.Event) int64 {
	if n := int64(a.r.Stands); n > 0 && a.r.Shards == 0 && e.ID%n == 0 && e.Type == history.OK {
		switch e.Op {
		case history.OpAcquire, history.OpRenew, history.OpRelease, history.OpEffect:
			a.l.stand()
		}
	}
	return a.recorder.Record(e)
}

// standing adds to hooks that runs find the process standing still when they are about to look
// at the clock.
func (r *run) standing(l *life, hooks workload.Hooks) workload.Hooks {
	if r.Stands == 0 {
		return hooks
	}
	plant := hooks.Engine
	hooks.Engine = func(cfg workload.Config, o *engine.Options) {
		if plant != nil {
			plant(cfg, o)
		}
		o.Observer = engine.Watch(o.Observer, func(s engine.Step) {
			if s.Kind == engine.StepBegin && int64(s.Run)%int64(r.Stands) == 0 {
				l.stand()
			}
		})
	}
	return hooks
}
