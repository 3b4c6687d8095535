package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"fencepost/core/job"
)

// State is what has become of a schedule so far. Times are ms since 1970.
type State struct {
	// Created is when it was put, or when its timing was last changed.
	Created int64 `json:"created_ms"`
	// Last is up to where its nominal times are decided: fired, queued, or passed
	// over. It never falls.
	Last     int64 `json:"last_ms"`
	Disabled bool  `json:"disabled,omitempty"`
	// Active is the occurrence that has not ended yet; of a schedule whose
	// occurrences may overlap always zero.
	Active job.Occurrence `json:"active,omitzero"`
	// Queue are those that wait for its end.
	Queue []job.Occurrence `json:"queue,omitempty"`
	// Ended is when the last one ended.
	Ended int64 `json:"ended_ms,omitempty"`
	// Fired, Missed and Skipped count occurrences: those whose jobs were enqueued,
	// those that came too late, and those passed over as another had not ended.
	Fired   int64 `json:"fired,omitempty"`
	Missed  int64 `json:"missed,omitempty"`
	Skipped int64 `json:"skipped,omitempty"`
}

// Decision is a step of a schedule.
type Decision struct {
	// State is what the schedule is after it.
	State State
	// Fire are the occurrences whose jobs are to be enqueued, in one step with State.
	// The nominal times of those that are not manual rise strictly, over all decisions.
	Fire []job.Occurrence
	// Missed and Skipped are what this decision adds to State's.
	Missed, Skipped int64
	// Next is State's Next. It may be past, if there was more to fire than the limit.
	Next int64

	void []job.Occurrence // they do not fire
}

// ErrOverlap refuses a manual trigger, as an occurrence has not ended yet, and no
// more may wait.
var ErrOverlap = errors.New("schedule: the occurrence before has not ended yet: try again later, or allow overlaps")

// Start is the state of a schedule that is put now.
func (s *Schedule) Start(now int64) State {
	st := State{Created: now, Last: now - 1}
	if at := s.at(); s.Kind == At {
		// If it is past, the misfire policy says whether it still fires.
		st.Last = min(now, at) - 1
	} else if s.Kind == Cron {
		st.Last = max(now, at) - 1
	}
	return st
}

// Replace is the state of a schedule that is put in the place of old, which is in
// state st. What has begun goes on. With the same timing it goes on where it is; with
// another it starts over, but nominal times go on to rise.
func (s *Schedule) Replace(old *Schedule, st State, now int64) State {
	if !s.exclusive() {
		st.Active = job.Occurrence{} // nobody will tell of its end
	}
	if s.Timing == old.Timing {
		return st
	}
	fresh := s.Start(now)
	st.Created, st.Last = fresh.Created, max(st.Last, fresh.Last)
	return st
}

// Enable lets a disabled schedule go on. Nominal times up to now are past and gone.
func (s *Schedule) Enable(st State, now int64) State {
	if st.Disabled {
		st.Disabled, st.Last = false, max(st.Last, now)
	}
	return st
}

// Disable stops a schedule: what has begun goes on, what waits is passed over, and
// nothing fires but manual triggers.
func (s *Schedule) Disable(st State, now int64) Decision {
	d := Decision{State: st}
	if !st.Disabled {
		d.State.Disabled = true
		d.skip(int64(len(st.Queue)))
		d.State.Queue = nil
	}
	d.Next = s.Next(d.State, now)
	return d
}

// Decide is what a schedule in a state does now: at most limit occurrences, at least
// one, fire at once. The void ones do not fire when it is their turn, as their jobs
// exist already, and nothing waits for them.
func (s *Schedule) Decide(st State, now int64, limit int, void ...job.Occurrence) Decision {
	d := Decision{State: st, void: void}
	for len(d.State.Queue) > 0 && !s.busy(d.State) && len(d.Fire) < limit {
		o := d.State.Queue[0]
		d.State.Queue = d.State.Queue[1:]
		s.fire(&d, o)
	}
	if !st.Disabled {
		s.advance(&d, now, limit)
	}
	d.Next = s.Next(d.State, now)
	return d
}

// Ended is the step in which an occurrence ends, of which at is the time: the nominal
// times up to then came while it had not ended. Decide says what comes after it.
func (s *Schedule) Ended(st State, o job.Occurrence, at int64) Decision {
	d := Decision{State: st}
	if st.Active != o || o.IsZero() {
		d.Next = s.Next(st, at)
		return d
	}
	if !st.Disabled {
		s.advance(&d, at, 0)
	}
	d.State.Active, d.State.Ended = job.Occurrence{}, at
	d.Next = s.Next(d.State, at)
	return d
}

var triggers = regexp.MustCompile(`^[A-Za-z0-9._:/+-]+$`)

// Trigger fires an occurrence by hand, if the schedule is disabled too. The trigger's
// name is the caller's, unique for the schedule: with one that is at work or waits
// already nothing more happens. It overlaps as other occurrences may: else it waits,
// or the error is ErrOverlap. A bad name is an *InvalidError.
func (s *Schedule) Trigger(st State, trigger string, now int64) (Decision, error) {
	d := Decision{State: st}
	o := job.Occurrence{Schedule: s.Key, Nominal: now, Trigger: trigger}
	same := func(p job.Occurrence) bool { return p.Trigger == trigger }
	switch {
	case !triggers.MatchString(trigger) || len(trigger) > MaxTrigger:
		return d, &InvalidError{Field: "trigger", Reason: fmt.Sprintf("is %q: want 1 to %d letters, digits and . _ : / + -", trigger, MaxTrigger)}
	case same(st.Active) || slices.ContainsFunc(st.Queue, same):
	case !s.busy(st):
		s.fire(&d, o)
	case s.Overlap == OverlapQueue && len(st.Queue) < MaxQueue:
		d.queue(o)
	default:
		return d, ErrOverlap
	}
	d.Next = s.Next(d.State, now)
	return d, nil
}

// exclusive: an occurrence begins when the one before it has ended.
func (s *Schedule) exclusive() bool { return s.Overlap != OverlapAllow }

func (s *Schedule) busy(st State) bool { return s.exclusive() && !st.Active.IsZero() }

// advance decides the nominal times up to now, of which it fires at most so many that
// all that fire are limit.
func (s *Schedule) advance(d *Decision, now int64, limit int) {
	s.misfires(d, now)
	for {
		times := s.times(d.State)
		t := times.next(d.State.Last)
		if t > now {
			return
		}
		o := job.Occurrence{Schedule: s.Key, Nominal: t}
		switch {
		case !s.busy(d.State):
			if len(d.Fire) >= limit {
				return
			}
			s.fire(d, o)
		case s.Overlap == OverlapQueue && len(d.State.Queue) < MaxQueue:
			d.queue(o)
		default:
			d.skip(times.count(d.State.Last, now))
			t, _ = latest(times, d.State.Last, now)
		}
		d.State.Last = t
	}
}

// misfires passes over the nominal times that are too late to be fired now.
func (s *Schedule) misfires(d *Decision, now int64) {
	if s.Kind == FixedDelay {
		return // its one time waits until somebody is there
	}
	times := s.times(d.State)
	inTime := now - s.Grace.Milliseconds()
	if s.Misfire == MisfireAll {
		inTime = now - s.Window.Milliseconds()
	}
	late := times.count(d.State.Last, inTime-1)
	if late == 0 {
		return
	}
	d.State.Last, _ = latest(times, d.State.Last, inTime-1)
	if s.Misfire == MisfireOnce && times.count(inTime-1, now) == 0 {
		late--
		d.State.Last-- // it is the one to fire
	}
	d.Missed += late
	d.State.Missed += late
}

func (s *Schedule) fire(d *Decision, o job.Occurrence) {
	if slices.Contains(d.void, o) {
		return
	}
	d.Fire = append(d.Fire, o)
	d.State.Fired++
	if s.exclusive() {
		d.State.Active = o
	}
}

func (d *Decision) queue(o job.Occurrence) {
	d.State.Queue = append(slices.Clone(d.State.Queue), o)
}

func (d *Decision) skip(n int64) {
	d.Skipped += n
	d.State.Skipped += n
}

// Next is when to decide about a schedule in a state, if nothing else happens to it
// before: at once if it is not later than now. Never: not by itself.
func (s *Schedule) Next(st State, now int64) int64 {
	switch {
	case len(st.Queue) > 0 && !s.busy(st):
		return now
	case st.Disabled:
		return Never
	}
	return s.times(st).next(st.Last)
}

// at is Timing.At in ms since 1970; 0 if it is not set.
func (t Timing) at() int64 {
	if t.At.IsZero() {
		return 0
	}
	return t.At.UnixMilli()
}

// times are the nominal times of the schedule as far as they are known.
func (s *Schedule) times(st State) times {
	if !s.Until.IsZero() {
		return bounded{s.unbounded(st), s.Until.UnixMilli()}
	}
	return s.unbounded(st)
}

func (s *Schedule) unbounded(st State) times {
	first := st.Created
	if !s.At.IsZero() {
		first = s.at()
	}
	switch s.Kind {
	case Cron:
		return calendar{s.cron}
	case FixedRate:
		return rate{first, s.Every.Milliseconds()}
	case FixedDelay:
		first = max(first, st.Created)
		switch {
		case !st.Active.IsZero():
			return single(Never) // known when it ends
		case st.Last >= first:
			first = max(st.Ended, st.Last) + s.Every.Milliseconds()
		}
	}
	return single(first)
}
