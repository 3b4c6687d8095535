package field

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/bench"
	"fencepost/bench/locks"
	"fencepost/core/store"
	"fencepost/harness/env/cluster/servers"
)

// Who does not get a lock tries again after a wait, as clients of runs do.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = 250 * time.Millisecond
)

// shared is the lock that many want; those before it are of one client each.
const shared = clients

// lockName is a lock's.
func lockName(n int) string { return fmt.Sprintf("lock-%d", n) }

// asked takes and gives back locks.
type asked interface {
	// ask has a client take a lock, once, or give it back.
	ask(client int, o order) (done bool, err error)
}

// arm has a program take and give back locks.
type arm struct {
	name    string
	program *program
	store   *servers.Cluster // nil: none
	grants  atomic.Int64
	inside  [shared + 1]atomic.Int32 // how many have a lock, as the harness was told

	mu    sync.Mutex
	found []string
}

// Window implements bench.Subject.
func (a *arm) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	var err error
	if w.Clients, err = bench.Tree(a.program.proc.PID()); err != nil {
		return bench.Sample{}, err
	}
	w.PIDs = nil
	if a.store != nil {
		var roots []int
		for _, n := range a.store.Nodes() {
			roots = append(roots, n.PID())
		}
		if w.PIDs, err = bench.Tree(roots...); err != nil {
			return bench.Sample{}, err
		}
	}
	return w.Loop(ctx, &cycler{arm: a, asked: a.program, one: w.Arm.Contention == string(locks.High)})
}

// Close implements bench.Subject.
func (a *arm) Close(context.Context) error { return nil }

// wrong is what was found.
func (a *arm) wrong() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.found)
}

// cycler does lock cycles.
type cycler struct {
	*arm
	asked
	one bool // all want the same
}

// Traffic implements bench.Operator: what is sent is not counted.
func (c *cycler) Traffic() bench.Traffic { return bench.Traffic{} }

// Operate implements bench.Operator.
func (c *cycler) Operate(ctx context.Context, th *bench.Thread, over func() bool) bench.End {
	n := th.Number
	if c.one {
		n = shared
	}
	began := time.Now()
	for wait := firstWait; ; wait = min(wait*3/2, lastWait) {
		taken, err := c.ask(th.Number, order{Acquire: lockName(n)})
		if err != nil {
			return bench.End{Outcome: store.Unknown, Err: err}
		}
		if taken {
			break
		}
		if over() || ctx.Err() != nil {
			return bench.End{GaveUp: true}
		}
		time.Sleep(time.Duration((0.5 + th.Rng.Float64()) * float64(wait)))
	}
	held := time.Now()
	c.hold(n)
	released, err := c.ask(th.Number, order{Release: lockName(n)})
	switch {
	case err != nil:
		return bench.End{Outcome: store.Unknown, Err: err}
	case !released:
		return bench.End{Outcome: store.Fail, Err: fmt.Errorf("%s: it was lost before it was given back", lockName(n))}
	}
	return bench.End{Outcome: store.OK, Parts: []time.Duration{held.Sub(began), time.Since(held)}}
}

// hold has a lock for a moment, in which others get their turn, and looks whether anybody else has it.
func (c *cycler) hold(n int) {
	c.grants.Add(1)
	if others := c.inside[n].Add(1) - 1; others > 0 {
		c.mu.Lock()
		c.found = append(c.found, fmt.Sprintf("%s: %s was given to a client while %d had it", c.name, lockName(n), others))
		c.mu.Unlock()
	}
	runtime.Gosched()
	c.inside[n].Add(-1)
}
