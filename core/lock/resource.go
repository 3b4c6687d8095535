package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"fencepost/core/store"
)

// resource is what a process knows of one lock row, and its queue of callers.
// Knowledge outlives calls: a cached row saves a read, and the time for which a
// version has been seen to stand still counts for the next caller. Stale
// knowledge is harmless: the compare-and-set that rests on it is rejected, and
// its answer is the newest knowledge there is.
type resource struct {
	name string

	mu    sync.Mutex
	known bool
	row   *store.Version
	// since is the return of the first look that showed row: from then on it
	// has been seen to stand still.
	since time.Duration
	// lease is this process's own grant of the row, until it ends.
	lease *Lease
	// pending is open while an acquire that its caller abandoned is settled.
	pending chan struct{}
	queue   []chan struct{} // queue[0] has the turn
	wake    chan struct{}   // capacity 1: news for who has the turn
	share   share

	// Guarded by the client's mutex: the callers and leases, and when the last went.
	refs      int
	idleSince time.Duration
}

func newResource(name string) *resource {
	return &resource{name: name, wake: make(chan struct{}, 1)}
}

// look returns what is known.
func (r *resource) look() (row *store.Version, since time.Duration, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row, r.since, r.known
}

// watched reports whether a caller that went so long ago may come back to see whether
// another's version has stood still for its ttl.
func (r *resource) watched(idle time.Duration) bool {
	row, _, _ := r.look()
	return !row.Free() && idle < sightingTTLs*row.TTL
}

// source says where knowledge of a row comes from.
type source int

const (
	plainRead source = iota // may be older than what is known
	conditional
	own // this process has just written it
)

// learn takes note of a row that was returned at the instant at.
func (r *resource) learn(row *store.Version, at time.Duration, from source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from == plainRead && r.known && row.Older(r.row) {
		return
	}
	if from != own && row != nil && row.Holder != "" && (!r.known || !store.Same(row, r.row)) {
		r.share.seenOther(at)
	}
	if r.known && store.Same(row, r.row) {
		return
	}
	r.known, r.row, r.since = true, row, at
	r.wakeLocked()
}

func (r *resource) wakeLocked() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// granted notes a grant to this process.
func (r *resource) granted(l *Lease, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease = l
	r.share.granted(now)
}

// ended notes that a lease of this process is over and its row, as far as this
// process is concerned, settled.
func (r *resource) ended(l *Lease, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == l {
		r.lease = nil
		r.share.ended(now)
		r.wakeLocked()
	}
}

func (r *resource) heldHere() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease != nil
}

// busy reports whether a caller of this process holds the lock or queues for it.
func (r *resource) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease != nil || len(r.queue) > 0
}

// enter queues and waits for the turn, first come, first served.
func (r *resource) enter(ctx context.Context) error {
	turn := make(chan struct{})
	r.mu.Lock()
	r.queue = append(r.queue, turn)
	first := len(r.queue) == 1
	r.mu.Unlock()
	if first {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		r.remove(turn)
		return context.Cause(ctx)
	}
}

// leave passes the turn on.
func (r *resource) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.popLocked()
}

func (r *resource) popLocked() {
	r.queue = r.queue[1:]
	if len(r.queue) > 0 {
		close(r.queue[0])
	}
}

// remove takes a waiter out; if it has just been given the turn, it passes it on.
func (r *resource) remove(turn chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch at := slices.Index(r.queue, turn); at {
	case 0:
		r.popLocked()
	default:
		r.queue = slices.Delete(r.queue, at, at+1)
	}
}

// setPending notes an abandoned acquire; the returned function ends it.
func (r *resource) setPending() (done func()) {
	ch := make(chan struct{})
	r.mu.Lock()
	r.pending = ch
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		if r.pending == ch {
			r.pending = nil
		}
		r.mu.Unlock()
		close(ch)
	}
}

// awaitPending waits until no abandoned acquire of this process is unsettled:
// so a process has at most one of them a resource, however many callers give up
// while the store does not answer.
func (r *resource) awaitPending(ctx context.Context) error {
	for {
		r.mu.Lock()
		ch := r.pending
		r.mu.Unlock()
		if ch == nil {
			return nil
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// standBack reports that it is time to let other processes have a go, and for
// how long.
func (r *resource) standBack(now, ttl time.Duration, backoff Backoff) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.share.standBack(now, ttl, len(r.queue), backoff)
}

// Fairness between processes. A local successor needs no look at the row and so
// nearly always beats the processes that poll it. So a process that has had the
// lock for some grants in a row, or for some time in a row, stands back once, for
// as long as the others' pause between looks may have grown by then: each of
// them looks once while the lock is free. Without any sign of another process
// it does so more rarely, as it then only costs.
const (
	grantsWithOthers = 4
	grantsAlone      = 64
	ttlsWithOthers   = 1
	ttlsAlone        = 4
	othersMemory     = time.Minute
)

// share is this process's part in the recent grants of one lock.
type share struct {
	// inRow counts grants to this process with no other's in between, since is
	// the instant of the first of them.
	inRow int
	since time.Duration
	// began is the instant of the newest grant, held how long it lasted.
	began, held time.Duration
	// othersAt is when another's grant was last seen, if others.
	others   bool
	othersAt time.Duration
}

func (s *share) granted(now time.Duration) {
	if s.inRow == 0 {
		s.since = now
	}
	s.inRow++
	s.began = now
}

func (s *share) ended(now time.Duration) { s.held = now - s.began }

func (s *share) seenOther(now time.Duration) {
	s.inRow, s.others, s.othersAt = 0, true, now
}

// standBack reports, and resets, that it is time to let others have a go, and
// for how long. ttl is the free row's; waiting callers of this process, the one
// that asks among them, want the lock.
func (s *share) standBack(now, ttl time.Duration, waiting int, backoff Backoff) (time.Duration, bool) {
	grants, ttls := grantsAlone, time.Duration(ttlsAlone)
	switch {
	case s.others && now-s.othersAt < othersMemory:
		grants, ttls = grantsWithOthers, ttlsWithOthers
	case waiting < 2:
		return 0, false // nobody waits here, nobody was seen elsewhere
	}
	if s.inRow == 0 || s.inRow < grants && now-s.since < ttls*ttl {
		return 0, false
	}
	s.inRow = 0
	// Their pause began at backoff.Min when they saw the last grant and doubled
	// with each look, up to pollLimit: it is about as long as they have looked.
	return min(s.held, pollLimit(ttl, backoff)), true
}

// pollLimit is the longest pause between two looks at a held row: 2 s, and an
// eighth of the row's ttl at most.
func pollLimit(ttl time.Duration, backoff Backoff) time.Duration {
	return min(backoff.Max, ttl/8)
}
