package mistake

import (
	"context"
	"sync/atomic"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
)

// KindOf tells what a compare-and-set of a lock row is for.
func KindOf(from *store.Version, to store.Version) lock.OpKind {
	switch {
	case to.Holder == "":
		return lock.Release
	case from != nil && from.Fence == to.Fence && from.Attempt == to.Attempt:
		return lock.Renew
	}
	return lock.Acquire
}

// CAS is one copy of a compare-and-set of a lock row.
type CAS struct {
	Ctx      context.Context
	Inner    store.Locks
	TTL      time.Duration
	Resource string
	From     *store.Version
	To       store.Version
	N        int // 0 for the first copy
}

// Send sends it as it is now.
func (c CAS) Send() (store.CASResult, error) {
	return c.Inner.CAS(c.Ctx, c.Resource, c.From, c.To, c.N)
}

// Locks has compare-and-sets of one kind carried out by Do; 0: all.
type Locks struct {
	store.Locks
	TTL  time.Duration
	Kind lock.OpKind
	Do   func(CAS) (store.CASResult, error)
}

// CAS implements store.Locks.
func (l Locks) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	c := CAS{ctx, l.Locks, l.TTL, resource, from, to, n}
	if l.Kind != 0 && l.Kind != KindOf(from, to) {
		return c.Send()
	}
	return l.Do(c)
}

// cas plants do for one kind of compare-and-set; 0: all.
func cas(kind lock.OpKind, do func(CAS) (store.CASResult, error)) func(Process, store.Locks) store.Locks {
	return func(p Process, inner store.Locks) store.Locks { return Locks{inner, p.TTL, kind, do} }
}

// tokenReset: a release leaves the row as new, with its counter at the start.
func tokenReset(c CAS) (store.CASResult, error) {
	c.To.Fence = 1
	return c.Send()
}

// releaseAnyone frees the row without asking who holds it.
func releaseAnyone(c CAS) (store.CASResult, error) {
	for {
		row, err := c.Inner.Read(c.Ctx, c.Resource, true)
		if err != nil {
			return store.CASResult{}, err
		}
		if row.Free() {
			return store.CASResult{Applied: true}, nil
		}
		to := store.Version{Fence: row.Fence, Beat: row.Beat + 1, Attempt: c.To.Attempt, TTL: row.TTL}
		res, err := c.Inner.CAS(c.Ctx, c.Resource, row, to, c.N)
		if err != nil || res.Applied {
			return res, err
		}
	}
}

// unknownAcquireOK takes a missing answer for a yes.
func unknownAcquireOK(c CAS) (store.CASResult, error) {
	res, err := c.Send()
	if store.OutcomeOf(err) == store.Unknown {
		return store.CASResult{Applied: true}, nil
	}
	return res, err
}

// unknownAcquireFails takes a missing answer for a no: what was executed is
// left behind.
func unknownAcquireFails(c CAS) (store.CASResult, error) {
	res, err := c.Send()
	if store.OutcomeOf(err) == store.Unknown {
		return res, &store.Error{Op: "acquire " + c.Resource, Outcome: store.Fail, Cause: err}
	}
	return res, err
}

// driverReexecutes executes a request again when its answer is late, as a
// driver's retry policy does, and returns the last execution's answer as if it
// were the only one.
func driverReexecutes(c CAS) (store.CASResult, error) {
	const executions = 10
	var last error
	for i := range executions {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Ctx), c.TTL/12)
		res, err := c.Inner.CAS(ctx, c.Resource, c.From, c.To, c.N+i)
		cancel()
		if err == nil || store.OutcomeOf(err) == store.Fail {
			return res, err
		}
		last = err
	}
	return store.CASResult{}, last
}

// appliedIgnored does not look at the [applied] column.
func appliedIgnored(c CAS) (store.CASResult, error) {
	res, err := c.Send()
	res.Applied = err == nil
	return res, err
}

// takeoverNever takes every held row that it sees for one that has just been
// renewed: a lock whose holder is dead is never had again.
func takeoverNever(_ Process, inner store.Locks) store.Locks {
	return &patient{Locks: inner}
}

type patient struct {
	store.Locks
	looks atomic.Int64
}

func (p *patient) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := p.Locks.Read(ctx, resource, serial)
	if err == nil && !row.Free() && !serial {
		row.Beat += p.looks.Add(1) // another version than last time, no matter who asks
	}
	return row, err
}
