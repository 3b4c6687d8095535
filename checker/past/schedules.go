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
	asked      []*history.Schedule // the forms in which it was asked for
	spec       *history.Schedule   // the one that it has, before the first is put the first; nil if nobody asked
	Other      bool                // it was put in one of several, and nothing says in which
	// By the replay: whether it is there and fires, or was removed; the beginning of its rate,
	// and up to where its nominal times are decided; the occurrence that has not ended, those that
	// wait for that, and when the last one ended. Times are ms since 1970.
	Put, Off, Removed bool
	created, last     int64
	Active            Occurrence
	Queue             []Occurrence
	ended             int64
	sure              int            // the stretch of the shard's chain in which that is known
	Done              map[string]int // batches that changed it, by what they did
	Gaps              []ScheduleGap
	Wrong             []ScheduleFault
	by                *Write // the last of them
	Jobs              map[Occurrence]*Job
	// Taken are the manual triggers that batches have taken; triggered are their jobs by name, and
	// passed those that waited when the schedule was stopped.
	Taken     []Taken
	triggered map[string]*Job
	passed    map[string]bool
	crons     map[string]*cron
}

// ScheduleGap is a batch that passes over nominal times without counting them as missed.
type ScheduleGap struct {
	Write       *Write
	Before      *Write // the batch before, that changed the schedule
	From, Until int64  // in ms since 1970
	Count       int64
}

// Kinds of ScheduleFault.
const (
	Returned   = "returned"   // it fires though it was removed
	Overlapped = "overlapped" // it fires though the occurrence before has not ended
	SetBack    = "set-back"   // it goes back to times that were decided
	Repeated   = "repeated"   // it fires a manual trigger again
	Resumed    = "resumed"    // it fires though it is disabled
	Stopped    = "stopped"    // it is enabled though nobody has disabled it
	Again      = "again"      // it fires once, and does so again
	Outside    = "outside"    // it fires before it begins, or after its end
)

// ScheduleFault is a batch that does to a schedule what it must not.
type ScheduleFault struct {
	Kind          string
	Write, Before *Write
	// Of is the occurrence that has not ended, or that is fired again; of one that is set back it
	// has where it stood.
	Of Occurrence
}

func (x *Jobs) scheduleOf(shard, key string) *Schedule {
	r := JobRef{shard, key}
	s := x.Schedules[r]
	if s == nil {
		s = &Schedule{Shard: shard, Key: key, Done: map[string]int{}, Jobs: map[Occurrence]*Job{}, triggered: map[string]*Job{}, passed: map[string]bool{}}
		x.Schedules[r] = s
	}
	return s
}

// command files a client's call about a schedule.
func (x *Jobs) command(o *Op) {
	c := o.Invoke.Schedule()
	s := x.scheduleOf(c.Shard, o.Invoke.Key)
	s.Calls = append(s.Calls, o)
	if c.Do != history.DoPut || c.Job == nil {
		return
	}
	s.asked = append(s.asked, c)
	if s.spec == nil {
		s.spec = c
	}
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
	if s.spec == nil {
		r.badSchedule(s, w, "is one that nobody put")
		return
	}
	list := fired[c.Schedule]
	var d decision
	if !s.Other && (s.sure == r.stretch || r.stretch == 1) {
		d = r.judgeStep(s, w, c, list)
	}
	if c.Do == history.DoFire || c.Do == history.DoTrigger {
		delete(fired, c.Schedule)
		for _, x := range list {
			r.firedOne(s, w, x)
		}
		r.a.Jobs.Counts.Missed += int(c.Missed)
		r.a.Jobs.Counts.Skipped += int(c.Skipped)
	}
	s.step(w, c, list, d)
	s.sure, s.by = r.stretch, w
	s.Done[c.Do]++
}

// step takes the consequences of a batch.
func (s *Schedule) step(w *Write, c *history.Change, list []*history.Change, d decision) {
	wall := w.Main().Invoke.WallMS()
	switch c.Do {
	case history.DoPut:
		s.put(c, wall)
	case history.DoDisable:
		s.passOver()
		s.Off = true
	case history.DoEnable:
		s.Off = false
	case history.DoRemove:
		s.passOver()
		s.Put, s.Off, s.Removed, s.Active, s.ended = false, false, true, Occurrence{}, 0
		return // it stands nowhere
	case history.DoOver:
		s.Active, s.ended, s.Queue = Occurrence{}, c.EndedMS, d.queue
	case history.DoFire:
		s.Queue = d.queue
		if n := len(list); n > 0 && s.exclusive() {
			s.Active = occurrenceOf(list[n-1])
		}
	case history.DoTrigger:
		s.triggers(w, c, list)
	}
	s.last = c.LastMS
}

// put has the schedule take a form.
func (s *Schedule) put(c *history.Change, wall int64) {
	form, _ := s.formOf(c.Form)
	if form == nil {
		s.Other = s.Other || len(s.asked) > 1
		form = s.spec
	}
	switch {
	case !s.Put:
		s.Off, s.created = false, wall
	case !sameTiming(s.spec, form):
		s.created = wall
	}
	s.Put, s.Removed, s.spec = true, false, form
	if !s.exclusive() {
		s.Active = Occurrence{} // nobody waits for its end
	}
}

// readingSlack bounds by how much the two clocks of a header may be read apart on a
// busy machine, in ms.
const readingSlack = 1000

// judgeStep is the part of P12 that a batch decides: from where the schedule stood to
// where it stands each nominal time is fired, unless its policies say otherwise.
func (r *Replay) judgeStep(s *Schedule, w *Write, c *history.Change, list []*history.Change) (d decision) {
	wall := w.Main().Invoke.WallMS()
	if shown := r.a.shownAt(w); shown > 0 && wall > shown+readingSlack {
		r.badSchedule(s, w, "was planned when its owner's clock showed %d; %d ms before that", wall, wall-shown)
	}
	switch {
	case c.Do == history.DoPut:
		r.judgePut(s, w, c)
	case s.Removed:
		s.Wrong = append(s.Wrong, ScheduleFault{Returned, w, s.by, Occurrence{}})
		r.badSchedule(s, w, "changes, though it was removed")
	case s.Put && c.Do == history.DoTrigger: // also while it is disabled
		r.judgeTrigger(s, w, c, list)
	case s.Put && s.Off && c.Do == history.DoFire && !waited(s, list):
		s.Wrong = append(s.Wrong, ScheduleFault{Resumed, w, s.by, Occurrence{}})
		r.badSchedule(s, w, "fires, though it is disabled")
	case !s.Put, s.Off && c.Do == history.DoDisable:
		r.badSchedule(s, w, "changes, though it is disabled or was never put")
	case c.Do == history.DoEnable && !s.Off:
		s.Wrong = append(s.Wrong, ScheduleFault{Stopped, w, s.by, Occurrence{}})
		r.badSchedule(s, w, "is enabled, though nobody has disabled it")
	case c.Do == history.DoEnable:
		if want := max(s.last, wall); c.LastMS != want {
			r.badSchedule(s, w, "is enabled and stands at %d, but should at %d", c.LastMS, want)
		}
	case c.Do == history.DoRemove:
		r.judgeUntil(s, wall)
	case c.Do == history.DoDisable:
		if c.LastMS != s.last {
			r.badSchedule(s, w, "is disabled and stands at %d, but stood at %d", c.LastMS, s.last)
		}
		r.judgeUntil(s, wall)
	case c.Do == history.DoFire:
		return r.judgeFire(s, w, c, list)
	case c.Do == history.DoOver:
		return r.judgeOver(s, w, c)
	default:
		r.badSchedule(s, w, "is changed by %q, which no schedule can be", c.Do)
	}
	return d
}

// waited says whether something has waited for the end of another occurrence, and nothing else fires.
// None does if what waited is a trigger that has had its job.
func waited(s *Schedule, list []*history.Change) bool {
	return len(s.Queue) > 0 && !slices.ContainsFunc(list, func(c *history.Change) bool { return !slices.Contains(s.Queue, occurrenceOf(c)) })
}

func (r *Replay) judgePut(s *Schedule, w *Write, c *history.Change) {
	wall := w.Main().Invoke.WallMS()
	form, asked := s.formOf(c.Form)
	switch {
	case !asked:
		r.badSchedule(s, w, "is put in a form that nobody asked for")
	case form == nil: // P12 says so
	case !s.Put && c.LastMS+1 != beginOf(form, wall):
		r.badSchedule(s, w, "begins at %d, but was put at %d, to begin at %d", c.LastMS+1, wall, beginOf(form, wall))
	case !s.Put:
	case same(form, s.spec):
		r.badSchedule(s, w, "is put, though it is there as it was asked for")
	case sameTiming(s.spec, form) && c.LastMS != s.last:
		r.badSchedule(s, w, "keeps its timing and stands at %d, but stood at %d", c.LastMS, s.last)
	case !sameTiming(s.spec, form) && c.LastMS != max(s.last, beginOf(form, wall)-1):
		r.badSchedule(s, w, "begins again at %d, but should at %d", c.LastMS+1, max(s.last, beginOf(form, wall)-1)+1)
	default:
		r.judgeUntil(s, wall)
	}
}

// judgeUntil: what was due before somebody stopped or changed the schedule was fired.
func (r *Replay) judgeUntil(s *Schedule, wall int64) {
	if s.Off {
		return
	}
	if f := r.a.JudgeUnfired(s, wall); f != nil {
		r.a.Jobs.Found["P12"] = append(r.a.Jobs.Found["P12"], *f)
	}
}

func (r *Replay) judgeFire(s *Schedule, w *Write, c *history.Change, list []*history.Change) decision {
	wall := w.Main().Invoke.WallMS()
	var of []Occurrence
	queued := 0 // of those that fire, the ones that had waited
	for _, x := range list {
		of = append(of, occurrenceOf(x))
		if slices.Contains(s.Queue, occurrenceOf(x)) {
			queued++
		}
	}
	d := s.decide(wall, c.LastMS, of)
	said := int64(len(list)-queued) + c.Missed + c.Skipped + int64(c.Waiting-(len(s.Queue)-queued)) + d.void
	switch {
	case r.judgeOutside(s, w, of):
	case c.LastMS > wall:
		r.badSchedule(s, w, "fires up to %d, %d ms early by its owner's own clock", c.LastMS, c.LastMS-wall)
	case c.LastMS < s.last:
		s.Wrong = append(s.Wrong, ScheduleFault{SetBack, w, s.by, Occurrence{Nominal: s.last}})
		r.badSchedule(s, w, "goes back from %d to %d", s.last, c.LastMS)
	case c.Missed > d.missed:
		t := s.nth(d.missed, c.LastMS)
		r.badSchedule(s, w, "misses its nominal time %d, which was late by %d ms only", t, wall-t)
	case d.all != said:
		if left := d.all - said; left > 0 {
			s.Gaps = append(s.Gaps, ScheduleGap{w, s.by, s.nth(0, c.LastMS), c.LastMS, left})
		}
		r.badSchedule(s, w, "has %d nominal times from %d to %d, of which it fires %d and misses %d",
			d.all, s.last+1, c.LastMS, len(list), c.Missed)
	case c.Missed < d.missed && len(list) > 0:
		r.badSchedule(s, w, "fires its nominal time %d, which was late by %d ms: more than %d are to be missed",
			list[0].NominalMS, wall-list[0].NominalMS, patience(s.spec))
	default:
		r.judgeOverlap(s, w, c, of, d)
	}
	return d
}

// judgeOverlap: what fires, waits and is skipped is what the schedule's overlap policy says.
func (r *Replay) judgeOverlap(s *Schedule, w *Write, c *history.Change, fired []Occurrence, d decision) {
	for i, t := range fired {
		switch {
		case i < len(d.fire) && d.fire[i] == t:
			continue
		case i >= len(d.fire):
			active := d.active
			if s.busy() {
				active = s.Active
			}
			s.Wrong = append(s.Wrong, ScheduleFault{Overlapped, w, s.by, active})
			r.badSchedule(s, w, "fires its %s, though its occurrence of %s has not ended: its overlap policy is %s",
				t.noun(), active, overlapOf(s.spec))
		default:
			r.badSchedule(s, w, "fires its %s, but the next one is the %s", t.noun(), d.fire[i].noun())
		}
		return
	}
	if c.Skipped != d.skipped || c.Waiting != len(d.queue) {
		r.badSchedule(s, w, "skips %d nominal times and has %d wait; by its overlap policy %s it skips %d, and %d wait",
			c.Skipped, c.Waiting, overlapOf(s.spec), d.skipped, len(d.queue))
	}
}

// judgeOver: the occurrence for which the schedule waited has ended, and what came due until
// then is decided.
func (r *Replay) judgeOver(s *Schedule, w *Write, c *history.Change) decision {
	wall := w.Main().Invoke.WallMS()
	d := decision{queue: s.Queue}
	if !s.Off {
		d = s.decide(c.EndedMS, c.LastMS, nil)
	}
	undecided := int64(0)
	if !s.Off && kindOf(s.spec) != kindDelay {
		s.each(c.LastMS, c.EndedMS, s.busy(), func(t int64) bool {
			undecided = t
			return false
		})
	}
	over := occurrenceOf(c)
	root := s.Jobs[over]
	switch end, known := r.a.endOf(root); {
	case s.Active != over:
		r.badSchedule(s, w, "waits for its occurrence of %s, and that of %s is over", s.Active, over)
	case root == nil || !Ended(root.lastOf().Now.Name):
		r.badSchedule(s, w, "takes its occurrence of %s for ended, which is not", over)
	case c.EndedMS > wall, known && c.EndedMS < end-BackoffSlack:
		r.badSchedule(s, w, "has its occurrence of %s end at %d; the batch was planned at %d, and its run finished at %d",
			over, c.EndedMS, wall, end)
	case undecided != 0, c.Missed != d.missed, c.Skipped != d.skipped, c.Waiting != len(d.queue):
		r.badSchedule(s, w, "misses %d and skips %d nominal times while its occurrence of %s had not ended, and %d wait; by its policies "+
			"it misses %d and skips %d, and %d wait", c.Missed, c.Skipped, over, c.Waiting, d.missed, d.skipped, len(d.queue))
	}
	return d
}

// lastOf is the last job of a job's sequence so far.
func (j *Job) lastOf() *Job {
	for j.next != nil {
		j = j.next
	}
	return j
}

// endOf is when the last run of an occurrence finished, by the wall clock of its worker, in ms
// since 1970.
func (a *Past) endOf(root *Job) (end int64, known bool) {
	if root == nil {
		return 0, false
	}
	j := root.lastOf()
	f := j.Finishes[j.Now.Run]
	if f == nil {
		return 0, false
	}
	lead, known := a.wallLead(history.Life(f.Proc), f.TS)
	return f.TS/1e6 + lead, known
}

// forgottenEnds: a schedule that waits for an occurrence is told when that ends, by the same
// batch, or it would wait for ever.
func (r *Replay) forgottenEnds(w *Write, changes []history.Change) {
	for c := range Each(changes) {
		if c.Job == "" {
			continue
		}
		root := r.a.Jobs.of(r.l.Name, c.Job)
		for root.After != nil {
			root = root.After
		}
		s := root.Schedule
		if s == nil || s.Other || !s.busy() || s.sure != r.stretch || s.Jobs[s.Active] != root {
			continue
		}
		if last := root.lastOf(); last.ID == c.Job && Ended(last.Now.Name) {
			r.badSchedule(s, w, "goes on to wait for its occurrence of %s, which has ended with job %s", s.Active, c.Job)
			s.Active = Occurrence{}
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
		r.badSchedule(r.a.Jobs.scheduleOf(r.l.Name, key), w, "does not change, but its %s gets job %s", occurrenceOf(x).noun(), x.Job)
	}
}

// hostNoted bounds how long after the host's clock was set the harness has noted it, in ns.
const hostNoted = 1e9

// shownAt is the most that the wall clock of a batch's owner had shown lately when the
// batch was recorded, in ms since 1970; 0: not known.
func (a *Past) shownAt(w *Write) int64 {
	if a.host.zero == 0 {
		return 0
	}
	e := w.Main().Invoke
	right := a.host.zero + e.TS/1e6 + a.host.most(e.TS-w.Main().Row.ClockSlack(), e.TS+hostNoted)
	life := history.Life(e.Proc)
	offset := max(a.OffsetAt(life, e.TS), a.OffsetAt(life, e.TS-w.Main().Row.ClockSlack()))
	for _, n := range a.Clocks[life] {
		if n.TS <= e.TS && n.TS > e.TS-w.Main().Row.ClockSlack() {
			offset = max(offset, n.Clock().OffsetMS)
		}
	}
	return right + offset
}

// JudgeUnfired: when a schedule ends, or the run does, its next nominal time has not been
// due for longer than a takeover takes.
func (a *Past) JudgeUnfired(s *Schedule, end int64) *Finding {
	l := a.RowOf[s.Shard]
	late := int64(0)
	s.each(s.last, end-a.TakeoverBound(l.ClockSlack())/1e6-1, s.busy(), func(t int64) bool {
		late = t
		return false
	})
	if a.wallsSet() || late == 0 {
		return nil
	}
	return &Finding{s.Key,
		fmt.Sprintf("the nominal time %d of schedule %s was never fired, and it was %d ms ago when the schedule or the run ended",
			late, s.Key, end-late), Events(&s.by.Main().Op)}
}

// wallsSet says whether any wall clock was set.
func (a *Past) wallsSet() bool {
	if a.host.stepped {
		return true
	}
	for _, notes := range a.Clocks {
		for _, n := range notes {
			if n.Clock().OffsetMS != 0 {
				return true
			}
		}
	}
	return false
}
