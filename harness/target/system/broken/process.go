package broken

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

func init() {
	plant("dies-steady", only(workload.Hooks{Locker: diesSteady}))
	plant("dies-draining", only(workload.Hooks{Locker: diesDraining}))
	plant("exits-1", only(workload.Hooks{Locker: exitsOne}))
	plant("never-ends", only(workload.Hooks{Locker: neverEnds}))
	plant("leaks", only(workload.Hooks{Locker: leaks}))
	plant("jobs-leaks", only(workload.Hooks{Handler: jobsLeaks}))
	plant("recorder-drops", only(workload.Hooks{Recorder: recorderDrops}))
	plant("recorder-late-calls", only(workload.Hooks{Recorder: lateCalls}))
	plant("recorder-unknown-fail", only(workload.Hooks{Recorder: unknownAsFail}))
	plant("pins-coordinator", onOwn(pinsCoordinator))
	plant("stops-when-node-away", onOwn(stopsWhenNodeAway))
}

// fallenWorker is the one that dies at work; the others show that work goes on without it.
const fallenWorker = "w1"

// enough is with how many grants it dies: not at its start.
const enough = 40

// diesSteady keeps its grants in a table that has room for some.
func diesSteady(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	var table [enough]workload.Lease
	return fallen(cfg, inner, func(n int, l workload.Lease) { table[n] = l })
}

// exitsOne takes an error that passes for one that ends everything.
func exitsOne(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	return fallen(cfg, inner, func(n int, _ workload.Lease) {
		if n == enough {
			fmt.Fprintln(os.Stderr, "level=ERROR msg=\"cannot report metrics: connection refused\"")
			os.Exit(1)
		}
	})
}

// fallen has one worker call granted with each grant and its number.
func fallen(cfg workload.Config, inner workload.Locker, granted func(n int, l workload.Lease)) workload.Locker {
	if cfg.Worker != fallenWorker {
		return inner
	}
	var grants atomic.Int64
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) {
		granted(int(grants.Add(1))-1, l)
		return l, nil
	}}
}

// closing ends a locker in its own way.
type closing struct {
	workload.Locker
	end func()
}

func (c closing) Close(ctx context.Context) error {
	err := c.Locker.Close(ctx)
	c.end()
	return err
}

// diesDraining tells a background task to end that has been told already.
func diesDraining(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	stop := make(chan struct{})
	return closing{inner, func() {
		close(stop)
		close(stop)
	}}
}

// neverEnds waits for a background task that nobody tells to end.
func neverEnds(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	done := make(chan struct{})
	return closing{inner, func() { <-done }}
}

// leakEvery is how many calls of leak go by between two that leave something behind, so that a machine's
// limit on open files lets a run of minutes end; leakSize is how much memory each of these takes.
const (
	leakEvery = 5
	leakSize  = 200 << 10
)

// leavesBehind returns a function that opens a file, and has a goroutine wait for a change of it that never
// comes, with each leakEvery-th call.
func leavesBehind() (leak func() error) {
	var calls atomic.Int64
	never := make(chan struct{})
	return func() error {
		if calls.Add(1)%leakEvery != 0 {
			return nil
		}
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		seen := slices.Repeat([]byte{1}, leakSize)
		go func() {
			<-never
			_, _ = f.Read(seen)
		}()
		return nil
	}
}

// leaks does so with grants.
func leaks(_ workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
	leak := leavesBehind()
	return locker{inner, func(_ context.Context, l workload.Lease) (workload.Lease, error) { return l, leak() }}
}

// jobsLeaks does so with runs.
func jobsLeaks(_ workload.Config, _ *cassandra.DB, inner worker.Handler) worker.Handler {
	leak := leavesBehind()
	return func(ctx context.Context, t *worker.Task) error {
		return errors.Join(leak(), inner(ctx, t))
	}
}

// recorder records otherwise than the one inside.
type recorder struct {
	workload.Recorder
	record func(inner workload.Recorder, e history.Event) int64
}

func (r recorder) Record(e history.Event) int64 { return r.record(r.Recorder, e) }

// recorderDrops loses every 50th operation, invocation and end.
func recorderDrops(_ workload.Config, inner workload.Recorder) workload.Recorder {
	return recorder{inner, func(inner workload.Recorder, e history.Event) int64 {
		if e.ID > 0 && e.ID%50 == 0 {
			return inner.Now()
		}
		return inner.Record(e)
	}}
}

// unknownAsFail records what nobody knows as what did not happen.
func unknownAsFail(_ workload.Config, inner workload.Recorder) workload.Recorder {
	return recorder{inner, func(inner workload.Recorder, e history.Event) int64 {
		if e.Type == history.Unknown {
			e.Type, e.ServerTimeout = history.Fail, false
		}
		return inner.Record(e)
	}}
}

// lateCalls dates the calls of a lock operation when its answer is there.
func lateCalls(_ workload.Config, inner workload.Recorder) workload.Recorder {
	return &lateRecorder{Recorder: inner, open: map[int64]history.Event{}}
}

type lateRecorder struct {
	workload.Recorder
	mu   sync.Mutex
	open map[int64]history.Event
}

func (l *lateRecorder) Record(e history.Event) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Op {
	case history.OpAcquire, history.OpRenew, history.OpRelease:
	default:
		return l.Recorder.Record(e)
	}
	if e.Type == history.Invoke {
		l.open[e.ID] = e
		return l.Now()
	}
	if inv, ok := l.open[e.ID]; ok {
		delete(l.open, e.ID)
		l.Recorder.Record(inv)
	}
	return l.Recorder.Record(e)
}

// pinned opens a session with one node only, by the worker's own link.
func (o *ownSession) pinned(ctx context.Context, ip string) (*cassandra.DB, error) {
	c, err := o.cfg.Session(o.cfg.LockNodes, o.rec)
	if err != nil {
		return nil, err
	}
	c.Pin, c.ContactPoints, c.NumConns = ip, []string{ip}, 1
	return cassandra.Open(ctx, c)
}

// pinsCoordinator asks one node about every lock, the one that is first for the first
// lock, and waits for it whatever becomes of it.
func pinsCoordinator(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Locks: func(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
			ip, err := db.Coordinator(context.Background(), cfg.Locks[0])
			if err == nil {
				db, err = o.pinned(context.Background(), ip)
			}
			if err != nil {
				return unopened{err}
			}
			return cassandra.NewLocks(db)
		},
	}
}

// unopened are the locks of a session that could not be opened.
type unopened struct{ err error }

func (u unopened) CAS(context.Context, string, *store.Version, store.Version, int) (store.CASResult, error) {
	return store.CASResult{}, notOpened(u.err)
}

func (u unopened) Read(context.Context, string, bool) (*store.Version, error) {
	return nil, notOpened(u.err)
}

// stopsWhenNodeAway asks for no lock while a node does not answer.
func stopsWhenNodeAway(o *ownSession) workload.Hooks {
	return workload.Hooks{
		Locker: func(cfg workload.Config, _ *cassandra.DB, inner workload.Locker) workload.Locker {
			l := &carefulLocker{Locker: inner}
			ctx, cancel := context.WithCancel(context.Background())
			l.stop = cancel
			for _, ip := range slices.Sorted(maps.Keys(o.cfg.LockNodes)) {
				db, err := o.pinned(ctx, ip)
				if err != nil {
					continue // it was away from the start: nobody is asked about it
				}
				away := &atomic.Bool{}
				l.away = append(l.away, away)
				l.wg.Go(func() { l.watch(ctx, db, away) })
			}
			return l
		},
	}
}

type carefulLocker struct {
	workload.Locker
	away []*atomic.Bool // of nodes that answered at the start
	stop func()
	wg   sync.WaitGroup
}

// patience is how long a node may take to answer, and pulse how often it is asked.
const patience, pulse = time.Second, 200 * time.Millisecond

func (l *carefulLocker) watch(ctx context.Context, db *cassandra.DB, away *atomic.Bool) {
	defer db.Close()
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, patience)
		_, err := db.Query(asked, false, `SELECT release_version FROM system.local`)
		cancel()
		away.Store(err != nil)
		_ = clock.Go().Sleep(ctx, pulse)
	}
}

func (l *carefulLocker) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	l.await(ctx)
	return l.Locker.Acquire(ctx, r)
}

func (l *carefulLocker) TryAcquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	l.await(ctx)
	return l.Locker.TryAcquire(ctx, r)
}

// await waits until every node answers.
func (l *carefulLocker) await(ctx context.Context) {
	for ctx.Err() == nil && slices.ContainsFunc(l.away, func(a *atomic.Bool) bool { return a.Load() }) {
		_ = clock.Go().Sleep(ctx, pulse)
	}
}

func (l *carefulLocker) Close(ctx context.Context) error {
	l.stop()
	l.wg.Wait()
	return l.Locker.Close(ctx)
}
