package engine

import (
	"container/heap"
	"math"
	"slices"
)

// entryHeap orders entries; each knows its place, so that it can be removed.
type entryHeap struct {
	list []*entry
	less func(a, b *entry) bool
}

func (h *entryHeap) Len() int           { return len(h.list) }
func (h *entryHeap) Less(i, j int) bool { return h.less(h.list[i], h.list[j]) }
func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	e.place = len(h.list)
	h.list = append(h.list, e)
}
func (h *entryHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list[len(h.list)-1] = nil
	h.list = h.list[:len(h.list)-1]
	return last
}

// Swap implements heap.Interface.
func (h *entryHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].place, h.list[j].place = i, j
}

// waiting holds pending entries: those that wait by when that is over, those whose
// own time has not come by that, those that are due by priority.
type waiting struct {
	resting, dated, ready entryHeap
	// ripened are those that became due, in that order, if somebody wants to know how long
	// they wait then; some may be claimed since.
	ripened []ripened
	watched bool
}

// ripened is an entry that became due, for its next attempt, at an instant of the
// monotonic clock.
type ripened struct {
	e       *entry
	at      int64
	attempt int
}

// waits reports whether the entry has not been claimed since.
func (w *waiting) waits(r ripened) bool { return w.isReady(r.e) && r.e.attempt == r.attempt }

func newWaiting() waiting {
	by := func(at func(*entry) int64) entryHeap {
		return entryHeap{less: func(a, b *entry) bool {
			if at(a) != at(b) {
				return at(a) < at(b)
			}
			return a.job.ID < b.job.ID
		}}
	}
	return waiting{
		resting: by(func(e *entry) int64 { return e.ripe }),
		dated:   by(func(e *entry) int64 { return e.own }),
		ready: entryHeap{less: func(a, b *entry) bool {
			switch {
			case a.job.Priority != b.job.Priority:
				return a.job.Priority > b.job.Priority
			case a.due != b.due:
				return a.due < b.due
			}
			return a.job.ID < b.job.ID
		}},
	}
}

func (w *waiting) add(e *entry) { heap.Push(&w.resting, e) }

// due moves what is due by now to the ready ones and returns how many those are.
func (w *waiting) due(now moment) int {
	for len(w.resting.list) > 0 && w.resting.list[0].ripe <= now.mono {
		heap.Push(&w.dated, heap.Pop(&w.resting))
	}
	for len(w.dated.list) > 0 && w.dated.list[0].within(now, 0) {
		e := heap.Pop(&w.dated).(*entry)
		e.own = 0
		heap.Push(&w.ready, e)
		if w.watched {
			w.ripened = append(w.ripened, ripened{e, now.mono, e.attempt})
			if len(w.ripened) > 64+2*len(w.ready.list) { // behind one that is in no hurry
				w.ripened = slices.DeleteFunc(w.ripened, func(r ripened) bool { return !w.waits(r) })
			}
		}
	}
	return len(w.ready.list)
}

// first is the next of the ready ones, of which there must be one.
func (w *waiting) first() *entry { return w.ready.list[0] }

func (w *waiting) pop() *entry { return heap.Pop(&w.ready).(*entry) }

// remove takes an entry out, and reports whether it was there.
func (w *waiting) remove(e *entry) bool {
	for _, h := range []*entryHeap{&w.resting, &w.dated, &w.ready} {
		if e.place < len(h.list) && h.list[e.place] == e {
			heap.Remove(h, e.place)
			return true
		}
	}
	return false
}

// next is in how many ms something may have to be moved.
func (w *waiting) next(now moment) (left int64, ok bool) {
	left = math.MaxInt64
	if len(w.resting.list) > 0 {
		left = w.resting.list[0].ripe - now.mono
	}
	if len(w.dated.list) > 0 {
		left = min(left, w.dated.list[0].own-now.wall)
	}
	return left, left < math.MaxInt64
}
