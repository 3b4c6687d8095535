package broken

import (
	"context"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("token-reset", locksHook(lock.Release, tokenReset))
	plant("row-ttl", locksHook(0, rowTTL))
	plant("release-anyone", locksHook(lock.Release, releaseAnyone))
	plant("release-plain-write", locksHook(lock.Release, releasePlainWrite))
	plant("unknown-acquire-ok", locksHook(lock.Acquire, unknownAcquireOK))
	plant("unknown-acquire-fails", locksHook(lock.Acquire, unknownAcquireFails))
	plant("driver-reexecutes", locksHook(0, driverReexecutes))
	plant("applied-ignored", locksHook(lock.Acquire, appliedIgnored))
}

// kindOf tells what a compare-and-set of a lock row is for.
func kindOf(from *store.Version, to store.Version) lock.OpKind {
	switch {
	case to.Holder == "":
		return lock.Release
	case from != nil && from.Fence == to.Fence && from.Attempt == to.Attempt:
		return lock.Renew
	}
	return lock.Acquire
}

// casRequest is one copy of a compare-and-set.
type casRequest struct {
	ctx      context.Context
	inner    store.Locks
	db       *cassandra.DB
	ttl      time.Duration
	resource string
	from     *store.Version
	to       store.Version
	copyNo   int
}

func (r casRequest) send() (store.CASResult, error) {
	return r.inner.CAS(r.ctx, r.resource, r.from, r.to, r.copyNo)
}

// casLocks has requests of one kind carried out by do.
type casLocks struct {
	store.Locks
	db   *cassandra.DB
	ttl  time.Duration
	kind lock.OpKind
	do   func(casRequest) (store.CASResult, error)
}

func (l casLocks) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	r := casRequest{ctx, l.Locks, l.db, l.ttl, resource, from, to, copyNo}
	if l.kind != 0 && l.kind != kindOf(from, to) {
		return r.send()
	}
	return l.do(r)
}

// locksHook makes hooks of do for one kind of request; 0: all.
func locksHook(kind lock.OpKind, do func(casRequest) (store.CASResult, error)) func() workload.Hooks {
	return func() workload.Hooks {
		return workload.Hooks{Locks: func(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
			return casLocks{inner, db, cfg.TTL, kind, do}
		}}
	}
}

// tokenReset: a release leaves the row as new, with its counter at the start.
func tokenReset(r casRequest) (store.CASResult, error) {
	r.to.Fence = 1
	return r.send()
}

// releaseAnyone frees the row without asking who holds it.
func releaseAnyone(r casRequest) (store.CASResult, error) {
	for {
		row, err := r.inner.Read(r.ctx, r.resource, true)
		if err != nil {
			return store.CASResult{}, err
		}
		if row.Free() {
			return store.CASResult{Applied: true}, nil
		}
		to := store.Version{Fence: row.Fence, Beat: row.Beat + 1, Attempt: r.to.Attempt, TTL: row.TTL}
		res, err := r.inner.CAS(r.ctx, r.resource, row, to, r.copyNo)
		if err != nil || res.Applied {
			return res, err
		}
	}
}

// releasePlainWrite frees the row by a write without a condition.
func releasePlainWrite(r casRequest) (store.CASResult, error) {
	err := writeRow(r.ctx, r.db, r.resource, r.to)
	return store.CASResult{Applied: err == nil}, err
}

// unknownAcquireOK takes a missing answer for a yes.
func unknownAcquireOK(r casRequest) (store.CASResult, error) {
	res, err := r.send()
	if store.OutcomeOf(err) == store.Unknown {
		return store.CASResult{Applied: true}, nil
	}
	return res, err
}

// unknownAcquireFails takes a missing answer for a no: what was executed is
// left behind.
func unknownAcquireFails(r casRequest) (store.CASResult, error) {
	res, err := r.send()
	if store.OutcomeOf(err) == store.Unknown {
		return res, &store.Error{Op: "acquire " + r.resource, Outcome: store.Fail, Cause: err}
	}
	return res, err
}

// driverReexecutes executes a request again when its answer is late, as a
// driver's retry policy does, and returns the last execution's answer as if it
// were the only one.
func driverReexecutes(r casRequest) (store.CASResult, error) {
	const executions = 10
	var last error
	for i := range executions {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), r.ttl/12)
		res, err := r.inner.CAS(ctx, r.resource, r.from, r.to, r.copyNo+i)
		cancel()
		if err == nil || store.OutcomeOf(err) == store.Fail {
			return res, err
		}
		last = err
	}
	return store.CASResult{}, last
}

// appliedIgnored does not look at the [applied] column.
func appliedIgnored(r casRequest) (store.CASResult, error) {
	res, err := r.send()
	res.Applied = err == nil
	return res, err
}

// rowTTL lets the database expire lock rows; the row's whole history of tokens
// goes with them.
func rowTTL(r casRequest) (store.CASResult, error) {
	set := []any{int(r.ttl / time.Second), r.to.Fence, r.to.Beat, r.to.Attempt, r.to.Holder, r.to.TTL.Milliseconds()}
	s := store.Statement{Partition: []any{r.resource}}
	if r.from == nil {
		s.CQL = `INSERT INTO locks (resource, fence, beat, attempt, holder, ttl_ms) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS USING TTL ?`
		s.Args = append(append([]any{r.resource}, set[1:]...), set[0])
	} else {
		s.CQL = `UPDATE locks USING TTL ? SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ?
			IF fence = ? AND beat = ? AND attempt = ? AND holder = ? AND ttl_ms = ?`
		s.Args = append(set, r.resource, r.from.Fence, r.from.Beat, r.from.Attempt, r.from.Holder, r.from.TTL.Milliseconds())
	}
	applied, _, err := r.db.CAS(r.ctx, r.copyNo, s)
	if err != nil || applied {
		return store.CASResult{Applied: applied}, err
	}
	row, err := r.inner.Read(r.ctx, r.resource, true)
	if err != nil {
		// Refused for certain: only what is there instead is not known.
		err = &store.Error{Op: "refused; read " + r.resource, Outcome: store.Fail, Cause: err}
	}
	return store.CASResult{Row: row}, err
}
