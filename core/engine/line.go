package engine

import (
	"slices"
	"sync/atomic"

	"fencepost/core/job"
)

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
