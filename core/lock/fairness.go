package lock

import "time"

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
