package engine

import (
	"slices"
	"sync"
)

// slots shares the executor's free slots among the process's shards. A shard knows
// first that a run of its own has ended, and would have the slot before any other has
// looked: a backlog in one shard would keep all others from running anything.
type slots struct {
	mu sync.Mutex
	// short are the owners that could use more than they got, the longest first.
	short []*owner
}

// reserve takes up to n free slots for o. One is left for each other that is short of
// them and can use it now; who has waited longest has the first. Asking for none gives
// up one's place.
func (e *Engine) reserve(o *owner, n int) (mine int) {
	s := &e.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	o.ready.Store(true)
	place := slices.Index(s.short, o)
	var others []*owner
	first := true
	for at, x := range s.short {
		if x != o && x.ready.Load() {
			others = append(others, x)
			first = first && place >= 0 && place < at
		}
	}
	got := 0
	if n > 0 {
		got = e.o.Executor.Reserve(n + len(others))
		mine = min(n, max(got-len(others), 0))
		if mine == 0 && first {
			mine = min(got, 1)
		}
	}
	if place >= 0 && (mine > 0 || n == 0) { // else it keeps its place
		s.short = slices.Delete(s.short, place, place+1)
		place = -1
	}
	if mine < n && place < 0 {
		s.short = append(s.short, o)
	}
	if got > mine {
		e.o.Executor.Release(got - mine)
		if len(others) > 0 {
			// A timer, so that in a simulation it does not run at the same instant.
			e.o.Clock.AfterFunc(1, others[0].wake)
		}
	}
	return mine
}
