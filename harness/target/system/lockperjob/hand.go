package lockperjob

import (
	"sync"

	"fencepost/core/job"
)

// hand is what a process does not need to take up: the jobs that it has in hand, and
// pending rows of those whose locks others hold, until they expire. (A retry has
// another row.)
type hand struct {
	mu   sync.Mutex
	mine map[job.ID]bool
	held map[Pending]int64 // until, ms since 1970
}

func newHand() *hand { return &hand{mine: map[job.ID]bool{}, held: map[Pending]int64{}} }

// take reports whether a job is to be taken up, and then has it in hand. now is the
// wall clock's time in ms since 1970.
func (h *hand) take(p Pending, now int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mine[p.ID] || h.held[p] > now {
		return false
	}
	delete(h.held, p)
	h.mine[p.ID] = true
	return true
}

// leave remembers that somebody else has the lock of the row's job.
func (h *hand) leave(p Pending, until int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[p] = until
}

func (h *hand) drop(p Pending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mine, p.ID)
}

// forget drops what has expired: most jobs that others hold never come up again.
func (h *hand) forget(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, until := range h.held {
		if until <= now {
			delete(h.held, p)
		}
	}
}
