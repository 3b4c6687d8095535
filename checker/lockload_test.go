package checker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker/past"
	"fencepost/core/lock"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/sim"
	"fencepost/harness/record/history"
	"fencepost/harness/target/simrun"
	"fencepost/harness/target/system/broken"
	"fencepost/harness/target/workload"
	"fencepost/internal/race"
)

// The parts of the lock workload, each with what it needs to show.
var (
	ranges    = workload.LockLoad{TTLFrom: time.Second, HoldFrom: 10 * time.Millisecond, ThinkFrom: 10 * time.Millisecond}
	impatient = workload.LockLoad{Impatient: 0.4, Try: 0.3}
	several   = workload.LockLoad{AtOnce: 3}
	reopening = workload.LockLoad{Reopen: 5 * time.Second}
	renewing  = workload.LockLoad{Renew: 0.5}
	lateLook  = workload.LockLoad{LookDelay: 900 * time.Millisecond, AtOnce: 2}
)

// stands is of which loads one in so many requests finds its process standing still: what they are to
// show are losses and takeovers, which else come by luck.
func stands(load workload.LockLoad) int {
	switch load {
	case lateLook:
		return 20
	case renewing:
		return 7
	}
	return 0
}

// lockRun is a run of the production client under a part of the workload.
func lockRun(seed uint64, load workload.LockLoad, hold time.Duration) simrun.Config {
	c := simrun.Draw(seed)
	c.TTL, c.Workers, c.Clients, c.Load, c.Hold, c.Stands = 6*time.Second, 3, 2, load, hold, stands(load)
	// A try may be refused by what a stale read shows: QUORUM shows none.
	c.Faults.StaleRead, c.Faults.LateBy = 0, 2*c.TTL
	switch c.Locks = 1; {
	case load.LookDelay > 0 && load.TTLFrom == 0: // a watch by each of many processes, in a sound network
		c.Locks, c.Workers, c.Faults = 2, 8, sim.Faults{Latency: 10 * time.Millisecond}
	case load.Reopen > 0: // somebody of the same process holds one most of the time
		c.Locks, c.Clients = 4, 4
	case load.AtOnce > 1:
		c.Locks, c.Workers = 6, 4
	}
	return c
}

// TestLegalLockLoadsPass: whatever clients of the production lock do, no property fails.
func TestLegalLockLoadsPass(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for name, c := range map[string]struct {
		load workload.LockLoad
		hold time.Duration
		near []string // what comes near a mistake, and must have happened
	}{
		"ranges":    {ranges, 4 * time.Second, []string{"takeover by a shorter ttl"}},
		"impatient": {impatient, 0, []string{"held", "timeout", "cancelled", "granted in vain"}},
		"several":   {several, 0, []string{"several at once"}},
		"renewing":  {renewing, 3 * time.Second, []string{"extend ok", "extend fail", "extend unknown", "by hand alone"}},
		"reopening": {reopening, 2 * time.Second, []string{"closed", "close ok", "close unknown", "lost by close", "held while closing"}},
		"late look": {lateLook, 0, []string{"takeover"}},
		"all": {workload.LockLoad{TTLFrom: 3 * time.Second, HoldFrom: time.Millisecond, AtOnce: 2, Impatient: 0.3, Try: 0.2,
			LookDelay: 400 * time.Millisecond}, time.Second, []string{"held", "timeout", "cancelled", "several at once"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			for seed := range uint64(6) {
				h := simrun.Make(t, lockRun(seed, c.load, c.hold))
				r := Check(t.Context(), h, Options{})
				if ids := failing(r); len(ids) > 0 {
					t.Errorf("seed %d: %v: %s", seed, ids, firstViolation(r, ids[0]))
				}
				nearMisses(h, seen)
			}
			t.Log(seen)
			for _, what := range c.near {
				if seen[what] == 0 {
					t.Errorf("no %s in any run: %v", what, seen)
				}
			}
		})
	}
}

// nearMisses counts what is legal and looks like a mistake.
func nearMisses(h *history.History, seen map[string]int) {
	a := past.New(h, false)
	holds := map[string]map[string]bool{}
	for _, e := range h.Events {
		if e.Op == history.OpLock && e.Result != "" {
			seen[e.Result]++
		}
		switch {
		case e.Op == history.OpExtend || e.Op == history.OpClose:
			seen[string(e.Op)+" "+string(e.Type)]++
		case e.Op == history.NoteLeaseLost && strings.Contains(e.Error, lock.ErrClosed.Error()):
			seen["lost by close"]++
		case e.Op == history.OpLock && e.Type == history.OK:
			if holds[e.Proc] == nil {
				holds[e.Proc] = map[string]bool{}
			}
			if holds[e.Proc][e.Key] = true; len(holds[e.Proc]) > 1 {
				seen["several at once"]++
			}
		case e.Op == history.OpRelease && e.Type == history.Invoke:
			delete(holds[e.Proc], e.Key)
		}
	}
	for _, c := range a.Closes {
		for _, l := range a.Rows {
			for _, g := range l.Grants {
				if own := history.Life(g.Acquire.Invoke.Proc) == history.Life(c.Invoke.Proc); own && c.End != nil && g.From() < c.Invoke.TS {
					if end, _ := g.Until(); end > c.Invoke.TS && end <= c.End.TS {
						seen["held while closing"]++
					}
				}
			}
		}
	}
	for _, l := range a.Rows {
		by := map[*past.Grant]int{} // renewals by hand
		for _, c := range l.Extends {
			if g := l.Find(c.Invoke.Token, c.Invoke.Proc); c.Outcome == history.OK {
				by[g]++
			}
		}
		for _, g := range l.Grants {
			if len(g.Renews) > 1 && by[g] == len(g.Renews) {
				seen["by hand alone"]++
			}
			old := l.GrantAt(g.Acquire.From, "")
			if g.TookEffect() && g.Call == nil {
				seen["granted in vain"]++
			}
			if g.TookEffect() && g.Acquire.Invoke.Takeover && old != nil {
				if seen["takeover"]++; g.Acquire.TTL() < old.Acquire.TTL() {
					seen["takeover by a shorter ttl"]++
				}
			}
		}
	}
}

// lockCase is a mistake in a client of locks, which shows only under a part of the workload.
type lockCase struct {
	name  string // of a variant, or of what is here
	load  workload.LockLoad
	hold  time.Duration
	hooks func() workload.Hooks // nil: the variant's
	want  []string              // at least one of them fails
	named string
	also  []string // mechanisms that the history cannot rule out
}

var lockCases = []lockCase{
	{name: "takeover-own-ttl", load: ranges, hold: 4 * time.Second, want: []string{"P8"}, named: "expiry-by-own-ttl"},
	{name: "watch-from-start", load: lateLook, hold: 2 * time.Second, want: []string{"P8"}, named: "watch-counted-from-asking"},
	{name: "cancelled-acquire-leaks", load: impatient, want: []string{"P11"}, named: "abandoned-lease-renewed"},
	{name: "try-by-memory", load: impatient, want: []string{"P2"}, named: "try-answered-from-memory"},
	{name: "one-token-a-client", load: several, want: []string{"P1", "P6"}, named: "one-token-for-all-locks"},
	{name: "renew-throttled", load: renewing, hold: 2 * time.Second, want: []string{"P7"}, named: "renewal-only-told"},
	{name: "close-without-waiting", load: reopening, hold: 2 * time.Second, want: []string{"P11"}, named: "lease-outlives-client"},
	{name: "tries that wait", load: workload.LockLoad{Try: 0.3}, hold: 60 * time.Second, hooks: lockerHook(func(l workload.Locker) workload.Locker {
		return waitingTries{l}
	}), want: []string{"P11"}, named: "waits-beyond-limit"},
	{name: "renewals of what is lost", load: renewing, hold: 5 * time.Second, hooks: leaseHook(func(l workload.Lease) workload.Lease {
		return lossIsFine{l}
	}), want: []string{"P7"}, named: "renewal-only-told"},
	{name: "renewals that are begun", load: renewing, hold: 5 * time.Second, hooks: leaseHook(func(l workload.Lease) workload.Lease {
		return begunIsDone{l}
	}), want: []string{"P7"}, named: "renewal-only-told"},
	{name: "callers that are not told of a close", load: reopening, hold: 2 * time.Second, hooks: lockerHook(func(l workload.Locker) workload.Locker {
		return closedUntold{l}
	}), want: []string{"P11"}, named: "client-not-closed"},
	{name: "limits that are halved", load: impatient, hold: 2 * time.Second, hooks: lockerHook(func(l workload.Locker) workload.Locker {
		return otherLimits{l, 0.5}
	}), want: []string{"P11"}, named: "gives-up-early"},
}

func init() {
	for _, c := range lockCases {
		namedAlone[c.named] = true
	}
}

func lockerHook(wrap func(workload.Locker) workload.Locker) func() workload.Hooks {
	return func() workload.Hooks {
		return workload.Hooks{Locker: func(_ workload.Config, _ *cassandra.DB, l workload.Locker) workload.Locker { return wrap(l) }}
	}
}

// leaseHook wraps what a locker hands out.
func leaseHook(wrap func(workload.Lease) workload.Lease) func() workload.Hooks {
	return lockerHook(func(l workload.Locker) workload.Locker { return wrapping{l, wrap} })
}

type wrapping struct {
	workload.Locker
	wrap func(workload.Lease) workload.Lease
}

func (w wrapping) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	l, err := w.Locker.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return w.wrap(l), nil
}

// lossIsFine confirms the renewal of a lease that is lost.
type lossIsFine struct{ workload.Lease }

func (l lossIsFine) Renew(ctx context.Context) error {
	if err := l.Lease.Renew(ctx); !errors.As(err, new(*lock.LostError)) {
		return err
	}
	return nil
}

// begunIsDone confirms a renewal that was given up on its way.
type begunIsDone struct{ workload.Lease }

func (l begunIsDone) Renew(ctx context.Context) error {
	if err := l.Lease.Renew(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// closedUntold leaves its callers waiting when it is closed.
type closedUntold struct{ workload.Locker }

func (c closedUntold) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	l, err := c.Locker.Acquire(ctx, r)
	if errors.Is(err, lock.ErrClosed) {
		time.Sleep(time.Minute)
	}
	return l, err
}

// waitingTries waits where it must not.
type waitingTries struct{ workload.Locker }

func (w waitingTries) TryAcquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	r.Timeout *= 4
	return w.Locker.Acquire(ctx, r)
}

// otherLimits waits for another time than it was asked to.
type otherLimits struct {
	workload.Locker
	times float64
}

func (o otherLimits) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	r.Timeout = max(time.Duration(o.times*float64(r.Timeout)), time.Millisecond)
	return o.Locker.Acquire(ctx, r)
}

// TestMistakesOfLockClientsAreNamed: each turns a property red under its part of the workload,
// and an explanation names it alone.
func TestMistakesOfLockClientsAreNamed(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, c := range lockCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var n tally
			for seed := uint64(0); seed < 30 && n.red < 3 && n.alone == 0; seed++ {
				h, r := c.run(t, seed)
				if slices.ContainsFunc(failing(r), func(id string) bool { return slices.Contains(c.want, id) }) {
					t.Logf("seed %d fails %v: %s", seed, failing(r), firstViolation(r, c.want[0]))
					n.explain(t, seed, h, r, c.named, c.also)
				}
			}
			if n.alone == 0 {
				t.Errorf("%d runs fail one of %v, and none is explained by %s alone", n.red, c.want, c.named)
			}
		})
	}
}

// TestMistakesOfLockClientsNeedTheirLoad: without its part of the workload nobody sees one.
func TestMistakesOfLockClientsNeedTheirLoad(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, c := range lockCases[:7] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.load = workload.LockLoad{}
			for seed := range uint64(4) {
				if _, r := c.run(t, seed); len(failing(r)) > 0 {
					t.Errorf("seed %d: %v: %s", seed, failing(r), firstViolation(r, failing(r)[0]))
				}
			}
		})
	}
}

func (c lockCase) run(t *testing.T, seed uint64) (*history.History, *Result) {
	t.Helper()
	cfg := lockRun(seed, c.load, c.hold)
	if cfg.Hooks = c.hooks; c.hooks == nil {
		cfg.Hooks = func() workload.Hooks {
			h, err := broken.Worker(c.name)
			if err != nil {
				t.Error(err)
			}
			return h
		}
	}
	h := simrun.Make(t, cfg)
	return h, Check(t.Context(), h, Options{})
}

// TestThousandsOfLocks: a run over 5,000 of them, each with a few cycles, is judged like others.
// That one of them is not asked for any more after a fault is no wonder, and no slow recovery.
func TestThousandsOfLocks(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	c := simrun.Draw(3)
	c.TTL, c.Workers, c.Clients, c.Locks, c.Hold = 6*time.Second, 4, 6, 5000, 20*time.Millisecond
	c.Think, c.Faults = 10*time.Millisecond, sim.Faults{Latency: 10 * time.Millisecond}
	h := simrun.Make(t, c)
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == history.NoteExpect {
			x := *e.Expect()
			x.Thresholds = []history.Threshold{{Recovery: history.RecoverySlowest, MaxMS: 18_500}}
			e.OwnDetails().Expect = &x
		}
	}
	began := time.Now()
	r := Check(t.Context(), h, Options{})
	t.Logf("%s in %s: %s", r.Verdict, time.Since(began), r.Summary)
	if ids := failing(r); r.Verdict != Pass || len(ids) > 0 {
		t.Errorf("%s, %v", r.Verdict, ids)
	}
	if cycles := propertyOf(r, "P1").Checked; cycles < 10_000 {
		t.Errorf("%d grants only", cycles)
	}
}
