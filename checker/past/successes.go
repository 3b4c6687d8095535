package past

import "fencepost/harness/record/history"

// Success is what a run counts as work done: the release of a lock, or, in a run
// with jobs, a batch that completes n of them. It was acknowledged.
type Success struct {
	log   *Row // nil: of a job with a lock of its own
	Op    *Op
	Count int
}

// findSuccesses finds the run's, by row.
func (a *Past) findSuccesses() (out []Success) {
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			if c.Outcome != history.OK {
				continue
			}
			n := 0
			switch {
			case !a.Jobs.Any() && c.Kind() == history.OpRelease:
				n = 1
			case a.Jobs.Any():
				for i := range c.Invoke.Changes() {
					if c.Invoke.Changes()[i].Do == history.DoComplete {
						n++
					}
				}
			}
			if n > 0 {
				out = append(out, Success{l, &c.Op, n})
			}
		}
	}
	for _, j := range a.Jobs.List {
		for _, o := range j.Updates {
			if o.Outcome == history.OK && o.Invoke.Changes()[0].Do == history.DoComplete {
				out = append(out, Success{nil, o, 1})
			}
		}
	}
	return out
}

// Cycle is what a success is called.
func (a *Past) Cycle() string {
	if a.Jobs.Any() {
		return "completed job"
	}
	return "lock cycle"
}

// Work is the same for groups of workers.
func (a *Past) Work() string {
	if a.Jobs.Any() {
		return "completed job"
	}
	return "release"
}
