package cassandrasink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// counting counts how often each key of each resource is accepted.
type counting struct {
	*fakeDB
	mu       sync.Mutex
	accepted map[string]int
}

func (c *counting) CAS(ctx context.Context, n int, stmts ...store.Statement) (bool, []map[string]any, error) {
	applied, rows, err := c.fakeDB.CAS(ctx, n, stmts...)
	for _, s := range stmts {
		if applied && s.CQL == insertKey {
			c.mu.Lock()
			c.accepted[s.Args[0].(string)]++
			c.mu.Unlock()
		}
	}
	return applied, rows, err
}

func newRetiring(db database) *Sink {
	s := newSink(db, time.Second)
	s.retires = true
	return s
}

// retireSim runs short-lived jobs, each with one effect on a resource of its own. Half of
// them have a first run that sleeps, is taken for dead, and comes back whenever it likes.
// What is done is retired. It returns the jobs whose effect was accepted twice, and how
// many resources are left.
func retireSim(t *testing.T, seed uint64, plant func(*fakeDB)) (twice []string, left int) {
	const jobs, issuer = 40, "shard/q/0"
	synctest.Test(t, func(t *testing.T) {
		f := newFake(seed)
		f.faults(sim.Faults{Refuse: 0.1})
		plant(f)
		db := &counting{fakeDB: f, accepted: map[string]int{}}
		rnd := rand.New(rand.NewPCG(seed, 70))
		s := newRetiring(db)
		var tokens atomic.Int64
		var wg sync.WaitGroup
		effect := func(s *Sink, resource string, token int64) {
			_, _ = s.Accept(t.Context(), resource, issuer, token, sink.Effect{Key: "k", Intent: "pay"})
		}
		var done []string
		for i := range jobs {
			name := fmt.Sprint("job/", i)
			if i%2 == 0 {
				token, sleep := tokens.Add(1), time.Duration(rnd.Int64N(int64(2*time.Minute)))
				wg.Go(func() {
					time.Sleep(sleep)
					effect(newRetiring(db), name, token)
				})
			}
			effect(s, name, tokens.Add(1))
			if done = append(done, name); len(done) == 5 {
				if n, err := s.Retire(t.Context(), issuer, tokens.Load()+1, done...); err != nil || n == 0 {
					t.Errorf("Retire: %d, %v", n, err)
				}
				done = nil
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
		for name, n := range db.accepted {
			if n > 1 {
				twice = append(twice, name)
			}
		}
		for name, p := range f.parts {
			if !sink.IsFloor(name) && (p.header != nil || len(p.keys) > 0 || len(p.ledger) > 0) {
				left++
			}
		}
		if f.unexpected != nil {
			t.Error(f.unexpected)
		}
	})
	return twice, left
}

// TestRetireSimulation: what was retired leaves nothing but a floor, and no run that comes
// back is taken for the first.
func TestRetireSimulation(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 50; seed++ {
		if twice, left := retireSim(t, seed, func(*fakeDB) {}); len(twice) > 0 || left > 0 {
			t.Fatalf("seed %d: accepted twice: %v; %d resources are left", seed, twice, left)
		}
	}
	for seed := uint64(1); seed <= 20; seed++ {
		if twice, _ := retireSim(t, seed, func(f *fakeDB) { f.hidesFloors = true }); len(twice) > 0 {
			t.Logf("sink-retire-lowers-fences is found with seed %d: %v", seed, twice)
			return
		}
	}
	t.Error("sink-retire-lowers-fences is not found within 20 seeds")
}

// reads counts the reads of floors, and of all else.
type reads struct {
	*fakeDB
	floors, others int
}

func (r *reads) QueryBy(ctx context.Context, n int, serial bool, s store.Statement) ([]map[string]any, error) {
	if sink.IsFloor(s.Args[0].(string)) {
		r.floors++
	} else {
		r.others++
	}
	return r.fakeDB.QueryBy(ctx, n, serial, s)
}

// TestFloorsCostNothing to a sink of which nothing is retired; nor may it retire anything,
// as the others would not look at its floors.
func TestFloorsCostNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, retires := range []bool{false, true} {
			db := &reads{fakeDB: newFake(1)}
			s := newSink(db, time.Second)
			s.retires = retires
			for n := range 3 {
				if _, err := s.Accept(t.Context(), fmt.Sprint("job/", n), "i", 5, sink.Effect{Key: "k"}); err != nil {
					t.Fatal(err)
				}
			}
			if want := map[bool]int{true: 3}[retires]; db.floors != want || db.others != 3 {
				t.Errorf("retires: %v; 3 new resources took %d reads of floors and %d others; want %d and 3", retires, db.floors, db.others, want)
			}
			if _, err := s.Retire(t.Context(), "i", 6, "job/0"); (err == nil) != retires || !retires && !store.IsPermanent(err) {
				t.Errorf("retires: %v; Retire: %v", retires, err)
			}
		}
	})
}

// lateTrim holds the first batch of a trim back until after, and its answer is lost.
type lateTrim struct {
	database
	held []store.Statement
}

func (l *lateTrim) CAS(ctx context.Context, n int, stmts ...store.Statement) (bool, []map[string]any, error) {
	if stmts[0].CQL == dropUpTo && l.held == nil {
		l.held = stmts
		return false, nil, &store.Error{Outcome: store.Unknown, Cause: errors.New("held back")}
	}
	return l.database.CAS(ctx, n, stmts...)
}

// TestLateTrim: a copy of a trim that arrives after a trim that went further changes nothing.
func TestLateTrim(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ planted, whole bool }{"late": {false, true}, "planted": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(1)
				f.forgetsDrops = tc.planted
				late := &lateTrim{database: f}
				s := newSink(late, time.Second)
				var made []time.Time
				for n := range int64(5) {
					made = append(made, time.Now())
					if a, err := s.Raise(t.Context(), simResource, simIssuer, n+1); err != nil || a.Result != sink.Applied {
						t.Fatal(a, err)
					}
					time.Sleep(time.Second)
				}
				// The first copy of the first trim stays on its way; the second trim goes further.
				for _, before := range []time.Time{made[2], made[4]} {
					if _, err := s.Forget(t.Context(), simResource, before); err != nil {
						t.Fatal(err)
					}
				}
				if _, _, err := f.CAS(t.Context(), 0, late.held...); err != nil {
					t.Fatal(err)
				}
				l, err := s.Ledger(t.Context(), simResource)
				if whole := err == nil && len(l) == 1 && l[0].Seq == 5; whole != tc.whole {
					t.Errorf("%+v, %v", l, err)
				}
			})
		})
	}
}
