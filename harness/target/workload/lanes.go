package workload

import (
	"context"
	"fmt"
	"sync"

	"fencepost/core/job"
	"fencepost/core/worker"
)

// lane is the line of one run: what it does follows one after the other.
type lane struct {
	proc string
	// decided is when the run last looked whether its shard is trusted before it
	// decided to act, wallMS what the worker's wall clock showed at its begin.
	decided, wallMS int64
	started         bool // its handler was called
	lent            bool // proc is somebody else's to hand out
	// task is the run itself, of an order.
	task *worker.Task
}

// names hands out procs of a life, PREFIX1, PREFIX2 …, free ones again, so that there
// are no more of them than are in use at once. Not safe for concurrent use.
type names struct {
	prefix string // "w1.1/r"
	made   int
	free   []string
}

func (n *names) take() string {
	if last := len(n.free) - 1; last >= 0 {
		name := n.free[last]
		n.free = n.free[:last]
		return name
	}
	n.made++
	return fmt.Sprint(n.prefix, n.made)
}

func (n *names) give(name string) { n.free = append(n.free, name) }

func (n *names) used() int { return n.made - len(n.free) }

// lanes hands out lanes to runs.
type lanes struct {
	mu    sync.Mutex
	names names
	runs  map[runKey]*lane
}

// runKey names a run: ids are unique within their shard.
type runKey struct {
	issuer string
	run    job.RunID
}

func newLanes(life string) *lanes {
	return &lanes{names: names{prefix: life + "/r"}, runs: map[runKey]*lane{}}
}

func (l *lanes) begin(run runKey) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run] = &lane{proc: l.names.take()}
	return l.runs[run]
}

// enter gives a run the lane of a proc that the scheduler has named itself.
func (l *lanes) enter(run runKey, proc string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run] = &lane{proc: proc, lent: true}
	return l.runs[run]
}

// of returns a run's lane, nil if it has not begun.
func (l *lanes) of(run runKey) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[run]
}

// end gives a run's lane back, after its last event.
func (l *lanes) end(run runKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.runs[run]; at != nil {
		delete(l.runs, run)
		if !at.lent {
			l.names.give(at.proc)
		}
	}
}

type laneKey struct{}

func withLane(ctx context.Context, l *lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}
