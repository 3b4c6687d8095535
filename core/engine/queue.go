package engine

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"fencepost/core/job"
)

// placed is what knows where in its heap it is.
type placed interface {
	comparable
	spot() *int
}

// places is a heap of what can be removed from the middle of it.
type places[T placed] struct {
	list []T
	less func(a, b T) bool
}

func (h *places[T]) Len() int           { return len(h.list) }
func (h *places[T]) Less(i, j int) bool { return h.less(h.list[i], h.list[j]) }

// Push implements heap.Interface.
func (h *places[T]) Push(x any) {
	e := x.(T)
	*e.spot() = len(h.list)
	h.list = append(h.list, e)
}

// Pop implements heap.Interface.
func (h *places[T]) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = slices.Delete(h.list, len(h.list)-1, len(h.list))
	return last
}

// Swap implements heap.Interface.
func (h *places[T]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.list[i].spot(), *h.list[j].spot() = i, j
}

func (h *places[T]) has(e T) bool {
	at := *e.spot()
	return at < len(h.list) && h.list[at] == e
}

func (e *entry) spot() *int { return &e.place }

// waiting holds pending entries: those that wait by when that is over, those whose
// own time has not come by that, those that are due by priority.
type waiting struct {
	resting, dated, ready places[*entry]
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
func (w *waiting) waits(r ripened) bool { return w.ready.has(r.e) && r.e.attempt == r.attempt }

func newWaiting() waiting {
	by := func(at func(*entry) int64) places[*entry] {
		return places[*entry]{less: func(a, b *entry) bool {
			if at(a) != at(b) {
				return at(a) < at(b)
			}
			return a.job.ID < b.job.ID
		}}
	}
	return waiting{
		resting: by(func(e *entry) int64 { return e.ripe }),
		dated:   by(func(e *entry) int64 { return e.own }),
		ready: places[*entry]{less: func(a, b *entry) bool {
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

func (w *waiting) all() []*places[*entry] { return []*places[*entry]{&w.resting, &w.dated, &w.ready} }

func (w *waiting) add(e *entry) { heap.Push(&w.resting, e) }

// due moves what is due by now to the ready ones and returns how many those are.
func (w *waiting) due(now moment) int {
	for len(w.resting.list) > 0 && w.resting.list[0].ripe <= now.mono {
		heap.Push(&w.dated, heap.Pop(&w.resting))
	}
	for len(w.dated.list) > 0 && w.dated.list[0].within(now, 0) {
		e := heap.Pop(&w.dated).(*entry)
		e.own, e.since = 0, now.mono
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
	for _, h := range w.all() {
		if h.has(e) {
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

// lines are what waits for a batch. Claims are not among it: they are made of the ready
// entries when a batch is planned.
type lines struct {
	ends, commands, rest line
}

// line is one of them, in order of arrival. A plan looks at so many as it has room for, not
// at the whole line.
type line struct {
	// stalled were looked at before and had to wait for something else than room.
	stalled, next []*intent
	// gone is how many callers of those in next have gone away.
	gone int
}

func (l *line) len() int { return len(l.stalled) + len(l.next) }

func (q *lines) len() int { return q.ends.len() + q.commands.len() + q.rest.len() }

func (q *lines) all() []*line { return []*line{&q.ends, &q.commands, &q.rest} }

// of is the line of an intent.
func (q *lines) of(i *intent) *line {
	switch {
	case i.kind == doFinish:
		return &q.ends
	case i.isCommand():
		return &q.commands
	}
	return &q.rest
}

// push lets an intent wait behind all others of its line.
func (m *machine) push(i *intent) {
	l := m.queue.of(i)
	l.next = append(l.next, i)
}

// keep filters a line.
func (l *line) keep(f func(*intent) bool) {
	not := func(i *intent) bool { return !f(i) }
	l.stalled, l.next = slices.DeleteFunc(l.stalled, not), slices.DeleteFunc(l.next, not)
}

// waiter is a caller who waits for an intent.
type waiter struct {
	done  chan ack
	state atomic.Int32
	// budget counts the callers of its kind.
	budget *atomic.Int64
}

// The states of a waiter. From waiting its caller may go away, and knows that nothing was
// done.
const (
	isWaiting int32 = iota
	isRiding        // in a batch, or its run was told to end
	isGone
	isTold
)

func newWaiter() *waiter { return &waiter{done: make(chan ack, 1)} }

// rides reports whether the caller still waits, who cannot go away for sure from now on.
func (w *waiter) rides() bool {
	return w == nil || w.state.CompareAndSwap(isWaiting, isRiding) || w.state.Load() == isRiding
}

// waits: what did ride waits again.
func (w *waiter) waits() {
	if w != nil {
		w.state.CompareAndSwap(isRiding, isWaiting)
	}
}

// goes reports whether the caller went away in time.
func (w *waiter) goes() bool {
	if !w.state.CompareAndSwap(isWaiting, isGone) {
		return false
	}
	w.release()
	return true
}

func (w *waiter) release() {
	if w.budget != nil {
		w.budget.Add(-1)
	}
}

// tell answers a caller who has not gone.
func (w *waiter) tell(a ack) {
	if w != nil && w.state.Swap(isTold) != isGone {
		w.release()
		w.done <- a
	}
}

func (w *waiter) gone() bool { return w != nil && w.state.Load() == isGone }

// left takes note of a caller who has gone, of an intent that waits. They are taken out
// when they are every second one.
func (m *machine) left(i *intent) {
	l := m.queue.of(i)
	if l.gone++; 2*l.gone <= l.len() {
		return
	}
	var out []*intent
	l.keep(func(i *intent) bool {
		if i.wait.gone() {
			out = append(out, i)
			return false
		}
		return true
	})
	for _, i := range out {
		m.gone(i)
	}
	l.gone = 0
}

// unpark takes out a cancellation that waits for the end of a run, as its caller is gone.
func (m *machine) unpark(w *waiter) {
	m.parked = slices.DeleteFunc(m.parked, func(i *intent) bool {
		if i.wait != w {
			return false
		}
		w.tell(ack{})
		return true
	})
}

// asked reports whether a command about the job waits.
func (m *machine) asked(id job.ID) bool {
	about := func(i *intent) bool { return i.job() == id && !i.wait.gone() }
	return slices.ContainsFunc(m.queue.commands.stalled, about) || slices.ContainsFunc(m.queue.commands.next, about)
}

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
