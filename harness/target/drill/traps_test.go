package drill

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocql/gocql"

	"fencepost/checker"
	"fencepost/core/store"
)

// lease is a row as a trap finds it. The zero value is sound.
type lease struct {
	refuses bool                         // no first write is taken
	forgets bool                         // a first write that is conditional is gone at once
	deaf    bool                         // what comes after a plain write is applied, and changes nothing
	halves  bool                         // of a renewed row only what the renewal set is left
	amnesia bool                         // what only a node has that is killed is gone
	repeats func(gocql.RetryPolicy) bool // a driver sends a write again that was not answered; nil: never

	mu      sync.Mutex
	row     *store.Version
	plainly bool
	renewed bool
}

func (l *lease) Read(context.Context, string, bool) (*store.Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.row == nil || !l.halves || !l.renewed {
		return l.row, nil
	}
	return &store.Version{Beat: l.row.Beat, Holder: l.row.Holder, TTL: l.row.TTL}, nil
}

func (l *lease) CAS(_ context.Context, _ string, from *store.Version, to store.Version, _ int) (store.CASResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed && l.halves && from != nil && from.Fence == 0 { // sealed
		l.row, l.renewed = &to, false
		return store.CASResult{Applied: true}, nil
	}
	switch {
	case from == nil && l.refuses && to.Holder != "":
		return store.CASResult{}, &store.Error{Op: "cas", Outcome: store.Fail, Cause: errors.New("TTL too large")}
	case !store.Same(l.row, from):
		return store.CASResult{Row: l.row}, nil
	case from == nil && l.forgets && to.Holder != "", l.plainly && l.deaf:
		return store.CASResult{Applied: true}, nil
	}
	l.renewed = from != nil && to.Attempt == from.Attempt
	l.row = &to
	return store.CASResult{Applied: true}, nil
}

func (l *lease) Plain(_ context.Context, _ string, v store.Version, _ time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.row, l.plainly = &v, true
	return nil
}

// unheard is a lease asked for through a driver that does not hear the first answer.
type unheard struct {
	*lease
	repeats bool
}

func (u unheard) CAS(ctx context.Context, key string, from *store.Version, to store.Version, n int) (store.CASResult, error) {
	if _, err := u.lease.CAS(ctx, key, from, to, n); err != nil {
		return store.CASResult{}, err
	}
	if u.repeats {
		return u.lease.CAS(ctx, key, from, to, n)
	}
	return store.CASResult{}, &store.Error{Op: "cas", Outcome: store.Unknown, Cause: io.EOF}
}

func (unheard) lost() (bool, string) { return true, "the answer was lost" }
func (unheard) close() error         { return nil }

func (l *lease) driver(p gocql.RetryPolicy) (losing, error) {
	return unheard{l, l.repeats != nil && l.repeats(p)}, nil
}

// outageOf is an outage in which the nodes forget a row, or keep it.
type outageOf struct {
	*lease
	forgotten, missed bool
}

func (outageOf) begin(context.Context) error { return nil }

func (o outageOf) swap(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forgotten {
		o.row = nil
	}
	return nil
}

func (o outageOf) end(context.Context) (bool, string, error) { return !o.missed, "n1 was killed", nil }

// TestTraps: each trap is found by P2 in a world that has what it is about, and by nothing in one
// that has not.
func TestTraps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trap string
		row  *lease
		red  bool
	}{
		"a lease that is kept":               {Lease2038, &lease{}, false},
		"a lease that is refused":            {Lease2038, &lease{refuses: true}, false},
		"a lease that is gone at once":       {Lease2038, &lease{forgets: true}, true},
		"the same, of Accord":                {AccordLease, &lease{forgets: true}, true},
		"a plain write, and a sound release": {WriteInTime, &lease{}, false},
		"a plain write that wins":            {WriteAhead, &lease{deaf: true}, true},
		"all is renewed":                     {RenewsAll, &lease{}, false},
		"half of it is renewed":              {RenewsOwner, &lease{halves: true}, true},
		"a node that remembers":              {KilledNode, &lease{}, false},
		"a node that forgets":                {KilledNode, &lease{amnesia: true}, true},
		"a driver that repeats if it may":    {DriverRetries, &lease{repeats: func(p gocql.RetryPolicy) bool { return p != nil }}, true},
		"a driver that never repeats":        {DriverRetries, &lease{}, false},
		"a driver that may not repeat":       {DriverAsksOnce, &lease{repeats: func(p gocql.RetryPolicy) bool { return p != nil }}, false},
		"a driver that repeats unasked":      {DriverAsksOnce, &lease{repeats: func(gocql.RetryPolicy) bool { return true }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sc, err := find(c.trap)
				must(t, "find", err)
				all := onStage(t, func(string) store.Locks { return c.row }, func(a *attempt) {
					a.driver, a.outage = c.row.driver, func() outage { return outageOf{lease: c.row, forgotten: c.row.amnesia} }
					took, text, err := sc.steps(t.Context(), a)
					must(t, "steps", err)
					if !took {
						t.Errorf("it did not take place: %s", text)
					}
				})
				if p := all["P2"]; (p.Status == checker.StatusFail) != c.red {
					t.Errorf("P2 is %s: %+v", p.Status, p.Violations)
				}
				for id, p := range all {
					if p.Status == checker.StatusFail && !c.red {
						t.Errorf("%s: %+v", id, p.Violations)
					}
				}
			})
		})
	}
}

// TestAKilledNodeMustHaveBeen: an attempt counts only if the outage took place, and the first client
// had the lease.
func TestAKilledNodeMustHaveBeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row    *lease
		missed bool
	}{
		"no outage": {&lease{}, true},
		"no lease":  {&lease{refuses: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStage(t, func(string) store.Locks { return c.row }, func(a *attempt) {
				a.outage = func() outage { return outageOf{lease: c.row, missed: c.missed} }
				if took, text, err := killedAtTheAnswer(t.Context(), a); took || err != nil {
					t.Errorf("it took place: %s, %v", text, err)
				}
			})
		})
	}
}

// TestTrapsCreateWhatTheyNeed: tables of one run must not be mixed up.
func TestTrapsCreateWhatTheyNeed(t *testing.T) {
	t.Parallel()
	for _, s := range traps {
		if !IsTrap(s.name) || s.rows == nil || s.rows.name == ttlTable || s.steps == nil || s.write != nil {
			t.Errorf("%+v", s)
		}
	}
	for _, s := range incomplete {
		if IsTrap(s.name) || s.steps != nil || s.write == nil {
			t.Errorf("%+v", s)
		}
	}
}
