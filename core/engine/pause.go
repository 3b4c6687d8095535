package engine

import (
	"context"
	"fmt"

	"fencepost/core/job"
	"fencepost/core/store"
)

// SetPaused pauses a shard, or resumes it, in one tick. While a shard is paused no run
// of it is claimed; what runs goes on, jobs are taken and wait, schedules fire. It stays
// so for its next owner. duplicate: it was so already. Repeating is safe.
//
// This process must own the shard, else the cause is ErrNotOwner. The error is a
// *CommandError, or a *job.InvalidError.
func (e *Engine) SetPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error) {
	s := e.shards[id]
	if s == nil {
		return false, &job.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is not one of this engine's", id)}
	}
	i := &intent{kind: doPause, pause: on, shard: id, wait: newWaiter()}
	a, err := e.ask(ctx, s, i)
	return a.duplicate, err
}

// PauseName is what the command is called.
func PauseName(on bool) string {
	if on {
		return "pause"
	}
	return "resume"
}

// takePause plans the first pause or resumption that waits, before all else: it holds
// for the claims of its own batch.
func (m *machine) takePause(p *plan, now moment) {
	taken := false
	m.queue.commands.keep(func(i *intent) bool {
		switch {
		case i.kind != doPause || taken:
			return true
		case i.pause == m.head.Pause.On:
			m.acknowledge(i, true)
		case i.wait.rides():
			taken = true
			m.add(p, i, now)
		}
		return false
	})
}

// after is what a header's pause is then.
func (i *intent) after(was store.Pause, now moment) store.Pause {
	if i.pause {
		return store.Pause{On: true, Since: now.wall}
	}
	return store.Pause{Since: was.Since, Lasted: max(now.wall-was.Since, 0)}
}

// paused takes the consequences of a pause: what waits is left in the store, however
// much more comes, and read again when it may run. Nothing is kept until then.
func (m *machine) paused() {
	if !m.head.Pause.On {
		m.window.behind = true
		return
	}
	for _, h := range []*entryHeap{&m.waiting.resting, &m.waiting.dated, &m.waiting.ready} {
		for _, e := range h.list {
			m.forget(e.job.ID)
		}
	}
	watched := m.waiting.watched
	m.waiting = newWaiting()
	m.waiting.watched = watched
	m.window.rewind(m.head.LowPending)
}

// rewind begins to read pending rows again, from a low mark on.
func (w *window) rewind(low int64) {
	w.cursor = store.Key{Kind: store.KindPending, At: low, ID: afterAll}
	w.complete, w.void, w.left = false, w.loading, noneLeft
}

// held is for how much of the time since a job was due its shard was paused, in ms, as
// far as the last pause goes.
func held(p store.Pause, due int64) int64 {
	return max(p.Since+p.Lasted-max(p.Since, due), 0)
}
