package checker

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

// demand is what was asked of a lock or shard by those who could reach a quorum, and
// what came of it.
type demand struct {
	key   string
	jobs  bool           // they ask, not clients
	spans []history.Span // in order, without overlap
	done  []*op          // successes, by their ends
	calls []*op          // lock calls and enqueues, by their begins
}

// named says what a demand is of.
func (a *past) named(d *demand) string { return cmp.Or(d.key, "any "+a.rowNoun()) }

// breath is the time between two calls that are one wait: a client whose call fails
// asks again.
const breath = int64(1e9)

// findDemands finds those of each row, and last that of all rows together, with key "". Locks
// are asked for by their clients without end: from its first call on a client is after
// one lock or another. Shards are asked for by jobs that are due, and by enqueues.
func (a *past) findDemands() (out []demand) {
	at := map[string]*demand{}
	for _, l := range a.rows {
		at[l.name] = &demand{key: l.name, jobs: a.jobs.any()}
	}
	all := &demand{jobs: a.jobs.any()}
	for _, s := range a.successes {
		all.done = append(all.done, s.op)
		if s.log != nil {
			at[s.log.name].done = append(at[s.log.name].done, s.op)
		}
	}
	if a.jobs.any() {
		a.jobDemands(at, all)
	} else {
		a.lockDemands(at)
	}
	long := a.longJobs()
	for _, l := range a.rows {
		d := at[l.name]
		d.spans = merged(d.spans, breath)
		d.spans = without(d.spans, long[l.name])
		d.order()
		all.spans, all.calls = append(all.spans, d.spans...), append(all.calls, d.calls...)
		if len(d.spans)+len(d.done) > 0 {
			out = append(out, *d)
		}
	}
	all.spans = merged(all.spans, breath)
	all.order()
	return append(out, *all)
}

func (d *demand) order() {
	slices.SortStableFunc(d.done, func(x, y *op) int { return cmp.Compare(x.end.TS, y.end.TS) })
	slices.SortStableFunc(d.calls, func(x, y *op) int { return cmp.Compare(x.inv.TS, y.inv.TS) })
}

// lockDemands: a client is after a lock from its call for it to its next call.
func (a *past) lockDemands(at map[string]*demand) {
	calls := map[string][]*op{} // by client
	for _, l := range a.rows {
		for _, c := range l.calls {
			calls[c.inv.Proc] = append(calls[c.inv.Proc], c)
			at[l.name].calls = append(at[l.name].calls, c)
		}
	}
	stop := a.stopped
	for _, proc := range slices.Sorted(maps.Keys(calls)) {
		cs := calls[proc]
		slices.SortStableFunc(cs, func(x, y *op) int { return cmp.Compare(x.inv.TS, y.inv.TS) })
		life := history.Life(proc)
		until := min(a.died(life), stop)
		for i, c := range cs {
			to := until
			if i+1 < len(cs) {
				to = min(to, cs[i+1].inv.TS)
			}
			if c.inv.TS < to {
				d := at[c.inv.Key]
				d.spans = append(d.spans, without([]history.Span{{Name: proc, From: c.inv.TS, To: to}}, a.silences(life))...)
			}
		}
	}
}

// longJobs are the times in which locks were held for as long as a fault says, by lock:
// the holder is at work, and all others may wait.
func (a *past) longJobs() map[string][]history.Span {
	out := map[string][]history.Span{}
	for _, f := range a.faults {
		if !history.KindOfFault(f.Fault.Name).Holds {
			continue
		}
		began := map[string]int64{} // by client
		for i := range a.h.Events {
			e := &a.h.Events[i]
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
		out[key] = merged(out[key], 0)
	}
	return out
}

// jobDemands: a shard is asked for by each of its jobs, from when it was acknowledged and
// due until a run of it was settled, as long as anybody can do it; and by the calls that
// enqueue, as long as their own worker can.
func (a *past) jobDemands(at map[string]*demand, all *demand) {
	nobody, end := a.nobodyAtWork(), a.endOfWork()
	for _, j := range a.jobs.list {
		d := at[j.shard]
		if d == nil || j.locked() {
			d = all
		}
		from := int64(history.Forever)
		for _, c := range j.calls {
			d.calls = append(d.calls, c)
			life := history.Life(c.inv.Proc)
			if c.end == nil {
				continue
			}
			d.spans = append(d.spans, without([]history.Span{{Name: c.inv.Proc, From: c.inv.TS, To: c.end.TS}}, a.silences(life))...)
			if c.outcome == history.OK {
				from = min(from, c.end.TS)
			}
		}
		from, to := j.asked(from), j.settledAt()
		if due := j.ownMS(); due > 0 {
			from = max(from, a.instantOf(due))
		}
		if from < to {
			d.spans = append(d.spans, without([]history.Span{{Name: j.id, From: from, To: min(to, end)}}, nobody)...)
		}
	}
	for _, l := range a.rows {
		if d := at[l.name]; l.shard {
			d.spans = without(merged(d.spans, 0), a.idleOwners(l))
		}
	}
}

// asked is when the job became what its shard has to do, if not by a call that was
// acknowledged at known: it followed another, or a schedule fired it.
func (j *jobLog) asked(known int64) int64 {
	if len(j.steps) > 0 && j.steps[0].c.Do == history.DoEnqueue {
		return min(known, j.steps[0].w.by)
	}
	return known
}

// settledAt is when the first run of the job that was not cut short was settled.
func (j *jobLog) settledAt() int64 {
	for _, s := range j.steps {
		switch s.c.Do {
		case history.DoEnqueue, history.DoClaim, history.DoRescue, history.DoHasten:
		default:
			return s.w.by
		}
	}
	for _, o := range j.updates {
		if o.end != nil && o.inv.Changes()[0].Do != history.DoClaim {
			return o.end.TS
		}
	}
	return history.Forever
}

// instantOf is the TS of a reading of the wall clock, in ms since 1970.
func (a *past) instantOf(ms int64) int64 {
	zero := a.wallAt(0)
	if zero == 0 {
		return math.MaxInt64
	}
	return (ms - zero) * 1e6
}

// nobodyAtWork are the times in which no life that records could do a job: dead, or
// without a way to a quorum or to the sink.
func (a *past) nobodyAtWork() []history.Span {
	var open []history.Span
	for name, l := range a.lives {
		if !l.recording || name == history.Harness {
			continue
		}
		up := without([]history.Span{{From: l.first, To: a.died(name)}}, a.silences(name))
		open = append(open, without(up, a.withoutSink(name))...)
	}
	return without([]history.Span{{Name: "nobody", From: 0, To: history.Forever}}, merged(open, 0))
}

// withoutSink are the times in which a fault keeps a life from the sink.
func (a *past) withoutSink(life string) []history.Span {
	var out []history.Span
	for _, f := range a.faults {
		aimed := workersIn(f.Fault.Targets)
		if cutsSink(&f.Fault) && (len(aimed) == 0 || slices.Contains(aimed, history.Worker(life))) {
			out = append(out, history.Span{Name: f.Fault.ID, From: f.From, To: f.To})
		}
	}
	return merged(out, 0)
}

// idleOwners are the times in which a shard is owned by somebody who cannot reach the
// sink: it stays its owner's, and its jobs wait.
func (a *past) idleOwners(l *rowLog) []history.Span {
	var out []history.Span
	for i, w := range l.chain {
		if !isGrant(w.main().kind()) {
			continue
		}
		to := int64(history.Forever)
		for _, next := range l.chain[i+1:] {
			if isGrant(next.main().kind()) || isRelease(next.main().kind()) {
				to = next.by
				break
			}
		}
		for _, s := range a.withoutSink(history.Life(w.main().inv.Proc)) {
			if from, to := max(s.From, w.call()), min(s.To, to); from < to {
				out = append(out, history.Span{Name: s.Name, From: from, To: to})
			}
		}
	}
	return merged(out, 0)
}

// gap is a time in which something was asked for and nothing was done.
type gap struct {
	history.Span
	d *demand
}

// length is in ns.
func (g gap) length() int64 { return g.To - g.From }

// gaps are those of a demand, in order: what lies between successes, where it was asked
// for.
func (d *demand) gaps(f func(gap)) {
	for _, s := range d.spans {
		i := sort.Search(len(d.done), func(i int) bool { return d.done[i].end.TS > s.From })
		for ; i < len(d.done) && d.done[i].end.TS < s.To; i++ {
			f(gap{history.Span{Name: s.Name, From: s.From, To: d.done[i].end.TS}, d})
			s.From = d.done[i].end.TS
		}
		f(gap{s, d})
	}
}

// longest is the longest gap that a stretch of the run has a part in, whole.
func (d *demand) longest(from, to int64) (out gap) {
	d.gaps(func(g gap) {
		if g.From < to && g.To > from && (out.d == nil || g.length() > out.length()) {
			out = g
		}
	})
	return out
}
