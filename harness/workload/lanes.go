package workload

import (
	"context"
	"fmt"
	"sync"

	"fencepost/core/job"
)

// lane is the line of one run: what it does follows one after the other.
type lane struct {
	proc string
	// decided is when the run last looked whether its shard is trusted before it
	// decided to act, wallMS what the worker's wall clock showed at its begin.
	decided, wallMS int64
	started         bool // its handler was called
}

// lanes hands out lanes, the names of free ones again, so that there are no more
// of them than runs at once.
type lanes struct {
	life string
	mu   sync.Mutex
	made int
	free []string
	runs map[runKey]*lane
}

// runKey names a run: ids are unique within their shard.
type runKey struct {
	issuer string
	run    job.RunID
}

func newLanes(life string) *lanes { return &lanes{life: life, runs: map[runKey]*lane{}} }

func (l *lanes) begin(run runKey) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		l.runs[run] = &lane{proc: l.free[n-1]}
		l.free = l.free[:n-1]
		return l.runs[run]
	}
	l.made++
	l.runs[run] = &lane{proc: fmt.Sprintf("%s/r%d", l.life, l.made)}
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
		l.free = append(l.free, at.proc)
	}
}

type laneKey struct{}

func withLane(ctx context.Context, l *lane) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}
