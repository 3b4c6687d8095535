package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// scheduleLog is everything about one recurring schedule.
type scheduleLog struct {
	shard, key string
	calls      []*op
	spec       *history.Schedule // as first put; nil if nobody did
	other      bool              // somebody put it in another form
	// By the replay: whether it is there and fires, its first nominal time, and up to
	// where they are decided, in ms since 1970.
	put, off    bool
	first, last int64
	sure        int            // the stretch of the shard's chain in which that is known
	done        map[string]int // batches that changed it, by what they did
	gaps        []scheduleGap
	by          *write // the last of them
	jobs        map[int64]*jobLog
}

// scheduleGap is a batch that passes over nominal times without counting them as missed.
type scheduleGap struct {
	w           *write
	by          *write // the batch before, that changed the schedule
	from, until int64  // in ms since 1970
	n           int64
}

func (x *jobs) scheduleOf(shard, key string) *scheduleLog {
	r := jobRef{shard, key}
	s := x.schedules[r]
	if s == nil {
		s = &scheduleLog{shard: shard, key: key, done: map[string]int{}, jobs: map[int64]*jobLog{}}
		x.schedules[r] = s
	}
	return s
}

// command files a client's call about a schedule.
func (x *jobs) command(o *op) {
	c := o.inv.Schedule()
	s := x.scheduleOf(c.Shard, o.inv.Key)
	s.calls = append(s.calls, o)
	switch {
	case c.Do != history.DoPut || c.Job == nil || c.EveryMS <= 0:
	case s.spec == nil:
		s.spec = c
	case c.EveryMS != s.spec.EveryMS || c.WindowMS != s.spec.WindowMS:
		s.other = true
	}
}

// ordinal is the number of the last nominal time up to t, the first being 0.
func (s *scheduleLog) ordinal(t int64) int64 {
	n := (t - s.first) / s.spec.EveryMS
	if (t-s.first)%s.spec.EveryMS < 0 {
		n--
	}
	return n
}

// next is the n-th nominal time, from 0, of those that are not decided.
func (s *scheduleLog) next(n int64) int64 {
	return s.first + (s.ordinal(s.last)+1+n)*s.spec.EveryMS
}

// adopt gives a job that a schedule enqueues what the schedule asks for.
func (r *shardReplay) adopt(j *jobLog, c *history.Change) {
	s := r.a.jobs.scheduleOf(r.l.name, c.Schedule)
	if s.spec == nil || j.spec != nil {
		return // nobody asked for it
	}
	spec := *s.spec.Job
	spec.Resource += j.id
	j.spec, j.of = &spec, s
}

// fires is what a batch enqueues by schedule, in the order of the nominal times.
func (r *shardReplay) fires(changes []history.Change) map[string][]*history.Change {
	var out map[string][]*history.Change
	for i := range changes {
		c := &changes[i]
		if c.Do != history.DoEnqueue || c.Schedule == "" {
			continue
		}
		if out == nil {
			out = map[string][]*history.Change{}
		}
		out[c.Schedule] = append(out[c.Schedule], c)
		r.adopt(r.a.jobs.of(r.l.name, c.Job), c)
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *history.Change) int { return cmp.Compare(a.NominalMS, b.NominalMS) })
	}
	return out
}

// recur applies what a batch does to a schedule. What is left in fired afterwards was
// enqueued for schedules that the batch does not fire.
func (r *shardReplay) recur(w *write, c *history.Change, fired map[string][]*history.Change) {
	s := r.a.jobs.scheduleOf(r.l.name, c.Schedule)
	list := fired[c.Schedule]
	switch {
	case s.spec == nil:
		r.badTime(s, w, "is one that nobody put")
		return
	case s.other: // checkSchedules says so
	case s.sure == r.stretch || r.stretch == 1:
		r.judgeStep(s, w, c, list)
	}
	switch c.Do {
	case history.DoPut:
		s.put, s.off, s.first = true, false, c.LastMS+1
	case history.DoDisable:
		s.off = true
	case history.DoFire:
		delete(fired, c.Schedule)
		for _, x := range list {
			if twin := s.jobs[x.NominalMS]; twin != nil {
				r.badTime(s, w, "fires its nominal time %d again, which had job %s", x.NominalMS, twin.id)
			}
			s.jobs[x.NominalMS] = r.a.jobs.of(r.l.name, x.Job)
		}
		r.a.jobs.n.Fired += len(list)
		r.a.jobs.n.Missed += int(c.Missed)
	}
	s.last, s.sure, s.by = c.LastMS, r.stretch, w
	s.done[c.Do]++
}

// readingSlack bounds by how much the two clocks of a header may be read apart on a
// busy machine, in ms.
const readingSlack = 1000

// judgeStep is the part of P12 that a batch decides: from where the schedule stood to
// where it stands each nominal time is fired, unless it is too late for that.
func (r *shardReplay) judgeStep(s *scheduleLog, w *write, c *history.Change, list []*history.Change) {
	inv := w.main().inv
	wall := inv.WallMS()
	if shown := r.a.shownAt(w); shown > 0 && wall > shown+readingSlack {
		r.badTime(s, w, "was planned when its owner's clock showed %d; %d ms before that", wall, wall-shown)
	}
	switch {
	case c.Do == history.DoPut && s.put:
		r.badTime(s, w, "is put, though it is there as it was asked for")
	case c.Do == history.DoPut && c.LastMS+1 != wall:
		r.badTime(s, w, "begins at %d, but was put at %d", c.LastMS+1, wall)
	case c.Do != history.DoPut && (!s.put || s.off):
		r.badTime(s, w, "changes, though it is disabled or was never put")
	case c.Do == history.DoDisable:
		if c.LastMS != s.last {
			r.badTime(s, w, "is disabled and stands at %d, but stood at %d", c.LastMS, s.last)
		}
		if f := r.a.judgeLeft(s, wall); f != nil {
			r.a.jobs.found["P12"] = append(r.a.jobs.found["P12"], *f)
		}
	case c.Do == history.DoFire:
		r.judgeFire(s, w, c, list)
	case c.Do != history.DoPut:
		r.badTime(s, w, "is changed by %q, which no schedule can be", c.Do)
	}
}

func (r *shardReplay) judgeFire(s *scheduleLog, w *write, c *history.Change, list []*history.Change) {
	wall := w.main().inv.WallMS()
	all := s.ordinal(c.LastMS) - s.ordinal(s.last)
	switch {
	case c.LastMS > wall:
		r.badTime(s, w, "fires up to %d, %d ms early by its owner's own clock", c.LastMS, c.LastMS-wall)
	case c.LastMS < s.last:
		r.badTime(s, w, "goes back from %d to %d", s.last, c.LastMS)
	case c.Missed > 0 && wall-s.next(c.Missed-1) <= s.spec.WindowMS:
		r.badTime(s, w, "misses its nominal time %d, which was late by %d ms only", s.next(c.Missed-1), wall-s.next(c.Missed-1))
	case int64(len(list))+c.Missed != all:
		if left := all - int64(len(list)) - c.Missed; left > 0 {
			s.gaps = append(s.gaps, scheduleGap{w, s.by, s.next(0), c.LastMS, left})
		}
		r.badTime(s, w, "has %d nominal times from %d to %d, of which it fires %d and misses %d", all, s.last+1, c.LastMS, len(list), c.Missed)
	}
	if len(list) > 0 && wall-list[0].NominalMS > s.spec.WindowMS {
		r.badTime(s, w, "fires its nominal time %d, which was late by %d ms: more than %d are to be missed", list[0].NominalMS, wall-list[0].NominalMS, s.spec.WindowMS)
	}
	for i, x := range list {
		if want := s.next(c.Missed + int64(i)); x.NominalMS != want {
			r.badTime(s, w, "fires a nominal time %d, but the next one is %d", x.NominalMS, want)
			return
		}
	}
}

func (r *shardReplay) badTime(s *scheduleLog, w *write, format string, args ...any) {
	events := both(&w.main().op)
	if s.by != nil {
		events = append(events, both(&s.by.main().op)...)
	}
	r.a.jobs.add("P12", s.key, events, "schedule %s, by the %s of %s to %s, %s", s.key, w.main().kind(), r.l.name, r.l.text(w.to), fmt.Sprintf(format, args...))
}

// unfired reports jobs that were enqueued for schedules which the batch does not fire.
func (r *shardReplay) unfired(w *write, fired map[string][]*history.Change) {
	for _, key := range slices.Sorted(maps.Keys(fired)) {
		x := fired[key][0]
		r.badTime(r.a.jobs.scheduleOf(r.l.name, key), w, "does not change, but its nominal time %d gets job %s", x.NominalMS, x.Job)
	}
}

// shownAt is the most that the wall clock of a batch's owner had shown lately when the
// batch was recorded, in ms since 1970; 0: not known.
func (a *past) shownAt(w *write) int64 {
	e := w.main().inv
	right := a.wallAt(e.TS)
	if right == 0 {
		return 0
	}
	life := history.Life(e.Proc)
	offset := max(a.offsetAt(life, e.TS), a.offsetAt(life, e.TS-w.main().log.clockSlack()))
	for _, n := range a.clocks[life] {
		if n.TS <= e.TS && n.TS > e.TS-w.main().log.clockSlack() {
			offset = max(offset, n.Clock().OffsetMS)
		}
	}
	return right + offset
}

// judgeLeft: when a schedule ends, or the run does, its next nominal time has not been
// due for longer than a takeover takes.
func (a *past) judgeLeft(s *scheduleLog, end int64) *finding {
	l := a.row[s.shard]
	late := end - s.next(0)
	if a.wallsSet() || late*1e6 <= a.within(l.clockSlack()) {
		return nil
	}
	return &finding{s.key, fmt.Sprintf("the nominal time %d of schedule %s was never fired, and it was %d ms ago when the schedule or the run ended", s.next(0), s.key, late), both(&s.by.main().op)}
}

// wallsSet says whether a fault set any wall clock.
func (a *past) wallsSet() bool {
	for _, notes := range a.clocks {
		for _, n := range notes {
			if n.Clock().OffsetMS != 0 {
				return true
			}
		}
	}
	return false
}

// checkSchedules is the part of P12 that is about whole schedules: what was put is
// there, it fires to the end, and each nominal time that was fired has its job.
func (a *past) checkSchedules(p *Property) (others int) {
	for _, s := range slices.SortedFunc(maps.Values(a.jobs.schedules), func(s, t *scheduleLog) int {
		return cmp.Or(cmp.Compare(s.shard, t.shard), cmp.Compare(s.key, t.key))
	}) {
		l := a.row[s.shard]
		if s.other {
			others++
			continue
		}
		if l == nil || !l.whole {
			continue // P14
		}
		p.Checked += len(s.jobs)
		checkCommands(s, p)
		if s.put && !s.off {
			end := a.drained().From
			if end == 0 {
				end = a.endOfWork()
			}
			if f := a.judgeLeft(s, a.wallAt(end)); f != nil {
				p.add(f.key, f.events, "%s", f.message)
			}
		}
		for _, t := range slices.Sorted(maps.Keys(s.jobs)) {
			if j := s.jobs[t]; j.neverCame(a) {
				p.add(s.key, both(j.last()), "the nominal time %d of schedule %s has no job: %s was fired by a batch that took effect, and is not in %s", t, s.key, j.id, s.shard)
			}
		}
	}
	return others
}

// checkCommands: what was acknowledged was done.
func checkCommands(s *scheduleLog, p *Property) {
	told := map[string][]*op{}
	for _, o := range s.calls {
		if do := o.inv.Schedule().Do; o.outcome == history.OK && o.end.Result == resultApplied {
			told[do] = append(told[do], o)
		}
	}
	for _, do := range slices.Sorted(maps.Keys(told)) {
		if n := s.done[do]; len(told[do]) > n {
			p.add(s.key, both(told[do]...), "to %s schedule %s was acknowledged %s, and done %s: what it asks for is lost", do, s.key, times(len(told[do])), times(n))
		}
	}
}
