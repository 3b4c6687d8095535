package checker

import (
	"cmp"
	"sort"

	"fencepost/harness/record/history"
)

// FaultRecovery is what followed a heal, until the next fault or the end: the time to
// the first release that was ok, of any lock, and of the lock for which it took longest;
// in a run with jobs to the first completed job, of any shard and of the slowest. What
// nobody asked for is not waited for.
type FaultRecovery struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	FirstMS     float64 `json:"first_ms"`
	SlowestMS   float64 `json:"slowest_ms"`
	SlowestLock string  `json:"slowest_lock,omitempty"`
	// Locks is how many locks had such a release; of 0 the times mean nothing.
	Locks int `json:"locks"`

	healed int64 // the instant
	until  int64 // when the next fault came, or the end
	// waiting are the gaps that had not ended by then, by lock; "" of all together.
	waiting []gap
}

// afterHeals finds the first successes after each heal. A heal that leaves another fault
// in force is followed by none: the last of those that overlap says how the run came back.
func (a *past) afterHeals() []FaultRecovery {
	healed := map[string]bool{}
	for i := range a.h.Events {
		if e := &a.h.Events[i]; e.Op == history.NoteFault && e.Fault() != nil && e.Fault().Action == history.ActionHeal {
			healed[e.Fault().ID] = true
		}
	}
	var out []FaultRecovery
	for _, w := range a.faults {
		if !healed[w.Fault.ID] {
			continue
		}
		f := FaultRecovery{ID: w.Fault.ID, Name: w.Fault.Name, healed: w.To, until: a.endOfWork()}
		for _, other := range a.faults {
			switch {
			case other.Fault.ID == w.Fault.ID || other.To <= w.To:
			case other.From <= w.To:
				f.until = w.To // it is in force already
			default:
				f.until = min(f.until, other.From)
			}
		}
		for _, d := range a.demands() {
			f.add(&d)
		}
		out = append(out, f)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].healed < out[j].healed })
	return out
}

// add takes a lock's, or all locks', demand after the heal into account: the longest time
// for which it was asked for until a success.
func (f *FaultRecovery) add(d *demand) {
	took, ended := int64(0), false
	i := sort.Search(len(d.done), func(i int) bool { return d.done[i].end.TS >= f.healed })
	over := f.until
	if i < len(d.done) && d.done[i].end.TS <= f.until {
		over, ended = d.done[i].end.TS, true
	}
	wait := gap{d: d}
	for _, s := range d.spans {
		from, to := max(s.From, f.healed), min(s.To, over)
		if to-from > took {
			took, wait.Span = to-from, history.Span{Name: s.Name, From: from, To: to}
		}
	}
	ms := float64(took) / 1e6
	switch {
	case !ended && took > 0:
		f.waiting = append(f.waiting, wait)
	case !ended && len(d.done) > 0 && !d.jobs && over > f.healed:
		// A lock that was in use: somebody should have asked for it.
		wait.Span = history.Span{Name: d.key, From: f.healed, To: over}
		f.waiting = append(f.waiting, wait)
	case !ended:
	case d.key == "":
		f.FirstMS = ms
		f.Locks = max(f.Locks, 1)
	default:
		if f.Locks == 0 || ms > f.SlowestMS {
			f.SlowestMS, f.SlowestLock = ms, cmp.Or(d.key, f.SlowestLock)
		}
		f.Locks++
	}
}
