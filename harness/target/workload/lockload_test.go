package workload

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
)

// TestTTLsDiffer: each client has its own for each lock, both ends are common, and all are whole
// milliseconds of the range.
func TestTTLsDiffer(t *testing.T) {
	t.Parallel()
	c := Config{Seed: 7, TTL: 6 * time.Second, Lock: LockLoad{TTLFrom: time.Second}}
	seen := map[time.Duration]int{}
	for i := range 300 {
		proc := fmt.Sprintf("w1.1/c%d", i)
		ttl := c.TTLOf("lock-1", proc)
		if ttl < time.Second || ttl > 6*time.Second || ttl%time.Millisecond != 0 || ttl != c.TTLOf("lock-1", proc) {
			t.Fatalf("%s: %s, then %s", proc, ttl, c.TTLOf("lock-1", proc))
		}
		seen[ttl]++
	}
	if seen[time.Second] < 60 || seen[6*time.Second] < 60 || len(seen) < 60 {
		t.Errorf("%d different, %d the shortest, %d the longest", len(seen), seen[time.Second], seen[6*time.Second])
	}
	if same := (Config{Seed: 7, TTL: 6 * time.Second}).TTLOf("lock-1", "w1.1/c1"); same != 6*time.Second {
		t.Errorf("without a range: %s", same)
	}
}

func testClient(cfg Config) *client {
	return &client{cfg: cfg, proc: "w1.1/c1", rng: Rand(cfg.Seed, "w1.1/c1")}
}

// TestLocksAreTakenInOrder: several locks of a cycle are different ones, in the order of their
// names, so that no two clients wait for each other; own ones are nobody else's.
func TestLocksAreTakenInOrder(t *testing.T) {
	t.Parallel()
	cfg := Config{Seed: 3, Lock: LockLoad{AtOnce: 3}, Locks: []string{"a", "b", "c", "d", "e", "f"}}
	c := testClient(cfg)
	most := 0
	for range 200 {
		names := c.pick()
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || len(names) < 1 || len(names) > 3 {
			t.Fatal(names)
		}
		most = max(most, len(names))
	}
	if most != 3 {
		t.Errorf("at most %d at once", most)
	}
	c.cfg.Own, c.number = true, 1
	for range 50 {
		if names := c.pick(); slices.ContainsFunc(names, func(n string) bool { return n < "d" }) {
			t.Fatal(names)
		}
	}
	c.cfg.Lock.AtOnce = 0
	if names := c.pick(); !slices.Equal(names, []string{"b"}) {
		t.Error(names)
	}
}

// TestAsksAreDrawn: about as many as configured do not wait, or give up; without that nothing is
// drawn, so that older plans stay what they were.
func TestAsksAreDrawn(t *testing.T) {
	t.Parallel()
	c := testClient(Config{Seed: 5, TTL: 6 * time.Second, AcquireTimeout: 30 * time.Second, Lock: LockLoad{Impatient: 0.4, Try: 0.3}})
	tries, cancelled, timeouts := 0, 0, 0
	for range 1000 {
		a := c.ask("l")
		if l := a.limit(); l < time.Millisecond || l > 30*time.Second || !a.try && a.cancel > 6*time.Second {
			t.Fatalf("%+v", a)
		}
		switch {
		case a.try:
			tries++
		case a.cancel > 0:
			cancelled++
		case a.Timeout < 30*time.Second:
			timeouts++
		}
	}
	if tries < 240 || tries > 360 || cancelled < 140 || cancelled > 260 || timeouts < 140 || timeouts > 260 {
		t.Errorf("%d do not wait, %d are cancelled, %d time out", tries, cancelled, timeouts)
	}
	plain := testClient(Config{Seed: 5, TTL: 6 * time.Second, AcquireTimeout: 30 * time.Second})
	before := *Rand(5, "w1.1/c1")
	if a := plain.ask("l"); a.try || a.cancel > 0 || a.Timeout != 30*time.Second || plain.rng.Uint64() != before.Uint64() {
		t.Errorf("%+v", a)
	}
}

// TestLooksAreLate: before or after, and within the request's own limit.
func TestLooksAreLate(t *testing.T) {
	t.Parallel()
	row := &store.Version{Fence: 1, Attempt: "a", Holder: "h", TTL: time.Second}
	l := &lateLooks{Locks: shownRow{row}, delay: 20 * time.Millisecond, clock: clock.Go(), rng: Rand(1, "looks")}
	late := 0
	for range 40 {
		began := time.Now()
		if got, err := l.Read(t.Context(), "l", false); err != nil || *got != *row {
			t.Fatal(got, err)
		}
		if time.Since(began) >= l.delay {
			late++
		}
	}
	if late < 8 || late > 35 {
		t.Errorf("%d of 40 are late", late)
	}
	l.delay = time.Hour
	if _, err := l.Read(t.Context(), "l", true); err != nil {
		t.Error(err) // a SERIAL read is no look
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for range 40 {
		if _, err := l.Read(ctx, "l", false); err != nil && store.OutcomeOf(err) != store.Unknown {
			t.Fatal(err)
		}
	}
}

type shownRow struct{ row *store.Version }

func (s shownRow) Read(context.Context, string, bool) (*store.Version, error) {
	v := *s.row
	return &v, nil
}

func (shownRow) CAS(context.Context, string, *store.Version, store.Version, int) (store.CASResult, error) {
	return store.CASResult{}, nil
}

// TestRefusals: each has its word, and an error of the store none.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for want, reason := range map[string]error{
		"held": lock.ErrHeld, "timeout": lock.ErrTimeout, "cancelled": context.Canceled, "closed": lock.ErrClosed, "": lock.ErrRefused,
	} {
		if got := refusal(&lock.AcquireError{Reason: reason}); got != want {
			t.Errorf("%v: %q, want %q", reason, got, want)
		}
	}
}
