package past

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// Occurrence is a nominal time of a schedule, or a manual trigger of it.
type Occurrence struct {
	Nominal int64  // in ms since 1970; of a trigger when it was taken
	Trigger string // its name, "" of a nominal time
}

func occurrenceOf(c *history.Change) Occurrence { return Occurrence{c.NominalMS, c.Trigger} }

// none says that it is no occurrence at all.
func (o Occurrence) none() bool { return o == Occurrence{} }

func (o Occurrence) String() string {
	if o.Trigger == "" {
		return fmt.Sprint(o.Nominal)
	}
	return fmt.Sprintf("%d (trigger %s)", o.Nominal, o.Trigger)
}

// noun is the occurrence as the object of a sentence.
func (o Occurrence) noun() string {
	if o.Trigger == "" {
		return fmt.Sprintf("nominal time %d", o.Nominal)
	}
	return fmt.Sprintf("trigger %s of %d", o.Trigger, o.Nominal)
}

// busy says whether an occurrence has not ended, for which others have to wait.
func (s *Schedule) busy() bool { return !s.Active.none() }

// twin is the job that an occurrence has had before a batch; nil: none. A trigger has one job by
// its name, whenever it is taken, until that job is forgotten.
func (s *Schedule) twin(o Occurrence, before *Write) *Job {
	if o.Trigger == "" {
		return s.Jobs[o]
	}
	j := s.triggered[o.Trigger]
	if j == nil {
		return nil
	}
	for _, x := range slices.Backward(j.Steps) {
		if x.Write == before {
			continue
		}
		if x.Change.Do == history.DoSweep {
			return nil
		}
		break
	}
	return j
}

// firedOne files the job of an occurrence that a batch fires.
func (r *Replay) firedOne(s *Schedule, w *Write, c *history.Change) {
	o := occurrenceOf(c)
	if twin := s.twin(o, w); twin != nil {
		if o.Trigger != "" {
			s.Wrong = append(s.Wrong, ScheduleFault{Repeated, w, s.by, o})
		}
		r.badSchedule(s, w, "fires its %s again, which had job %s", o.noun(), twin.ID)
	}
	j := r.a.Jobs.of(r.l.Name, c.Job)
	s.Jobs[o] = j
	if o.Trigger == "" {
		r.a.Jobs.Counts.Fired++
		return
	}
	s.triggered[o.Trigger] = j
	r.a.Jobs.Counts.Triggered++
}

// judgeTrigger: a trigger fires at once if no occurrence is in its way, else it waits. It leaves
// the nominal times as they are.
func (r *Replay) judgeTrigger(s *Schedule, w *Write, c *history.Change, list []*history.Change) {
	wall, o := w.Main().Invoke.WallMS(), occurrenceOf(c)
	at := func(p Occurrence) bool { return p.Trigger == o.Trigger }
	waits := s.busy() && overlapOf(s.spec) == overlapQueue && len(s.Queue) < mostWaiting
	waiting := len(s.Queue)
	if waits {
		waiting++
	}
	switch {
	case c.NominalMS != wall:
		r.badSchedule(s, w, "takes its trigger %s at %d, when its owner's clock showed %d", o.Trigger, c.NominalMS, wall)
	case c.LastMS != s.last, c.Missed != 0, c.Skipped != 0:
		r.badSchedule(s, w, "takes its trigger %s and stands at %d, missing %d and skipping %d; a trigger changes none of these: it stood at %d",
			o.Trigger, c.LastMS, c.Missed, c.Skipped, s.last)
	case at(s.Active), slices.ContainsFunc(s.Queue, at):
		r.badSchedule(s, w, "takes its trigger %s again, which is at work or waits already", o.Trigger)
	case len(list) > 0 && (len(list) > 1 || occurrenceOf(list[0]) != o):
		r.badSchedule(s, w, "takes its trigger %s, and fires its %s", o.Trigger, occurrenceOf(list[len(list)-1]).noun())
	case len(list) > 0 && s.busy():
		s.Wrong = append(s.Wrong, ScheduleFault{Overlapped, w, s.by, s.Active})
		r.badSchedule(s, w, "fires its %s, though its occurrence of %s has not ended: its overlap policy is %s",
			o.noun(), s.Active, overlapOf(s.spec))
	case len(list) == 0 && !s.busy():
		r.badSchedule(s, w, "takes its trigger %s and does not fire it, though nothing is in its way", o.Trigger)
	case s.busy() && !waits:
		r.badSchedule(s, w, "has its trigger %s wait, though by its overlap policy %s it must be refused: %d wait", o.Trigger, overlapOf(s.spec), len(s.Queue))
	case c.Waiting != waiting:
		r.badSchedule(s, w, "takes its trigger %s, and %d wait; it should be %d", o.Trigger, c.Waiting, waiting)
	}
}

// Taken is a batch that takes a manual trigger.
type Taken struct {
	Name  string
	Write *Write
}

// triggers takes the consequences of a trigger.
func (s *Schedule) triggers(w *Write, c *history.Change, list []*history.Change) {
	o := occurrenceOf(c)
	s.Taken = append(s.Taken, Taken{o.Trigger, w})
	switch {
	case len(list) == 0:
		s.Queue = append(slices.Clone(s.Queue), o)
	case s.exclusive():
		s.Active = o
	}
}

// passOver forgets what waits: the schedule was stopped.
func (s *Schedule) passOver() {
	for _, o := range s.Queue {
		if o.Trigger != "" {
			s.passed[o.Trigger] = true
		}
	}
	s.Queue = nil
}

// Unfired says whether a trigger that was taken has no job, and nobody stopped the schedule while
// it waited.
func (s *Schedule) Unfired(name string) bool { return s.triggered[name] == nil && !s.passed[name] }

// Waits says whether an occurrence waits though none is in its way.
func (s *Schedule) Waits() bool { return len(s.Queue) > 0 && !s.busy() }

// InOrder are the occurrences that have a job, by their time.
func (s *Schedule) InOrder() []Occurrence {
	return slices.SortedFunc(maps.Keys(s.Jobs), func(o, p Occurrence) int {
		return cmp.Or(cmp.Compare(o.Nominal, p.Nominal), cmp.Compare(o.Trigger, p.Trigger))
	})
}
