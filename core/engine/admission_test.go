package engine

import (
	"errors"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestExpectedWait: an enqueue waits behind those that wait for as long as the shard takes to
// acknowledge them, by the rate that was measured while more waited than a batch takes, and for
// the batch on its way.
func TestExpectedWait(t *testing.T) {
	t.Parallel()
	const at = 100 * time.Second
	// batch has one batch of so many enqueues take 100 ms, ending at an instant.
	batch := func(a *admission, end time.Duration, riding int64, crowded bool) {
		a.sends(end-100*time.Millisecond, riding, crowded)
		a.settles(end, true)
	}
	// last has one with room follow the first batch: then nobody waits any more.
	last := func(a *admission) { batch(a, at-time.Minute+100*time.Millisecond, 1, false) }
	for name, c := range map[string]struct {
		before func(*admission)
		others int64
		wait   time.Duration
	}{
		"the rate is not known":                    {func(*admission) {}, 900, 0},
		"it is not known by a batch that had room": {func(a *admission) { batch(a, at, 10, false) }, 900, 0},
		"it is not known by one that was refused":  {func(a *admission) { a.sends(at-100*time.Millisecond, 10, true); a.settles(at, false) }, 900, 0},
		"it is known by the one after that": {func(a *admission) {
			a.sends(at-200*time.Millisecond, 10, true)
			a.settles(at-100*time.Millisecond, false)
			batch(a, at, 10, true)
		}, 50, 500 * time.Millisecond},
		"100 a second":                 {func(a *admission) { batch(a, at, 10, true) }, 50, 500 * time.Millisecond},
		"nobody waits":                 {func(a *admission) { batch(a, at, 10, true) }, 0, 0},
		"a batch is on its way":        {func(a *admission) { batch(a, at-time.Second, 10, true); a.sends(at-300*time.Millisecond, 10, true) }, 60, 800 * time.Millisecond},
		"a batch with all who wait":    {func(a *admission) { batch(a, at-time.Second, 10, true); a.sends(at-300*time.Millisecond, 10, false) }, 10, 300 * time.Millisecond},
		"a batch that is settled":      {func(a *admission) { a.sends(at-time.Second, 5, false); a.settles(at, true) }, 5, 0},
		"a batch with room was slower": {func(a *admission) { batch(a, at-time.Second, 10, true); batch(a, at, 1, false) }, 50, 500 * time.Millisecond},
		"long after":                   {func(a *admission) { batch(a, at-time.Minute, 10, true); last(a); batch(a, at, 20, true) }, 50, 250 * time.Millisecond},
		"long after, and it had room":  {func(a *admission) { batch(a, at-time.Minute, 10, true); last(a); batch(a, at, 20, false) }, 50, 250 * time.Millisecond},
		"batch after batch": {func(a *admission) {
			for n := range time.Duration(50) {
				batch(a, at-5*time.Second+n*100*time.Millisecond, 20, true)
			}
		}, 100, 500 * time.Millisecond},
		"a pause between them is theirs": {func(a *admission) {
			for n := range time.Duration(100) {
				batch(a, at-20*time.Second+n*200*time.Millisecond, 20, true)
			}
		}, 100, time.Second},
		"batches that vary": { // by 50 ms of 150, and the last was a long one: 4 of them, and 2 x 2 deviations
			func(a *admission) {
				for n := range time.Duration(100) {
					end := at - 20*time.Second + n*150*time.Millisecond
					a.sends(end-100*time.Millisecond, 20, true)
					a.settles(end+n%2*50*time.Millisecond, true)
				}
			}, 80, 827 * time.Millisecond},
		"they varied, and nobody waits now": {func(a *admission) {
			for n := range time.Duration(100) {
				end := at - 200*time.Second + n*1500*time.Millisecond
				a.sends(end-1000*time.Millisecond, 20, true)
				a.settles(end+n%2*500*time.Millisecond, true)
			}
			for n := range time.Duration(20) {
				batch(a, at-10*time.Second+n*500*time.Millisecond, 1, false)
			}
		}, 20, 100 * time.Millisecond},
		"one that was refused": {func(a *admission) {
			batch(a, at-time.Minute, 10, true)
			last(a)
			a.sends(at-100*time.Millisecond, 10, true)
			a.settles(at, false)
		}, 1, time.Hour},
	} {
		a := newAdmission()
		c.before(&a)
		wait, _, overdue := a.expected(at, 0, c.others)
		if near := c.wait / 50; wait < c.wait-near || wait > c.wait+near || overdue != 0 {
			t.Errorf("%s: %s, want %s; overdue by %s", name, wait, c.wait, overdue)
		}
	}
}

// TestAdmit: who would wait for too long is refused, and told when to come again; not so who
// would wait as long as may be.
func TestAdmit(t *testing.T) {
	t.Parallel()
	const now = 100 * time.Second
	crowd := func(o *owner, callers int64) {
		o.admission.sends(now-200*time.Millisecond, 10, true) // 100 a second
		o.admission.settles(now-100*time.Millisecond, true)
		o.callers.Store(callers)
	}
	due := func(o *owner, since time.Duration, priority int) {
		o.admission.waits([]*entry{{since: millis(since), job: job.Job{Priority: priority}}, {since: 0}})
	}
	for name, c := range map[string]struct {
		change func(*owner)
		cause  error
		after  time.Duration
	}{
		"nothing to do":                {func(*owner) {}, nil, 0},
		"as many as may wait":          {func(o *owner) { crowd(o, 100) }, nil, 0},
		"more":                         {func(o *owner) { crowd(o, 150) }, ErrBusy, 500 * time.Millisecond},
		"a batch is late":              {func(o *owner) { o.admission.sends(now-1500*time.Millisecond, 0, false) }, ErrStalled, time.Second},
		"a batch is not late yet":      {func(o *owner) { o.admission.sends(now-time.Second, 0, false) }, nil, 0},
		"a job is due for long":        {func(o *owner) { due(o, now-31*time.Second, 5) }, ErrBusy, time.Second},
		"a job is due for not as long": {func(o *owner) { due(o, now-30*time.Second, 5) }, nil, 0},
		"a less urgent one is":         {func(o *owner) { due(o, now-time.Hour, 4) }, nil, 0},
		"it is claimed":                {func(o *owner) { due(o, 0, 5); o.admission.waits(nil) }, nil, 0},
	} {
		o := &owner{admission: newAdmission(), e: &Engine{o: Options{
			Limits: Limits{MaxWait: time.Second, MaxOverdue: 30 * time.Second}, World: World{Clock: standing{now: now}}}}}
		c.change(o)
		err := o.admit(5)
		after, busy := RetryAfter(err)
		if !errors.Is(err, c.cause) || (err == nil) != (c.cause == nil) || busy != (err != nil) || busy && (after-c.after).Abs() > time.Millisecond {
			t.Errorf("%s: %v, after %s; want %v, after %s", name, err, after, c.cause, c.after)
		}
	}
}

// TestRetryAfter: whatever is refused for want of room says when to come again, and nothing else does.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	failed := func(cause error) error { return &EnqueueError{Outcome: store.Fail, Cause: cause} }
	for name, c := range map[string]struct {
		err  error
		wait time.Duration
		ok   bool
	}{
		"none":               {nil, 0, false},
		"busy":               {failed(&BusyError{Cause: ErrBusy, RetryAfter: 3 * time.Second}), 3 * time.Second, true},
		"busy for no time":   {failed(&BusyError{Cause: ErrBusy}), leastRetryAfter, true},
		"busy for an hour":   {failed(&BusyError{Cause: ErrBusy, RetryAfter: time.Hour}), mostRetryAfter, true},
		"busy, nobody knows": {failed(ErrBusy), time.Second, true},
		"stalled":            {failed(ErrStalled), time.Second, true},
		"not the owner":      {failed(ErrNotOwner), 0, false},
	} {
		if wait, ok := RetryAfter(c.err); wait != c.wait || ok != c.ok {
			t.Errorf("%s: %s, %v", name, wait, ok)
		}
	}
}
