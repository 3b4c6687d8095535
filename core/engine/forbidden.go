package engine

import (
	"fmt"
	"slices"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// refusedPause is how long a process leaves a shard alone of which the store refuses every
// request for good: somebody has to change that, and is told once.
const refusedPause = time.Minute

// refused tells once of what the store refuses for good, until it takes something again.
func (e *Engine) refused(id store.ShardID, err error) {
	if e.forbidden.CompareAndSwap(false, true) {
		e.o.Logger.Error("the store permanently refuses this process: no job runs here until this is fixed", "shard", id.String(), "error", err)
	}
}

// taken: the store took a batch.
func (e *Engine) taken() {
	if e.forbidden.Load() {
		e.forbidden.Store(false)
	}
}

// forbid ends the requests that wait, and those that come, with what the store says: it
// refuses even an empty batch for good. The ownership lasts as long as it is trusted, as
// others may not take the shard before that, and batches are tried until then.
func (o *owner) forbid(err error) {
	o.e.refused(o.id, err)
	o.forbidden = err
	o.refuseCallers("", err)
}

// refuseCallers refuses those who wait for what rides in nothing: of one job, or of all if
// that is "". What nobody waits for stays.
func (o *owner) refuseCallers(of job.ID, cause error) {
	o.refuse(cause, func(i *intent) bool { return i.wait != nil && (of == "" || i.job() == of) })
}

// refuse takes out what is meant of all that rides in nothing, and tells its callers why.
func (o *owner) refuse(cause error, meant func(*intent) bool) {
	stays := o.staying(cause, meant)
	for _, l := range o.m.queue.all() {
		l.keep(stays)
	}
	o.m.singles = slices.DeleteFunc(o.m.singles, func(i *intent) bool { return !stays(i) })
}

// staying refuses what is meant as it comes by, and reports of the rest that it stays.
func (o *owner) staying(cause error, meant func(*intent) bool) func(*intent) bool {
	return func(i *intent) bool {
		if !meant(i) {
			return true
		}
		o.m.over(i)
		i.wait.tell(ack{err: i.failed(store.Fail, cause)})
		return false
	}
}

// expired is why an ownership ends that is not trusted any more.
func (o *owner) expired() error {
	if o.forbidden != nil {
		return fmt.Errorf("%w: %w", ErrExpired, o.forbidden)
	}
	return ErrExpired
}

// stall refuses the enqueues that wait, and those that come, while a batch is not settled.
func (o *owner) stall() {
	o.stalled = true
	rest := &o.m.queue.rest
	rest.gone = 0
	rest.keep(o.staying(ErrBusy, func(i *intent) bool { return i.kind == doEnqueue && i.wait != nil }))
}
