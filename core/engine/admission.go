package engine

import (
	"errors"
	"math"
	"sync"
	"time"
)

// admission tells how long an enqueue would wait for its acknowledgement, and how long the
// next job has waited that is due. The owner's loop keeps it; callers ask it before they wait, so that
// a refusal costs the loop nothing.
//
// The wait is that for so many batches as those who wait need, and the age of the batch that is on its
// way. It counts as longer by what batches vary, as a TCP sender counts its time-out, with the same
// gains of 1/8 and 1/4 (RFC 6298): one that is slow is forgotten after a few. How long batches take, and how
// many enqueues one takes, is measured while more wait than it has room for; one that took all that
// waited shows only that it is at least so many, and at most so long.
type admission struct {
	mu sync.Mutex
	// each is how many enqueues a batch takes while more wait, 0 if it is not known; period how long
	// batches take, in seconds, and deviation how far they are from that. measured is when they were.
	each, period, deviation float64
	measured                time.Duration
	// sent is when the batch on its way was, with so many enqueues that ride in it;
	// none: none is.
	sent    time.Duration
	riding  int64
	crowded bool
	// settled is when the batch before was, if it was crowded: its enqueues have waited since.
	settled time.Duration
	// due is since when the job waits that is to be claimed next, which has that priority; none:
	// none does.
	due      time.Duration
	priority int
}

// none is no instant.
const none = time.Duration(-1)

// endlessWait is what any longer wait counts as, in seconds.
const endlessWait = 3600.

// deviations is by how many mean deviations of a batch's period a wait counts as longer: few are longer
// than that. The square root is that of a sum of periods which do not depend on each other.
const deviations = 2

// leastEach is what a batch counts as taking at least: after a time in which nothing was acknowledged it
// is next to nothing, and 0 is not known.
const leastEach = 1e-5

// memory is for how long a measurement counts while there are no batches.
const memory = time.Second

func newAdmission() admission { return admission{sent: none, settled: none, due: none} }

// sends takes note of a batch with so many enqueues. crowded: it could not take all that wait.
func (a *admission) sends(now time.Duration, riding int64, crowded bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent, a.riding, a.crowded = now, riding, crowded
}

// settles takes note of the end of the batch; applied: its enqueues are acknowledged.
func (a *admission) settles(now time.Duration, applied bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := a.sent
	if a.settled != none && a.crowded {
		since = a.settled // a pause between crowded batches is theirs
	}
	weight, period := 1., max(now-since, time.Millisecond).Seconds()
	if a.crowded || period < a.period {
		if a.period > 0 {
			idle := 1 - math.Exp(-float64(a.sent-a.measured)/float64(memory))
			a.deviation += max(idle, 1./4) * (math.Abs(period-a.period) - a.deviation)
			weight = max(idle, 1./8)
		}
		a.period += weight * (period - a.period)
		a.measured = now
	}
	took := 0.
	if applied {
		took = float64(a.riding)
	}
	switch {
	case a.crowded && a.each == 0:
		a.each = took // 0: still unknown, as after a batch that was refused
	case a.crowded:
		a.each = max(a.each+weight*(took-a.each), leastEach)
	case a.each > 0:
		a.each = max(a.each, took)
	}
	a.sent, a.riding, a.settled = none, 0, none
	if a.crowded {
		a.settled = now
	}
}

// waits takes note of the jobs that are due, in the order in which they are claimed.
func (a *admission) waits(ready []*entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = none
	if len(ready) > 0 {
		a.due, a.priority = ms(ready[0].since), ready[0].job.Priority
	}
}

// expected is how long an enqueue of that priority would wait behind others, the age of the
// batch on its way, and for how long a job has waited that would be claimed before it.
func (a *admission) expected(now time.Duration, priority int, others int64) (wait, age, overdue time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent != none {
		age = now - a.sent
	}
	if a.due != none && priority <= a.priority {
		overdue = now - a.due
	}
	wait = age
	if behind := float64(others - a.riding); a.each > 0 && behind > 0 {
		batches := behind / a.each
		most := batches*a.period + deviations*math.Sqrt(batches)*a.deviation
		wait += time.Duration(min(most, endlessWait) * float64(time.Second))
	}
	return wait, age, overdue
}

// admit refuses an enqueue that would wait for too long behind others, or whose shard is behind
// with what it has taken already.
func (o *owner) admit(priority int) error {
	now := o.now()
	wait, age, overdue := o.admission.expected(now, priority, o.callers.Load())
	switch l := o.e.o.Limits; {
	case age > l.MaxWait:
		return &BusyError{Cause: ErrStalled, RetryAfter: l.MaxWait} // it may be answered at any moment
	case wait > l.MaxWait:
		return &BusyError{Cause: ErrBusy, RetryAfter: wait - l.MaxWait}
	case overdue > l.MaxOverdue:
		return &BusyError{Cause: ErrBusy, RetryAfter: overdue - l.MaxOverdue}
	}
	return nil
}

// BusyError refuses an enqueue that would have waited for too long: nothing was done. Its
// cause is ErrBusy, or ErrStalled.
type BusyError struct {
	Cause error
	// RetryAfter is when it makes sense to ask again. Callers add jitter, or all of them come back at once.
	RetryAfter time.Duration
}

func (e *BusyError) Error() string {
	return e.Cause.Error() + ", after " + e.RetryAfter.Round(time.Millisecond).String()
}

// Unwrap returns the cause.
func (e *BusyError) Unwrap() error { return e.Cause }

// leastRetryAfter is the least that RetryAfter returns, mostRetryAfter the most: nobody can tell
// what is in a minute.
const (
	leastRetryAfter = 100 * time.Millisecond
	mostRetryAfter  = 5 * time.Second
)

// RetryAfter reports whether a request was refused because there is too much to do, or nobody
// there to do it, and for how long its caller should wait before the next one: 100 ms to 5 s. Add
// jitter to it.
func RetryAfter(err error) (wait time.Duration, ok bool) {
	var busy *BusyError
	switch {
	case errors.As(err, &busy):
		return min(max(busy.RetryAfter, leastRetryAfter), mostRetryAfter), true
	case errors.Is(err, ErrBusy), errors.Is(err, ErrStalled):
		return time.Second, true
	}
	return 0, false
}
