package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"fencepost/core/store"
)

// T is the part of *testing.T that the suite uses.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// Case is one rule of the suite.
type Case struct {
	Name string
	Run  func(ctx context.Context, t T, s store.Locks, resource string)
}

// Timeout bounds each case.
const Timeout = 2 * time.Minute

// Cases returns the suite. Each case uses a resource of its own, whose name
// begins with prefix.
func Cases() []Case {
	return []Case{
		{"an absent row reads as nil, by both kinds of reads", absent},
		{"insert applies once, and shows the row to the second", insertOnce},
		{"an update applies on the whole version only", wholeVersion},
		{"an update of an absent row is rejected without a row", updateAbsent},
		{"the life of a lock: grant, renewals, release, grant", life},
		{"fields keep their values at the edges", edges},
		{"of many inserts at once one applies", oneInsert},
		{"of many updates at once one applies", oneUpdate},
		{"copies of one request apply once, by whatever node", copies},
		{"a context that is over means not sent", notSent},
		{"concurrent increments lose nothing", chain},
	}
}

// RunAll runs every case on s, with resources under prefix.
func RunAll(t T, s store.Locks, prefix string, run func(name string, f func(t T))) {
	t.Helper()
	for i, c := range Cases() {
		run(c.Name, func(t T) {
			ctx, cancel := context.WithTimeout(context.Background(), Timeout)
			defer cancel()
			c.Run(ctx, t, s, fmt.Sprintf("%s-%d", prefix, i))
		})
	}
}

func granted(fence int64, holder string) store.Version {
	return store.Version{Fence: fence, Attempt: uuid.NewString(), Holder: holder, TTL: 6 * time.Second}
}

// cas is a CAS that must be answered.
func cas(ctx context.Context, t T, s store.Locks, resource string, from *store.Version, to store.Version) (store.CASResult, bool) {
	t.Helper()
	res, err := s.CAS(ctx, resource, from, to, 0)
	if err != nil {
		t.Errorf("CAS from %s to %s: %v", from, &to, err)
		return res, false
	}
	return res, true
}

func mustApply(ctx context.Context, t T, s store.Locks, resource string, from *store.Version, to store.Version) bool {
	t.Helper()
	res, ok := cas(ctx, t, s, resource, from, to)
	if ok && !res.Applied {
		t.Errorf("CAS from %s to %s: rejected, the row is %s", from, &to, res.Row)
		return false
	}
	return ok && mustRead(ctx, t, s, resource, &to)
}

func mustReject(ctx context.Context, t T, s store.Locks, resource string, from *store.Version, to store.Version, row *store.Version) {
	t.Helper()
	res, ok := cas(ctx, t, s, resource, from, to)
	switch {
	case !ok:
	case res.Applied:
		t.Errorf("CAS from %s to %s was applied on %s", from, &to, row)
	case !store.Same(res.Row, row):
		t.Errorf("CAS from %s to %s was rejected with %s; the row is %s", from, &to, res.Row, row)
	}
}

func mustRead(ctx context.Context, t T, s store.Locks, resource string, want *store.Version) bool {
	t.Helper()
	for _, serial := range []bool{true, false} {
		got, err := s.Read(ctx, resource, serial)
		if err != nil {
			t.Errorf("Read(serial %v): %v", serial, err)
			return false
		}
		if !store.Same(got, want) {
			t.Errorf("Read(serial %v) = %s, want %s", serial, got, want)
			return false
		}
	}
	return true
}

func absent(ctx context.Context, t T, s store.Locks, resource string) {
	mustRead(ctx, t, s, resource, nil)
}

func insertOnce(ctx context.Context, t T, s store.Locks, resource string) {
	a, b := granted(1, "a"), granted(1, "b")
	if mustApply(ctx, t, s, resource, nil, a) {
		mustReject(ctx, t, s, resource, nil, b, &a)
		mustReject(ctx, t, s, resource, nil, a, &a)
		mustRead(ctx, t, s, resource, &a)
	}
}

func wholeVersion(ctx context.Context, t T, s store.Locks, resource string) {
	row := granted(1, "a")
	if !mustApply(ctx, t, s, resource, nil, row) {
		return
	}
	to := granted(2, "b")
	for name, change := range map[string]func(*store.Version){
		"fence":   func(v *store.Version) { v.Fence++ },
		"beat":    func(v *store.Version) { v.Beat++ },
		"attempt": func(v *store.Version) { v.Attempt = uuid.NewString() },
		"holder":  func(v *store.Version) { v.Holder = "" },
		"ttl":     func(v *store.Version) { v.TTL += time.Millisecond },
	} {
		from := row
		change(&from)
		t.Logf("named with another %s", name)
		mustReject(ctx, t, s, resource, &from, to, &row)
	}
	mustApply(ctx, t, s, resource, &row, to)
}

func updateAbsent(ctx context.Context, t T, s store.Locks, resource string) {
	from := granted(1, "a")
	mustReject(ctx, t, s, resource, &from, granted(2, "b"), nil)
	mustRead(ctx, t, s, resource, nil)
}

func life(ctx context.Context, t T, s store.Locks, resource string) {
	var row *store.Version
	for fence := int64(1); fence <= 3; fence++ {
		v := granted(fence, "a")
		if !mustApply(ctx, t, s, resource, row, v) {
			return
		}
		for range 3 {
			next := v
			next.Beat++
			if !mustApply(ctx, t, s, resource, &v, next) {
				return
			}
			old := v
			v = next
			mustReject(ctx, t, s, resource, &old, granted(fence+1, "thief"), &v)
		}
		free := store.Version{Fence: fence, Beat: v.Beat + 1, Attempt: uuid.NewString(), TTL: v.TTL}
		if !mustApply(ctx, t, s, resource, &v, free) {
			return
		}
		row = &free
	}
}

func edges(ctx context.Context, t T, s store.Locks, resource string) {
	v := store.Version{Fence: 1<<63 - 2, Beat: 1<<63 - 1, Attempt: uuid.NewString(), Holder: "wörker/ü 'quoted' \"x\" \x00", TTL: 365 * 24 * time.Hour}
	if mustApply(ctx, t, s, resource, nil, v) {
		mustApply(ctx, t, s, resource, &v, store.Version{Fence: 1<<63 - 1, Attempt: uuid.NewString(), Holder: "b", TTL: time.Millisecond})
	}
}

const crowd = 20

// settled sends copies of one CAS until it is answered, and reports whether it
// was applied, by the attempt id if an earlier copy was lost.
func settled(ctx context.Context, t T, s store.Locks, resource string, from *store.Version, to store.Version) (applied bool, row *store.Version) {
	t.Helper()
	applied, row, _ = settledAfter(ctx, t, s, resource, from, to)
	return applied, row
}

// settledAfter also tells how many copies it sent: a rejection after the first
// does not say whether an earlier one was applied, once others have moved the
// row on.
func settledAfter(ctx context.Context, t T, s store.Locks, resource string, from *store.Version, to store.Version) (applied bool, row *store.Version, copies int) {
	t.Helper()
	for n := 0; ; n++ {
		reqCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		res, err := s.CAS(reqCtx, resource, from, to, n)
		cancel()
		switch {
		case ctx.Err() != nil:
			t.Errorf("CAS to %s was not settled: %v", &to, err)
			return false, nil, n + 1
		case err != nil:
		case res.Applied:
			return true, &to, n + 1
		default:
			return res.Row != nil && res.Row.Attempt == to.Attempt, res.Row, n + 1
		}
	}
}

func oneOf(ctx context.Context, t T, s store.Locks, resource string, from *store.Version, fence int64) {
	t.Helper()
	var mu sync.Mutex
	var winners []store.Version
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() {
			to := granted(fence, fmt.Sprintf("c%d", i))
			if ok, _ := settled(ctx, t, s, resource, from, to); ok {
				mu.Lock()
				winners = append(winners, to)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 {
		t.Errorf("%d of %d were applied: %v", len(winners), crowd, winners)
		return
	}
	mustRead(ctx, t, s, resource, &winners[0])
}

func oneInsert(ctx context.Context, t T, s store.Locks, resource string) {
	oneOf(ctx, t, s, resource, nil, 1)
}

func oneUpdate(ctx context.Context, t T, s store.Locks, resource string) {
	row := granted(1, "a")
	if mustApply(ctx, t, s, resource, nil, row) {
		oneOf(ctx, t, s, resource, &row, 2)
	}
}

func copies(ctx context.Context, t T, s store.Locks, resource string) {
	row := granted(1, "a")
	if !mustApply(ctx, t, s, resource, nil, row) {
		return
	}
	to := granted(2, "b")
	applied := 0
	for n := range 5 {
		res, err := s.CAS(ctx, resource, &row, to, n)
		if err != nil {
			t.Errorf("copy %d: %v", n, err)
			continue
		}
		if res.Applied {
			applied++
		} else if !store.Same(res.Row, &to) {
			t.Errorf("copy %d was rejected with %s, want %s", n, res.Row, &to)
		}
	}
	if applied != 1 {
		t.Errorf("5 copies of one request were applied %d times", applied)
	}
}

func notSent(ctx context.Context, t T, s store.Locks, resource string) {
	over, cancel := context.WithCancel(ctx)
	cancel()
	to := granted(1, "a")
	if _, err := s.CAS(over, resource, nil, to, 0); store.OutcomeOf(err) != store.Fail {
		t.Errorf("CAS with a context that is over: %v (outcome %s), want fail", err, store.OutcomeOf(err))
	}
	if _, err := s.Read(over, resource, false); err == nil {
		t.Errorf("Read with a context that is over succeeded")
	}
	mustRead(ctx, t, s, resource, nil)
}

func chain(ctx context.Context, t T, s store.Locks, resource string) {
	const clients, each = 4, 10
	row := granted(1, "a")
	if !mustApply(ctx, t, s, resource, nil, row) {
		return
	}
	var wg sync.WaitGroup
	var uncertain atomic.Int64
	for i := range clients {
		wg.Go(func() {
			from := &row
			// Each rejection is another's success; many more of them than that
			// mean a store that shows rows that are not there.
			done := 0
			for range 10 * clients * each {
				if done == each || ctx.Err() != nil {
					return
				}
				to := granted(from.Fence+1, fmt.Sprintf("c%d", i))
				ok, now, copies := settledAfter(ctx, t, s, resource, from, to)
				if ok {
					done++
				} else if copies > 1 {
					uncertain.Add(1)
				}
				if now == nil {
					return
				}
				from = now
			}
		})
	}
	wg.Wait()
	got, err := s.Read(ctx, resource, true)
	if err != nil || got == nil {
		t.Errorf("Read: %s, %v", got, err)
		return
	}
	least, most := int64(1+clients*each), 1+clients*each+uncertain.Load()
	if got.Fence < least || got.Fence > most {
		t.Errorf("after %d increments, and %d that nobody can tell of, the fence is %d, want %d to %d", clients*each, uncertain.Load(), got.Fence, least, most)
	}
}
