package cassandra

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// fakeIDs executes the statements on the table ids in memory, over a network
// that loses requests and replies and delivers some late.
type fakeIDs struct {
	mu   sync.Mutex
	net  *sim.Session
	next int64 // 0: no row
	last map[int64]string
	// forgetful plants a bug: the row does not remember who took a block.
	forgetful bool
}

func (f *fakeIDs) call(ctx context.Context, do func()) error {
	return f.net.Call(ctx, "ids", func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		do()
	})
}

func (f *fakeIDs) CAS(ctx context.Context, _ int, stmts ...store.Statement) (bool, []map[string]any, error) {
	a := stmts[0].Args
	var applied bool
	err := f.call(ctx, func() {
		switch {
		case stmts[0].CQL == insertIDs && f.next == 0:
			f.next, f.last, applied = a[1].(int64), a[2].(map[int64]string), true
		case stmts[0].CQL == updateIDs && f.next == a[3].(int64):
			f.next, f.last, applied = a[0].(int64), a[1].(map[int64]string), true
		}
	})
	if err != nil {
		return false, nil, err // a late copy may be at work on applied
	}
	return applied, nil, nil
}

func (f *fakeIDs) QueryBy(ctx context.Context, _ int, _ bool, _ store.Statement) ([]map[string]any, error) {
	var rows []map[string]any
	err := f.call(ctx, func() {
		if f.next == 0 {
			return
		}
		recent := map[int64]gocql.UUID{}
		for lo, s := range f.last {
			id, _ := gocql.ParseUUID(s)
			if f.forgetful {
				id = gocql.UUID{1}
			}
			recent[lo] = id
		}
		rows = append(rows, map[string]any{"next_id": f.next, "recent": recent})
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// runIDs lets three processes take numbers and returns how many were handed out
// twice and how many are missing.
func runIDs(t *testing.T, seed uint64, forgetful bool) (twice, gaps int) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeIDs{net: sim.New().Connect("ids", seed), forgetful: forgetful}
		f.net.SetFaults(sim.Faults{Latency: 3 * time.Millisecond, LoseRequest: 0.1, LoseReply: 0.1, Late: 0.1, Refuse: 0.1, LateBy: 5 * time.Second})
		var mu sync.Mutex
		got := map[int64]int{}
		var all []*IDs
		var wg sync.WaitGroup
		for range 3 {
			i := &IDs{db: f, timeout: time.Second, block: 3, names: map[string]*block{}}
			all = append(all, i)
			for range 2 {
				wg.Go(func() {
					for range 20 {
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						n, err := i.Next(ctx, "s")
						cancel()
						if err != nil {
							continue
						}
						mu.Lock()
						got[n]++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		time.Sleep(10 * time.Second) // the last copies land
		f.net.SetFaults(sim.Faults{Latency: 3 * time.Millisecond})
		// What is on its way is settled by the next call of its process.
		for _, i := range all {
			b := i.names["id/s"]
			for b.pending != nil || b.next != b.end {
				n, err := i.Next(t.Context(), "s")
				if err != nil {
					t.Error(err)
					break
				}
				got[n]++
			}
		}
		for n := int64(1); n < f.next; n++ {
			switch got[n] {
			case 0:
				gaps++
			case 1:
			default:
				twice++
			}
		}
	})
	return twice, gaps
}

func TestIDsUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 200; seed++ {
		if twice, gaps := runIDs(t, seed, false); twice > 0 || gaps > 0 {
			t.Fatalf("seed %d: %d numbers twice, %d gaps", seed, twice, gaps)
		}
	}
}

// TestIDsTestCanFail: without the row's memory, lost answers leave gaps.
func TestIDsTestCanFail(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 50; seed++ {
		if _, gaps := runIDs(t, seed, true); gaps > 0 {
			return
		}
	}
	t.Error("no gap in 50 runs")
}

// TestIDsMemoryIsBounded: the row remembers the last blocks only.
func TestIDsMemoryIsBounded(t *testing.T) {
	t.Parallel()
	i := NewIDs(&DB{}, 0)
	recent := map[int64]gocql.UUID{}
	for lo := int64(1); lo <= 5000; lo += 100 {
		recent[lo] = gocql.UUID{1}
	}
	a := i.plan("n", []map[string]any{{"next_id": int64(5001), "recent": recent}})
	kept := a.stmt.Args[1].(map[int64]string)
	if len(kept) != recentBlocks || kept[5001] != a.attempt || kept[4901] == "" || kept[1] != "" {
		t.Errorf("%d blocks kept", len(kept))
	}
}

// forbidding refuses for good, and counts.
type forbidding struct{ n int }

func (f *forbidding) CAS(context.Context, int, ...store.Statement) (bool, []map[string]any, error) {
	return false, nil, f.refuse()
}

func (f *forbidding) QueryBy(context.Context, int, bool, store.Statement) ([]map[string]any, error) {
	return nil, f.refuse()
}

func (f *forbidding) refuse() error {
	f.n++
	return &store.Error{Outcome: store.Fail, Permanent: true, Cause: errors.New("no permission")}
}

// TestIDsRefusedForGood: what no node will ever take is not asked for again and again.
func TestIDsRefusedForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &forbidding{}
		i := &IDs{db: f, timeout: time.Second, block: 10, names: map[string]*block{}}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		if _, err := i.Next(ctx, "n"); !store.IsPermanent(err) || f.n != 3 {
			t.Errorf("%d requests were refused, %v", f.n, err)
		}
	})
}
