package past

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

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

// CycleNoun is what a success is called.
func (a *Past) CycleNoun() string {
	if a.Jobs.Any() {
		return "completed job"
	}
	return "lock cycle"
}

// SuccessNoun is the same for groups of workers.
func (a *Past) SuccessNoun() string {
	if a.Jobs.Any() {
		return "completed job"
	}
	return "release"
}

// Demand is what was asked of a lock or shard by those who could reach a quorum, and
// what came of it.
type Demand struct {
	Key   string
	jobs  bool           // they ask, not clients
	spans []history.Span // in order, without overlap
	Done  []*Op          // successes, by their ends
	Calls []*Op          // lock calls and enqueues, by their begins
	// Regained are the instants of grants that a fault took, as it took the one before, and that
	// nothing was done under: a gap ends there too.
	Regained []int64
	ends     []int64 // of gaps, in order
}

// NameOf says what a demand is of.
func (a *Past) NameOf(d *Demand) string { return cmp.Or(d.Key, "any "+a.RowNoun()) }

// retryPause is the time between two calls that are one wait: a client whose call fails
// asks again.
const retryPause = int64(1e9)

// findDemands finds those of each row, and last that of all rows together, with key "". Locks
// are asked for by their clients without end: from its first call on a client is after
// one lock or another. Shards are asked for by jobs that are due, and by enqueues.
func (a *Past) findDemands() (out []Demand) {
	at := map[string]*Demand{}
	for _, l := range a.Rows {
		at[l.Name] = &Demand{Key: l.Name, jobs: a.Jobs.Any()}
	}
	all := &Demand{jobs: a.Jobs.Any()}
	for _, s := range a.Successes {
		all.Done = append(all.Done, s.Op)
		if s.log != nil {
			at[s.log.Name].Done = append(at[s.log.Name].Done, s.Op)
		}
	}
	if a.Jobs.Any() {
		a.jobDemands(at, all)
	} else {
		a.lockDemands(at)
	}
	long := a.longJobs()
	for _, l := range a.Rows {
		d := at[l.Name]
		d.spans = Merge(d.spans, retryPause)
		d.spans = Without(d.spans, long[l.Name])
		d.Regained = a.regained(l, d.Done)
		if len(a.Rows) == 1 {
			all.Regained = d.Regained // with more rows another one could have gone on
		}
		d.order()
		all.spans, all.Calls = append(all.spans, d.spans...), append(all.Calls, d.Calls...)
		if len(d.spans)+len(d.Done) > 0 {
			out = append(out, *d)
		}
	}
	all.spans = Merge(all.spans, retryPause)
	all.order()
	return append(out, *all)
}

func (d *Demand) order() {
	slices.SortStableFunc(d.Done, func(x, y *Op) int { return cmp.Compare(x.End.TS, y.End.TS) })
	d.ends = slices.Clone(d.Regained)
	for _, o := range d.Done {
		d.ends = append(d.ends, o.End.TS)
	}
	slices.Sort(d.ends)
	slices.SortStableFunc(d.Calls, func(x, y *Op) int { return cmp.Compare(x.Invoke.TS, y.Invoke.TS) })
}

// lockDemands: a client is after a lock from its call for it to its next call.
func (a *Past) lockDemands(at map[string]*Demand) {
	calls := map[string][]*Op{} // by client
	for _, l := range a.Rows {
		for _, c := range l.Calls {
			calls[c.Invoke.Proc] = append(calls[c.Invoke.Proc], c)
			at[l.Name].Calls = append(at[l.Name].Calls, c)
		}
	}
	stop := a.Stopped
	for _, proc := range slices.Sorted(maps.Keys(calls)) {
		cs := calls[proc]
		slices.SortStableFunc(cs, func(x, y *Op) int { return cmp.Compare(x.Invoke.TS, y.Invoke.TS) })
		life := history.Life(proc)
		until := min(a.Died(life), stop)
		for i, c := range cs {
			to := until
			if i+1 < len(cs) {
				to = min(to, cs[i+1].Invoke.TS)
			}
			if c.Invoke.TS < to {
				d := at[c.Invoke.Key]
				d.spans = append(d.spans, Without([]history.Span{{Name: proc, From: c.Invoke.TS, To: to}}, a.Silences(life))...)
			}
		}
	}
}

// longJobs are the times in which locks were held for as long as a fault says, by lock:
// the holder is at work, and all others may wait.
func (a *Past) longJobs() map[string][]history.Span {
	out := map[string][]history.Span{}
	for _, f := range a.Faults {
		if !history.KindOfFault(f.Fault.Name).Holds {
			continue
		}
		began := map[string]int64{} // by client
		for e := range Each(a.History.Events) {
			if e.Type != history.Note || e.Issuer != "" || !slices.Contains(f.Fault.Targets, history.Worker(e.Proc)) {
				continue
			}
			switch e.Op {
			case history.NoteStart:
				began[e.Proc] = e.TS
			case history.NoteFinish:
				if from := began[e.Proc]; from > 0 && from < f.To && e.TS > f.From {
					out[e.Key] = append(out[e.Key], history.Span{Name: f.Fault.ID, From: from, To: e.TS})
				}
			}
		}
	}
	for key := range out {
		out[key] = Merge(out[key], 0)
	}
	return out
}

// jobDemands: a shard is asked for by each of its jobs, from when it was acknowledged and
// due until a run of it was settled, as long as anybody can do it; and by the calls that
// enqueue, as long as their own worker can.
func (a *Past) jobDemands(at map[string]*Demand, all *Demand) {
	nobody, end := a.nobodyAtWork(), a.EndOfWork()
	for _, j := range a.Jobs.List {
		d := at[j.Shard]
		if d == nil || j.Locked() {
			d = all
		}
		from := int64(history.Forever)
		for _, c := range j.Calls {
			d.Calls = append(d.Calls, c)
			life := history.Life(c.Invoke.Proc)
			if c.End == nil {
				continue
			}
			d.spans = append(d.spans, Without([]history.Span{{Name: c.Invoke.Proc, From: c.Invoke.TS, To: c.End.TS}}, a.Silences(life))...)
			if c.Outcome == history.OK {
				from = min(from, c.End.TS)
			}
		}
		from, to := j.asked(from), j.settledAt()
		if due := j.ScheduledMS(); due > 0 {
			from = max(from, a.instantOf(due))
		}
		if from < to {
			d.spans = append(d.spans, Without([]history.Span{{Name: j.ID, From: from, To: min(to, end)}}, nobody)...)
		}
	}
	for _, l := range a.Rows {
		if d := at[l.Name]; l.Shard {
			d.spans = Without(Merge(d.spans, 0), a.idleOwners(l))
		}
	}
}

// asked is when the job became what its shard has to do, if not by a call that was
// acknowledged at known: it followed another, or a schedule fired it.
func (j *Job) asked(known int64) int64 {
	if len(j.Steps) > 0 && j.Steps[0].Change.Do == history.DoEnqueue {
		return min(known, j.Steps[0].Write.Latest)
	}
	return known
}

// settledAt is when the first run of the job that was not cut short was settled.
func (j *Job) settledAt() int64 {
	for _, s := range j.Steps {
		switch s.Change.Do {
		case history.DoEnqueue, history.DoClaim, history.DoRescue, history.DoHasten:
		default:
			return s.Write.Latest
		}
	}
	for _, o := range j.Updates {
		if o.End != nil && o.Invoke.Changes()[0].Do != history.DoClaim {
			return o.End.TS
		}
	}
	return history.Forever
}

// nobodyAtWork are the times in which no life that records could do a job: dead, or
// without a way to a quorum or to the sink.
func (a *Past) nobodyAtWork() []history.Span {
	var open []history.Span
	for name, l := range a.Lives {
		if !l.Recording || name == history.Harness {
			continue
		}
		up := Without([]history.Span{{From: l.first, To: a.Died(name)}}, a.Silences(name))
		open = append(open, Without(up, a.withoutSink(name))...)
	}
	return Without([]history.Span{{Name: "nobody", From: 0, To: history.Forever}}, Merge(open, 0))
}

// withoutSink are the times in which a fault keeps a life from the sink.
func (a *Past) withoutSink(life string) []history.Span {
	var out []history.Span
	for _, f := range a.Faults {
		aimed := WorkersIn(f.Fault.Targets)
		if cutsSink(&f.Fault) && (len(aimed) == 0 || slices.Contains(aimed, history.Worker(life))) {
			out = append(out, history.Span{Name: f.Fault.ID, From: f.From, To: f.To})
		}
	}
	return Merge(out, 0)
}

// idleOwners are the times in which a shard is owned by somebody who cannot reach the
// sink: it stays its owner's, and its jobs wait.
func (a *Past) idleOwners(l *Row) []history.Span {
	var out []history.Span
	for i, w := range l.Chain {
		if !IsGrant(w.Main().Kind()) {
			continue
		}
		to := int64(history.Forever)
		for _, next := range l.Chain[i+1:] {
			if IsGrant(next.Main().Kind()) || IsRelease(next.Main().Kind()) {
				to = next.Latest
				break
			}
		}
		for _, s := range a.withoutSink(history.Life(w.Main().Invoke.Proc)) {
			if from, to := max(s.From, w.Earliest()), min(s.To, to); from < to {
				out = append(out, history.Span{Name: s.Name, From: from, To: to})
			}
		}
	}
	return Merge(out, 0)
}

// Gap is a time in which something was asked for and nothing was done.
type Gap struct {
	history.Span
	Demand *Demand
}

// Length is in ns.
func (g Gap) Length() int64 { return g.To - g.From }

// gaps are those of a demand, in order: what lies between its ends, where it was asked for.
func (d *Demand) gaps(f func(Gap)) {
	for _, s := range d.spans {
		i := sort.Search(len(d.ends), func(i int) bool { return d.ends[i] > s.From })
		for ; i < len(d.ends) && d.ends[i] < s.To; i++ {
			f(Gap{history.Span{Name: s.Name, From: s.From, To: d.ends[i]}, d})
			s.From = d.ends[i]
		}
		f(Gap{s, d})
	}
}

// Longest is the longest gap that a stretch of the run has a part in, whole.
func (d *Demand) Longest(from, to int64) (out Gap) {
	d.gaps(func(g Gap) {
		if g.From < to && g.To > from && (out.Demand == nil || g.Length() > out.Length()) {
			out = g
		}
	})
	return out
}
