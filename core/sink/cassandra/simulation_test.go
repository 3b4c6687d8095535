package cassandrasink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/internal/race"
)

// TestConformanceInMemory runs the suite on the statements, without a cluster.
func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	f := newFake(1)
	sinktest.Run(t, "fake", func(*testing.T) sink.Sink { return newRetiring(f) })
	t.Cleanup(func() {
		if f.unexpected != nil {
			t.Error(f.unexpected)
		}
	})
}

// raced runs before at the first batch that only raises.
type raced struct {
	database
	before func()
}

func (r *raced) CAS(ctx context.Context, n int, stmts ...store.Statement) (bool, []map[string]any, error) {
	if before := r.before; before != nil && stmts[0].CQL == raiseHeader {
		r.before = nil
		before()
	}
	return r.database.CAS(ctx, n, stmts...)
}

// TestDuplicateRaced: a key that was accepted is a duplicate whatever the token, also if
// another raises it while this call does.
func TestDuplicateRaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		s := newSink(f, time.Second)
		e := sink.Effect{Key: "k", Intent: "add 1", Value: 1}
		if a, err := s.Accept(t.Context(), simResource, simIssuer, 3, e); err != nil || a.Result != sink.Applied {
			t.Fatal(a, err)
		}
		other := &raced{f, func() {
			if a, err := s.Raise(t.Context(), simResource, simIssuer, 7); err != nil || a.Result != sink.Applied {
				t.Error(a, err)
			}
		}}
		a, err := newSink(other, time.Second).Accept(t.Context(), simResource, simIssuer, 5, e)
		if err != nil || a.Result != sink.Duplicate || a.FirstToken != 3 || a.Seen != 7 {
			t.Errorf("%+v (%s), %v", a, a.Result, err)
		}
	})
}

// sinkWorld is one simulated run: processes with sinks of their own take rising
// tokens, as from a lock whose holders overlap, and add one to a value each.
type sinkWorld struct {
	seed   uint64
	db     *fakeDB
	tokens atomic.Int64

	mu         sync.Mutex
	violations []string
	reports    []effectReport
	counts     map[string]int
	forgets    bool // keys are forgotten as soon as may be
	trims      bool // they are when all is over, step by step, and a copy of the first step comes last
	noRaise    bool
	noAwait    bool
}

type effectReport struct {
	key     string
	token   int64
	value   int64
	outcome store.Outcome
	answer  sink.Answer
	calls   int
}

func (w *sinkWorld) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func (w *sinkWorld) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

const simResource, simIssuer = "r", "i"

func runSinkSim(t *testing.T, seed uint64, change func(*sinkWorld)) *sinkWorld {
	r := rand.New(rand.NewPCG(seed, 3))
	w := &sinkWorld{seed: seed, db: newFake(seed), counts: map[string]int{}}
	lose, refuse, stale := 0.12*r.Float64(), 0.1*r.Float64(), 0.3*r.Float64()
	w.db.stale, w.forgets = stale, seed%2 == 0
	faults := sim.Faults{LoseRequest: lose, LoseReply: lose, Late: lose, Refuse: refuse, LateBy: time.Duration(r.Int64N(int64(20 * time.Second)))}
	change(w)
	synctest.Test(t, func(t *testing.T) {
		w.db.net = sim.New().Connect("sink", seed) // of the bubble
		w.db.faults(faults)
		const lasts = 30 * time.Second
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 3 {
			s := newSink(w.db, time.Second)
			rnd := rand.New(rand.NewPCG(seed, uint64(i)+50))
			wg.Go(func() { w.holder(ctx, s, rnd, i) })
		}
		late := &lateTrim{database: w.db}
		if w.forgets {
			s := newSink(w.db, time.Second)
			if w.trims {
				s = newSink(late, time.Second)
			}
			rnd := rand.New(rand.NewPCG(seed, 60))
			// It goes on when nothing else changes the header, so that late copies find it as they left it.
			ctx, cancel := context.WithTimeout(t.Context(), lasts+10*time.Second)
			defer cancel()
			wg.Go(func() {
				before := func() time.Time { return time.Now().Add(-time.Duration(rnd.Int64N(int64(3 * time.Second)))) }
				if w.trims {
					time.Sleep(lasts)
					before = func() time.Time { return begun.Add(3 * (time.Since(begun) - lasts)) }
				}
				w.forgetter(ctx, s, rnd, before)
			})
		}
		wg.Wait()
		time.Sleep(time.Minute) // the last copies land
		w.db.heal()
		if late.held != nil {
			_, _, _ = w.db.CAS(t.Context(), 0, late.held...)
		}
		w.judge(t)
	})
	if w.db.unexpected != nil {
		w.violate("%v", w.db.unexpected)
	}
	return w
}

// holder is a process: each round is one grant.
func (w *sinkWorld) holder(ctx context.Context, s *Sink, rnd *rand.Rand, id int) {
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx, rnd, 300*time.Millisecond)
		token := w.tokens.Add(1)
		if !w.noRaise {
			call, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.Int64N(int64(5*time.Second))))
			a, err := s.Raise(call, simResource, simIssuer, token)
			cancel()
			w.count("raise-" + sink.OutcomeOf(a, err).String())
			if err == nil && a.Result == sink.Stale && w.tokens.Load() == token {
				w.violate("token %d, of the last grant, is refused: %d was seen", token, a.Seen)
			}
			if !w.noAwait && (err != nil || a.Result != sink.Applied) {
				continue // not entitled to act
			}
		}
		st, err := s.Read(ctx, simResource)
		if err != nil {
			continue
		}
		pause(ctx, rnd, 500*time.Millisecond)
		w.effect(ctx, s, rnd, token, sink.Effect{Key: fmt.Sprintf("p%d-%d", id, n), Intent: "add 1", Value: st.Value + 1})
		if !w.forgets {
			w.again(ctx, s, rnd)
		}
	}
}

// forgetter drops keys of before an instant, again and again: soon after their acceptance these
// are some that are still being retried.
func (w *sinkWorld) forgetter(ctx context.Context, s *Sink, rnd *rand.Rand, before func() time.Time) {
	for ctx.Err() == nil {
		pause(ctx, rnd, 500*time.Millisecond)
		call, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.Int64N(int64(5*time.Second))))
		n, err := s.Forget(call, simResource, before())
		if err == nil && n > 0 {
			w.count("forget")
		}
		if _, err := s.Ledger(call, simResource); err != nil && call.Err() == nil {
			w.violate("ledger: %v", err)
		}
		cancel()
	}
}

// again repeats an effect that is in place, as a later run of the same work does: with a
// token that nobody has raised.
func (w *sinkWorld) again(ctx context.Context, s *Sink, rnd *rand.Rand) {
	w.mu.Lock()
	var done []string
	for _, r := range w.reports {
		if r.outcome == store.OK {
			done = append(done, r.key)
		}
	}
	w.mu.Unlock()
	if len(done) == 0 {
		return
	}
	e := sink.Effect{Key: done[rnd.IntN(len(done))], Intent: "add 1"}
	token := w.tokens.Add(1)
	call, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch a, err := s.Accept(call, simResource, simIssuer, token, e); {
	case err != nil:
		w.count("again-" + sink.OutcomeOf(a, err).String())
	case a.Result != sink.Duplicate:
		w.violate("%s is in place and, with token %d, is answered %s", e.Key, token, a.Result)
	default:
		w.count("again-duplicate")
	}
}

func pause(ctx context.Context, rnd *rand.Rand, most time.Duration) {
	d := time.NewTimer(time.Duration(rnd.Int64N(int64(most))))
	defer d.Stop()
	select {
	case <-d.C:
	case <-ctx.Done():
	}
}

// effect calls Accept, and sometimes again after an unknown outcome.
func (w *sinkWorld) effect(ctx context.Context, s *Sink, rnd *rand.Rand, token int64, e sink.Effect) {
	r := effectReport{key: e.Key, token: token, value: e.Value}
	for {
		call, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.Int64N(int64(5*time.Second))))
		a, err := s.Accept(call, simResource, simIssuer, token, e)
		cancel()
		r.calls++
		r.answer, r.outcome = a, sink.OutcomeOf(a, err)
		w.count("accept-" + r.outcome.String())
		if errors.Is(err, sink.ErrStaleAfterUnknown) {
			w.count("stale-after-unknown")
		}
		if err == nil && a.Result == sink.Duplicate {
			w.count("duplicate")
		}
		if r.outcome != store.Unknown || rnd.IntN(2) == 0 || ctx.Err() != nil {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, r)
}

// judge compares every report with the ledger.
func (w *sinkWorld) judge(t *testing.T) {
	s := newSink(w.db, time.Second)
	kept, err := s.Ledger(t.Context(), simResource)
	if err != nil {
		w.violate("ledger: %v", err)
		return
	}
	var ledger []sink.Entry
	for _, row := range w.db.part(simResource).all {
		ledger = append(ledger, entryOf(row))
	}
	if n := len(ledger) - len(kept); n < 0 || !slices.Equal(kept, ledger[n:]) {
		w.violate("the ledger is %d entries that are not the last of %d", len(kept), len(ledger))
	} else if n > 0 {
		w.count("trimmed")
	}
	accepted := map[string]sink.Entry{}
	var highest, accepts, value int64
	for _, e := range ledger {
		if e.Token < highest {
			w.violate("entry %d: token %d after %d", e.Seq, e.Token, highest)
		}
		highest = max(highest, e.Token)
		if e.Kind != sink.KindAccept {
			continue
		}
		if _, dup := accepted[e.Key]; dup {
			w.violate("key %s accepted twice", e.Key)
		}
		accepted[e.Key] = e
		accepts++
		value = e.Value
	}
	for _, r := range w.reports {
		e, in := accepted[r.key]
		switch {
		case r.outcome == store.OK && (!in || e.Token != r.token || e.Value != r.value || e.Seq != r.answer.Seq || r.answer.FirstToken != r.token):
			w.violate("%+v was reported ok; ledger %+v", r, e)
		case r.outcome == store.Fail && r.calls == 1 && in:
			w.violate("%+v was reported fail; ledger %+v", r, e)
		case r.outcome == store.Fail && r.answer.Result == sink.Stale && r.answer.Seen <= r.token:
			w.violate("%+v is stale without a higher token", r)
		}
	}
	st, err := s.Read(t.Context(), simResource)
	switch {
	case err != nil:
		w.violate("read: %v", err)
	case st.Value != accepts || value != accepts && accepts > 0:
		w.violate("value %d after %d accepted additions: an update was lost", st.Value, accepts)
	}
}

// TestSinkSimulation: no answer lies and no update is lost.
func TestSinkSimulation(t *testing.T) {
	t.Parallel()
	seeds := uint64(800)
	if testing.Short() || race.Enabled {
		seeds = 100
	}
	total := map[string]int{}
	for seed := uint64(1); seed <= seeds; seed++ {
		w := runSinkSim(t, seed, func(*sinkWorld) {})
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed, v)
		}
		if t.Failed() {
			return
		}
		for k, v := range w.counts {
			total[k] += v
		}
	}
	t.Logf("%d runs: %v", seeds, total)
	for _, must := range []string{"raise-ok", "raise-fail", "raise-unknown", "accept-ok", "accept-fail", "accept-unknown", "stale-after-unknown", "duplicate", "again-duplicate", "forget", "trimmed"} {
		if total[must] == 0 {
			t.Errorf("no run met %q", must)
		}
	}
}

// TestSinkSimulationFindsPlantedBugs: each must break a rule within some seeds.
func TestSinkSimulationFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*sinkWorld){
		"no raise on grant":                 func(w *sinkWorld) { w.noRaise = true },
		"raise is not awaited":              func(w *sinkWorld) { w.noAwait = true },
		"the header's condition is ignored": func(w *sinkWorld) { w.db.noHeaderCheck = true },
		"sink-seal-locks-out":               func(w *sinkWorld) { w.forgets, w.db.losesSeals = true, true },
		"a trim's copy counts at any time":  func(w *sinkWorld) { w.forgets, w.trims, w.db.forgetsDrops = true, true, true },
		"a rejection shows no key":          func(w *sinkWorld) { w.db.hidesKeys = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 300; seed++ {
				if w := runSinkSim(t, seed, plant); len(w.violations) > 0 {
					t.Logf("found with seed %d: %s", seed, w.violations[0])
					return
				}
			}
			t.Error("not found within 300 seeds")
		})
	}
}
