package job

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// RetryPolicy says how long to wait after a failed attempt. The zero value is
// DefaultRetry.
type RetryPolicy struct {
	// Delays are used in turn after attempts 1, 2, …; the last one repeats.
	// With none the wait is Base doubling (or times Factor) up to Max.
	Delays []time.Duration `json:"delays,omitempty"`
	Base   time.Duration   `json:"base,omitempty"`
	Factor float64         `json:"factor,omitempty"` // default 2
	Max    time.Duration   `json:"max,omitempty"`    // default 30 min
	// Jitter is the part of the wait, in [0, 1], by which it varies either way.
	Jitter float64 `json:"jitter,omitempty"`
}

// DefaultRetry waits 5 s, 15 s, 1 min, 5 min and then 30 min, each 10 % more or less.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{
		Delays: []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute},
		Jitter: 0.1,
	}
}

// Exponential waits base after the first attempt and factor times as long after
// each further one, up to limit.
func Exponential(base time.Duration, factor float64, limit time.Duration) RetryPolicy {
	return RetryPolicy{Base: base, Factor: factor, Max: limit, Jitter: 0.1}
}

// Delay is the wait after the attempt-th attempt failed; u in [0, 1) is the
// jitter's random number.
func (p RetryPolicy) Delay(attempt int, u float64) time.Duration {
	if len(p.Delays) == 0 && p.Base == 0 {
		p = DefaultRetry()
	}
	attempt = max(attempt, 1)
	var d time.Duration
	if n := len(p.Delays); n > 0 {
		d = p.Delays[min(attempt, n)-1]
	} else {
		factor, limit := cmp.Or(p.Factor, 2), cmp.Or(p.Max, 30*time.Minute)
		wait := float64(p.Base) * math.Pow(factor, float64(attempt-1))
		d = time.Duration(min(wait, float64(limit)))
	}
	return time.Duration(float64(d) * (1 + p.Jitter*(2*u-1)))
}

// MaxDelay is the longest wait that a policy may ask for.
const MaxDelay = 10 * 365 * 24 * time.Hour

func (p RetryPolicy) check() error {
	bad := func(format string, args ...any) error {
		return &InvalidError{Field: "retry", Reason: fmt.Sprintf(format, args...)}
	}
	for _, d := range p.Delays {
		if d < 0 || d > MaxDelay {
			return bad("delay %s: want 0 to %s", d, MaxDelay)
		}
	}
	switch {
	case p.Base < 0 || p.Max < 0 || p.Base > MaxDelay || p.Max > MaxDelay:
		return bad("base %s and max %s: want 0 to %s", p.Base, p.Max, MaxDelay)
	case p.Factor != 0 && !(p.Factor >= 1 && p.Factor <= 100):
		return bad("factor is %v: want 1 to 100", p.Factor)
	case !(p.Jitter >= 0 && p.Jitter <= 1):
		return bad("jitter is %v: want 0 to 1", p.Jitter)
	}
	return nil
}

// InvalidError is a job that no store will take.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return "job: " + e.Field + " " + e.Reason }

// word is what a handler says of its job by an error, beside the error's cause.
type word struct {
	says  string
	cause error
}

func (w *word) Error() string { return w.says + ": " + w.cause.Error() }
func (w *word) Unwrap() error { return w.cause }

// Is reports whether target is the same word, whatever its cause.
func (w *word) Is(target error) bool {
	other, ok := target.(*word)
	return ok && other.says == w.says
}

var (
	cancelled = &word{says: "job: cancelled by its handler"}
	permanent = &word{says: "not to be tried again"}
	notHere   = &word{says: "not to be run by this process"}
)

func (w word) about(cause error) error {
	if w.cause = cause; cause == nil {
		w.cause = errors.New("no reason given")
	}
	return &w
}

// Cancel makes an error that ends the job as cancelled when its handler returns it:
// it is not tried again.
func Cancel(cause error) error { return cancelled.about(cause) }

// IsCancel reports whether err was made by Cancel.
func IsCancel(err error) bool { return errors.Is(err, cancelled) }

// Permanent makes an error that ends the job in the dead letter queue when its handler
// returns it, whatever attempts are left. It can be redriven from there, as when the
// program that could not run it was mended; what is not to be kept ends by Cancel.
func Permanent(cause error) error { return permanent.about(cause) }

// IsPermanent reports whether err was made by Permanent.
func IsPermanent(err error) bool { return errors.Is(err, permanent) }

// NotHere makes an error by which a handler says, before it did anything, that its process
// cannot run the job, as it lacks something that another one may have. The job keeps its
// attempts and waits as its policy says, MaxInterruptions times at most.
func NotHere(cause error) error { return notHere.about(cause) }

// IsNotHere reports whether err was made by NotHere.
func IsNotHere(err error) bool { return errors.Is(err, notHere) }

// MaxInterruptions bounds the runs of a job that spend no attempt, because the process
// stopped, died or lost the shard during the run, or could not run the job. One more sends
// it to the dead letter queue.
const MaxInterruptions = 20

// ErrCancelled is the cause of the end of a run whose job was cancelled from outside.
// Unless its handler succeeds all the same, the job ends as cancelled.
var ErrCancelled = errors.New("job: cancelled while it was running")

// ErrInterrupted is the cause of the end of a run that was stopped with its worker.
// The job is tried again at once, and keeps its attempts.
var ErrInterrupted = errors.New("job: interrupted: its worker stops")
