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
// The wait is the number of enqueues that wait over the rate at which they are acknowledged
// (Little's law), and the age of the batch that is on its way. The rate is measured while more
// enqueues wait than a batch can take; a batch that took all that waited shows only that
// the rate is at least so high.
type admission struct {
	mu sync.Mutex
	// rate is in enqueues per second, 0 if it is not known; measured is when it was.
	rate     float64
	measured time.Duration
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

// endlessWait is what any longer wait counts as, in seconds: after a time in which nothing was
// acknowledged the rate is next to nothing.
const endlessWait = 3600.

// rateMemory is for how long a measurement of the rate counts.
const rateMemory = time.Second

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
	if a.settled != none {
		since = a.settled
	}
	rate := 0.
	if applied {
		rate = float64(a.riding) / max(now-since, time.Millisecond).Seconds()
	}
	if a.crowded || a.rate > 0 && rate > a.rate {
		weight := 1.
		if a.rate > 0 {
			weight = 1 - math.Exp(-float64(now-a.measured)/float64(rateMemory))
		}
		a.rate = max(a.rate+weight*(rate-a.rate), 1/endlessWait) // 0 is not known
		a.measured = now
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
	if behind := float64(others - a.riding); a.rate > 0 && behind > 0 {
		wait += time.Duration(min(behind/a.rate, endlessWait) * float64(time.Second))
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
