package past

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// Schedule is everything about one recurring schedule.
type Schedule struct {
	Shard, Key string
	Calls      []*Op
	spec       *history.Schedule // as first put; nil if nobody did
	Other      bool              // somebody put it in another form
	// By the replay: whether it is there and fires, its first nominal time, and up to
	// where they are decided, in ms since 1970.
	Put, Off    bool
	first, last int64
	sure        int            // the stretch of the shard's chain in which that is known
	Done        map[string]int // batches that changed it, by what they did
	Gaps        []ScheduleGap
	by          *Write // the last of them
	Jobs        map[int64]*Job
}

// ScheduleGap is a batch that passes over nominal times without counting them as missed.
type ScheduleGap struct {
	Write       *Write
	Before      *Write // the batch before, that changed the schedule
	From, Until int64  // in ms since 1970
	Count       int64
}

func (x *Jobs) scheduleOf(shard, key string) *Schedule {
	r := JobRef{shard, key}
	s := x.Schedules[r]
	if s == nil {
		s = &Schedule{Shard: shard, Key: key, Done: map[string]int{}, Jobs: map[int64]*Job{}}
		x.Schedules[r] = s
	}
	return s
}

// command files a client's call about a schedule.
func (x *Jobs) command(o *Op) {
	c := o.Invoke.Schedule()
	s := x.scheduleOf(c.Shard, o.Invoke.Key)
	s.Calls = append(s.Calls, o)
	switch {
	case c.Do != history.DoPut || c.Job == nil || c.EveryMS <= 0:
	case s.spec == nil:
		s.spec = c
	case c.EveryMS != s.spec.EveryMS || c.WindowMS != s.spec.WindowMS:
		s.Other = true
	}
}

// ordinal is the number of the last nominal time up to t, the first being 0.
func (s *Schedule) ordinal(t int64) int64 {
	n := (t - s.first) / s.spec.EveryMS
	if (t-s.first)%s.spec.EveryMS < 0 {
		n--
	}
	return n
}

// next is the n-th nominal time, from 0, of those that are not decided.
func (s *Schedule) next(n int64) int64 {
	return s.first + (s.ordinal(s.last)+1+n)*s.spec.EveryMS
}

// adopt gives a job that a schedule enqueues what the schedule asks for.
func (r *Replay) adopt(j *Job, c *history.Change) {
	s := r.a.Jobs.scheduleOf(r.l.Name, c.Schedule)
	if s.spec == nil || j.Spec != nil {
		return // nobody asked for it
	}
	spec := *s.spec.Job
	spec.Resource += j.ID
	j.Spec, j.Schedule = &spec, s
}

// firedBy is what a batch enqueues by schedule, in the order of the nominal times.
func (r *Replay) firedBy(changes []history.Change) map[string][]*history.Change {
	var out map[string][]*history.Change
	for c := range Each(changes) {
		if c.Do != history.DoEnqueue || c.Schedule == "" {
			continue
		}
		if out == nil {
			out = map[string][]*history.Change{}
		}
		out[c.Schedule] = append(out[c.Schedule], c)
		r.adopt(r.a.Jobs.of(r.l.Name, c.Job), c)
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *history.Change) int { return cmp.Compare(a.NominalMS, b.NominalMS) })
	}
	return out
}

// applySchedule applies what a batch does to a schedule. What is left in fired afterwards was
// enqueued for schedules that the batch does not fire.
func (r *Replay) applySchedule(w *Write, c *history.Change, fired map[string][]*history.Change) {
	s := r.a.Jobs.scheduleOf(r.l.Name, c.Schedule)
	list := fired[c.Schedule]
	switch {
	case s.spec == nil:
		r.badSchedule(s, w, "is one that nobody put")
		return
	case s.Other: // P12 says so
	case s.sure == r.stretch || r.stretch == 1:
		r.judgeStep(s, w, c, list)
	}
	switch c.Do {
	case history.DoPut:
		s.Put, s.Off, s.first = true, false, c.LastMS+1
	case history.DoDisable:
		s.Off = true
	case history.DoFire:
		delete(fired, c.Schedule)
		for _, x := range list {
			if twin := s.Jobs[x.NominalMS]; twin != nil {
				r.badSchedule(s, w, "fires its nominal time %d again, which had job %s", x.NominalMS, twin.ID)
			}
			s.Jobs[x.NominalMS] = r.a.Jobs.of(r.l.Name, x.Job)
		}
		r.a.Jobs.Counts.Fired += len(list)
		r.a.Jobs.Counts.Missed += int(c.Missed)
	}
	s.last, s.sure, s.by = c.LastMS, r.stretch, w
	s.Done[c.Do]++
}

// readingSlack bounds by how much the two clocks of a header may be read apart on a
// busy machine, in ms.
const readingSlack = 1000

// judgeStep is the part of P12 that a batch decides: from where the schedule stood to
// where it stands each nominal time is fired, unless it is too late for that.
func (r *Replay) judgeStep(s *Schedule, w *Write, c *history.Change, list []*history.Change) {
	inv := w.Main().Invoke
	wall := inv.WallMS()
	if shown := r.a.shownAt(w); shown > 0 && wall > shown+readingSlack {
		r.badSchedule(s, w, "was planned when its owner's clock showed %d; %d ms before that", wall, wall-shown)
	}
	switch {
	case c.Do == history.DoPut && s.Put:
		r.badSchedule(s, w, "is put, though it is there as it was asked for")
	case c.Do == history.DoPut && c.LastMS+1 != wall:
		r.badSchedule(s, w, "begins at %d, but was put at %d", c.LastMS+1, wall)
	case c.Do != history.DoPut && (!s.Put || s.Off):
		r.badSchedule(s, w, "changes, though it is disabled or was never put")
	case c.Do == history.DoDisable:
		if c.LastMS != s.last {
			r.badSchedule(s, w, "is disabled and stands at %d, but stood at %d", c.LastMS, s.last)
		}
		if f := r.a.JudgeUnfired(s, wall); f != nil {
			r.a.Jobs.Found["P12"] = append(r.a.Jobs.Found["P12"], *f)
		}
	case c.Do == history.DoFire:
		r.judgeFire(s, w, c, list)
	case c.Do != history.DoPut:
		r.badSchedule(s, w, "is changed by %q, which no schedule can be", c.Do)
	}
}

func (r *Replay) judgeFire(s *Schedule, w *Write, c *history.Change, list []*history.Change) {
	wall := w.Main().Invoke.WallMS()
	all := s.ordinal(c.LastMS) - s.ordinal(s.last)
	switch {
	case c.LastMS > wall:
		r.badSchedule(s, w, "fires up to %d, %d ms early by its owner's own clock", c.LastMS, c.LastMS-wall)
	case c.LastMS < s.last:
		r.badSchedule(s, w, "goes back from %d to %d", s.last, c.LastMS)
	case c.Missed > 0 && wall-s.next(c.Missed-1) <= s.spec.WindowMS:
		r.badSchedule(s, w, "misses its nominal time %d, which was late by %d ms only", s.next(c.Missed-1), wall-s.next(c.Missed-1))
	case int64(len(list))+c.Missed != all:
		if left := all - int64(len(list)) - c.Missed; left > 0 {
			s.Gaps = append(s.Gaps, ScheduleGap{w, s.by, s.next(0), c.LastMS, left})
		}
		r.badSchedule(s, w, "has %d nominal times from %d to %d, of which it fires %d and misses %d",
			all, s.last+1, c.LastMS, len(list), c.Missed)
	}
	if len(list) > 0 && wall-list[0].NominalMS > s.spec.WindowMS {
		r.badSchedule(s, w, "fires its nominal time %d, which was late by %d ms: more than %d are to be missed",
			list[0].NominalMS, wall-list[0].NominalMS, s.spec.WindowMS)
	}
	for i, x := range list {
		if want := s.next(c.Missed + int64(i)); x.NominalMS != want {
			r.badSchedule(s, w, "fires a nominal time %d, but the next one is %d", x.NominalMS, want)
			return
		}
	}
}

func (r *Replay) badSchedule(s *Schedule, w *Write, format string, args ...any) {
	events := Events(&w.Main().Op)
	if s.by != nil {
		events = append(events, Events(&s.by.Main().Op)...)
	}
	r.a.Jobs.add("P12", s.Key, events, "schedule %s, by the %s of %s to %s, %s",
		s.Key, w.Main().Kind(), r.l.Name, r.l.Text(w.To), fmt.Sprintf(format, args...))
}

// unfired reports jobs that were enqueued for schedules which the batch does not fire.
func (r *Replay) unfired(w *Write, fired map[string][]*history.Change) {
	for _, key := range slices.Sorted(maps.Keys(fired)) {
		x := fired[key][0]
		r.badSchedule(r.a.Jobs.scheduleOf(r.l.Name, key), w, "does not change, but its nominal time %d gets job %s", x.NominalMS, x.Job)
	}
}

// shownAt is the most that the wall clock of a batch's owner had shown lately when the
// batch was recorded, in ms since 1970; 0: not known.
func (a *Past) shownAt(w *Write) int64 {
	e := w.Main().Invoke
	right := a.WallAt(e.TS)
	if right == 0 {
		return 0
	}
	life := history.Life(e.Proc)
	offset := max(a.OffsetAt(life, e.TS), a.OffsetAt(life, e.TS-w.Main().Row.ClockSlack()))
	for _, n := range a.Clocks[life] {
		if n.TS <= e.TS && n.TS > e.TS-w.Main().Row.ClockSlack() {
			offset = max(offset, n.Clock().OffsetMS)
		}
	}
	return right + offset
}

// judgeLeft: when a schedule ends, or the run does, its next nominal time has not been
// due for longer than a takeover takes.
func (a *Past) JudgeUnfired(s *Schedule, end int64) *Finding {
	l := a.RowOf[s.Shard]
	late := end - s.next(0)
	if a.wallsSet() || late*1e6 <= a.TakeoverBound(l.ClockSlack()) {
		return nil
	}
	return &Finding{s.Key,
		fmt.Sprintf("the nominal time %d of schedule %s was never fired, and it was %d ms ago when the schedule or the run ended",
			s.next(0), s.Key, late), Events(&s.by.Main().Op)}
}

// wallsSet says whether a fault set any wall clock.
func (a *Past) wallsSet() bool {
	for _, notes := range a.Clocks {
		for _, n := range notes {
			if n.Clock().OffsetMS != 0 {
				return true
			}
		}
	}
	return false
}

// Pause is a batch that paused or resumed a shard.
type Pause struct {
	w       *Write
	on      bool
	stretch int // of the chain, in which it is known
}

// Pauses reports whether a change is of the whole shard.
func Pauses(c *history.Change) bool { return c.Do == history.DoPause || c.Do == history.DoResume }

// paused is the pause that lasts, or nil.
func (r *Replay) paused() *Pause {
	if n := len(r.Pauses); n > 0 && r.Pauses[n-1].on && (r.stretch == 1 || r.Pauses[n-1].stretch == r.stretch) {
		return &r.Pauses[n-1]
	}
	return nil
}

// pause applies what a batch does to its shard, before all else that it does: a claim
// may ride with the end of a pause, not with its beginning.
func (r *Replay) pause(w *Write) {
	changes := w.Main().Invoke.Changes()
	for c := range Each(changes) {
		if !Pauses(c) {
			continue
		}
		on := c.Do == history.DoPause
		if r.stretch == 1 && on == (r.paused() != nil) {
			m := w.Main()
			r.a.Jobs.add("P2", r.l.Name, Events(&m.Op), "the %s of %s by %s to %s does %q to it, though it was so before",
				m.Kind(), r.l.Name, m.Invoke.Proc, r.l.Text(w.To), c.Do)
		}
		if on {
			r.a.Jobs.Counts.Pauses++
		}
		r.Pauses = append(r.Pauses, Pause{w, on, r.stretch})
	}
}

// judgePaused is the part of P12 that a pause asks for: nothing is claimed while it lasts.
func (r *Replay) judgePaused(j *Job, w *Write, c *history.Change) {
	if p := r.paused(); p != nil && c.Do == history.DoClaim {
		r.bad("P12", j, w, "claims it as run %d, though %s was paused by %s", c.Run, r.l.Name, r.l.Text(p.w.To))
	}
}

// ResumedAt is when the last pause of a job's shard was over, in ns, 0 if there was none,
// and whether one lasts to the end.
func (a *Past) ResumedAt(j *Job) (ts int64, lasts bool) {
	l := a.RowOf[j.Shard]
	if l == nil || l.Replayed == nil || len(l.Replayed.Pauses) == 0 {
		return 0, false
	}
	last := l.Replayed.Pauses[len(l.Replayed.Pauses)-1]
	return last.w.Latest, last.on
}

// PausedDuring reports whether a job's shard was paused at some time within a span.
func (a *Past) PausedDuring(j *Job, from, to int64) bool {
	l := a.RowOf[j.Shard]
	if l == nil || l.Replayed == nil {
		return false
	}
	all := l.Replayed.Pauses
	for i, p := range all {
		over := to
		if k := slices.IndexFunc(all[i:], func(q Pause) bool { return !q.on }); k >= 0 {
			over = all[i+k].w.Latest
		}
		if p.on && p.w.Main().Invoke.TS <= to && over >= from {
			return true
		}
	}
	return false
}
