package sim

import "maps"

// Level is the consistency of a session's plain reads of rows, when they are stale.
type Level int

// The levels.
const (
	// Quorum shows every change that was answered. The last one may be hidden from it if its
	// coordinator timed out, until the next conditional request or serial read brings it to a
	// quorum.
	Quorum Level = iota
	// One asks a replica that lacks up to maxLag changes. The core does not: to do so is a mistake.
	One
)

// maxLag is how many changes a replica lacks at most.
const maxLag = 4

// Levels are the levels of reads of shards' rows and of inboxes.
type Levels struct{ Rows, Inbox Level }

// ReadAt sets the levels, before the first request.
func (p *Session) ReadAt(l Levels) { p.levels = l }

// hides is how many of the last changes a read does not show; open: the last one is not at a
// quorum.
type hides func(open bool) int

func nothing(bool) int { return 0 }

// hides is that of a read with this fate.
func (p *Session) hides(l Level, f fate) hides {
	return func(open bool) int {
		switch {
		case f.stale && l == One:
			return f.lag
		case f.stale && open:
			return 1
		}
		return 0
	}
}

// undo is what the last changes of some rows replaced, the last of them at the end; nil: nothing.
type undo[K comparable, R any] struct {
	changes []map[K]*R
	open    bool
}

// begin begins a change.
func (u *undo[K, R]) begin(open bool) {
	u.changes = append(u.changes, map[K]*R{})
	u.changes = u.changes[max(0, len(u.changes)-maxLag):]
	u.open = open
}

// note notes a row that the change is about to replace.
func (u *undo[K, R]) note(rows map[K]R, k K) {
	last := u.changes[len(u.changes)-1]
	if _, noted := last[k]; noted {
		return
	}
	last[k] = nil
	if row, ok := rows[k]; ok {
		last[k] = &row
	}
}

// shown are the rows without the changes that are hidden.
func (u *undo[K, R]) shown(s *Store, rows map[K]R, hide hides) map[K]R {
	n := min(hide(u.open), len(u.changes))
	if n == 0 {
		return rows
	}
	s.met["hidden"]++
	rows = maps.Clone(rows)
	for i := len(u.changes) - 1; i >= len(u.changes)-n; i-- {
		for k, row := range u.changes[i] {
			if delete(rows, k); row != nil {
				rows[k] = *row
			}
		}
	}
	return rows
}

// Met is how often copies of requests arrived twice ("doubled"), and plain reads did not show
// the last changes ("hidden").
func (s *Store) Met() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.met)
}
