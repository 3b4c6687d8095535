package past

import (
	"cmp"
	"sort"
	"strings"

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

	Healed int64 `json:"-"` // the instant
	Until  int64 `json:"-"` // when the next fault came, or the end
	// Waiting are the gaps that had not ended by then, by lock; "" of all together.
	Waiting []Gap `json:"-"`
}

// AfterHeals finds the first successes after each heal. A heal that leaves another fault
// in force is followed by none: the last of those that overlap says how the run came back.
func (a *Past) AfterHeals() []FaultRecovery {
	healed := map[string]bool{}
	for i := range a.History.Events {
		if e := &a.History.Events[i]; e.Op == history.NoteFault && e.Fault() != nil && e.Fault().Action == history.ActionHeal {
			healed[e.Fault().ID] = true
		}
	}
	var out []FaultRecovery
	for _, w := range a.Faults {
		if !healed[w.Fault.ID] {
			continue
		}
		f := FaultRecovery{ID: w.Fault.ID, Name: w.Fault.Name, Healed: w.To, Until: a.EndOfWork()}
		for _, other := range a.Faults {
			switch {
			case other.Fault.ID == w.Fault.ID || other.To <= w.To:
			case other.From <= w.To:
				f.Until = w.To // it is in force already
			default:
				f.Until = min(f.Until, other.From)
			}
		}
		for _, d := range a.Demands() {
			f.add(&d)
		}
		out = append(out, f)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Healed < out[j].Healed })
	return out
}

// add takes a lock's, or all locks', demand after the heal into account: the longest time
// for which it was asked for until a success.
func (f *FaultRecovery) add(d *Demand) {
	took, ended := int64(0), false
	i := sort.Search(len(d.Done), func(i int) bool { return d.Done[i].End.TS >= f.Healed })
	over := f.Until
	if i < len(d.Done) && d.Done[i].End.TS <= f.Until {
		over, ended = d.Done[i].End.TS, true
	}
	wait := Gap{Demand: d}
	for _, s := range d.spans {
		from, to := max(s.From, f.Healed), min(s.To, over)
		if to-from > took {
			took, wait.Span = to-from, history.Span{Name: s.Name, From: from, To: to}
		}
	}
	ms := float64(took) / 1e6
	switch {
	case !ended && took > 0:
		f.Waiting = append(f.Waiting, wait)
	case !ended && len(d.Done) > 0 && !d.jobs && over > f.Healed:
		// A lock that was in use: somebody should have asked for it.
		wait.Span = history.Span{Name: d.Key, From: f.Healed, To: over}
		f.Waiting = append(f.Waiting, wait)
	case !ended:
	case d.Key == "":
		f.FirstMS = ms
		f.Locks = max(f.Locks, 1)
	default:
		if f.Locks == 0 || ms > f.SlowestMS {
			f.SlowestMS, f.SlowestLock = ms, cmp.Or(d.Key, f.SlowestLock)
		}
		f.Locks++
	}
}

// LastHeal is the end of the last fault, 0 without any.
func (a *Past) LastHeal() int64 {
	t := int64(0)
	for _, f := range a.Faults {
		t = max(t, f.To)
	}
	return t
}

func Evidence(f history.FaultWindow) string {
	var texts []string
	for _, e := range f.Evidence {
		texts = append(texts, e.Fault().Text)
	}
	if len(texts) == 0 {
		return "there is no evidence at all"
	}
	return strings.Join(texts, "; ")
}

func (a *Past) FaultEvents(id string) []*history.Event {
	var out []*history.Event
	for i := range a.History.Events {
		if e := &a.History.Events[i]; e.Op == history.NoteFault && e.Fault() != nil && e.Fault().ID == id {
			out = append(out, e)
		}
	}
	return out
}
