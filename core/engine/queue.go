package engine

import "container/heap"

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

// waiting holds pending entries: those that are not due by their due time, those
// that are by priority.
type waiting struct{ future, ready entryHeap }

func newWaiting() waiting {
	return waiting{
		future: entryHeap{less: func(a, b *entry) bool {
			if a.due != b.due {
				return a.due < b.due
			}
			return a.job.ID < b.job.ID
		}},
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

func (w *waiting) add(e *entry) { heap.Push(&w.future, e) }

// due moves what is due by now to the ready ones and returns how many those are.
func (w *waiting) due(now int64) int {
	for len(w.future.list) > 0 && w.future.list[0].due <= now {
		heap.Push(&w.ready, heap.Pop(&w.future))
	}
	return len(w.ready.list)
}

// first is the next of the ready ones, of which there must be one.
func (w *waiting) first() *entry { return w.ready.list[0] }

func (w *waiting) pop() *entry { return heap.Pop(&w.ready).(*entry) }

// remove takes an entry out, and reports whether it was there.
func (w *waiting) remove(e *entry) bool {
	for _, h := range []*entryHeap{&w.future, &w.ready} {
		if e.place < len(h.list) && h.list[e.place] == e {
			heap.Remove(h, e.place)
			return true
		}
	}
	return false
}

// next is when the first of those that are not due yet will be.
func (w *waiting) next() (int64, bool) {
	if len(w.future.list) == 0 {
		return 0, false
	}
	return w.future.list[0].due, true
}
