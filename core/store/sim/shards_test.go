package sim_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/store/storetest"
)

func TestShardConformance(t *testing.T) {
	t.Parallel()
	s := sim.New().Connect("p", 1)
	storetest.RunShards(t, s, "conformance", func(name string, f func(storetest.T)) {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
	})
}

// brokenShards changes the requests to, or the answers of, a store.
type brokenShards struct {
	store.Shards
	batch  func(*store.Batch)
	result func(*store.CommitResult)
	rng    func(*store.Range)
	nonce  func(*string)
}

func (b brokenShards) Commit(ctx context.Context, id store.ShardID, batch store.Batch, n int) (store.CommitResult, error) {
	batch.Ops = append([]store.Op(nil), batch.Ops...)
	if b.batch != nil {
		b.batch(&batch)
	}
	res, err := b.Shards.Commit(ctx, id, batch, n)
	if b.result != nil {
		b.result(&res)
	}
	return res, err
}

func (b brokenShards) Scan(ctx context.Context, id store.ShardID, r store.Range) ([]store.Row, error) {
	if b.rng != nil {
		b.rng(&r)
	}
	return b.Shards.Scan(ctx, id, r)
}

func (b brokenShards) InboxDelete(ctx context.Context, id store.ShardID, job, nonce string, n int) (bool, error) {
	if b.nonce != nil {
		for _, row := range must(b.Shards.InboxScan(ctx, id, "", store.AboveAll, 1000)) {
			nonce = row.Nonce
		}
	}
	return b.Shards.InboxDelete(ctx, id, job, nonce, n)
}

func must[T any](v T, _ error) T { return v }

func ops(f func(*store.Op)) func(*store.Batch) {
	return func(b *store.Batch) {
		for n := range b.Ops {
			f(&b.Ops[n])
		}
	}
}

// TestShardConformanceFindsBrokenStores: the suite must fail on stores that are
// not what the engine needs.
func TestShardConformanceFindsBrokenStores(t *testing.T) {
	t.Parallel()
	match := func(f func(row, from store.Stamp) bool) func(*sim.Store, *brokenShards) {
		return func(s *sim.Store, _ *brokenShards) { s.MatchStamp = f }
	}
	for name, breakIt := range map[string]func(*sim.Store, *brokenShards){
		"nothing is compared":        match(func(_, _ store.Stamp) bool { return true }),
		"the fence is not compared":  match(func(r, f store.Stamp) bool { return r.Tick == f.Tick && r.Nonce == f.Nonce }),
		"the tick is not compared":   match(func(r, f store.Stamp) bool { return r.Fence == f.Fence && r.Nonce == f.Nonce }),
		"the nonce is not compared":  match(func(r, f store.Stamp) bool { return r.Fence == f.Fence && r.Tick == f.Tick }),
		"rejections show no stamp":   func(_ *sim.Store, b *brokenShards) { b.result = func(r *store.CommitResult) { r.Stamp = nil } },
		"rejections name no row":     func(_ *sim.Store, b *brokenShards) { b.result = func(r *store.CommitResult) { r.Exists = nil } },
		"applied is told of nothing": func(_ *sim.Store, b *brokenShards) { b.result = func(r *store.CommitResult) { r.Applied = false } },
		"put-new overwrites": func(_ *sim.Store, b *brokenShards) {
			b.batch = ops(func(o *store.Op) {
				if o.Kind == store.PutNew {
					o.Kind = store.Put
				}
			})
		},
		"put refuses to overwrite": func(_ *sim.Store, b *brokenShards) {
			b.batch = ops(func(o *store.Op) {
				if o.Kind == store.Put {
					o.Kind = store.PutNew
				}
			})
		},
		"bodies are lost": func(_ *sim.Store, b *brokenShards) { b.batch = ops(func(o *store.Op) { o.Row.Body = nil }) },
		"the last row is lost": func(_ *sim.Store, b *brokenShards) {
			b.batch = func(b *store.Batch) { b.Ops = b.Ops[:max(len(b.Ops)-1, 0)] }
		},
		"ranges end early": func(_ *sim.Store, b *brokenShards) {
			b.batch = ops(func(o *store.Op) {
				if o.Kind == store.DeleteUpTo {
					o.Row.At--
				}
			})
		},
		"the owner is not stored":                  func(_ *sim.Store, b *brokenShards) { b.batch = func(b *store.Batch) { b.To.Owner = "" } },
		"waits are not stored":                     func(_ *sim.Store, b *brokenShards) { b.batch = ops(func(o *store.Op) { o.Row.Wait = 0 }) },
		"places are not stored":                    func(_ *sim.Store, b *brokenShards) { b.batch = ops(func(o *store.Op) { o.Row.Place = 0 }) },
		"the highest clock is not stored":          func(_ *sim.Store, b *brokenShards) { b.batch = func(b *store.Batch) { b.To.Wall = 0 } },
		"marks are not stored":                     func(_ *sim.Store, b *brokenShards) { b.batch = func(b *store.Batch) { b.To.LowRunning = 0 } },
		"scans are not limited":                    func(_ *sim.Store, b *brokenShards) { b.rng = func(r *store.Range) { r.Limit = 1000 } },
		"scans have no end":                        func(_ *sim.Store, b *brokenShards) { b.rng = func(r *store.Range) { r.UpTo = 1 << 62 } },
		"scans begin at the start":                 func(_ *sim.Store, b *brokenShards) { b.rng = func(r *store.Range) { r.AfterAt = -1 } },
		"an inbox row is deleted by its job alone": func(_ *sim.Store, b *brokenShards) { b.nonce = func(*string) {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sim.New()
			b := brokenShards{Shards: s.Connect("p", 1)}
			breakIt(s, &b)
			var f failures
			storetest.RunShards(&f, b, "broken", func(_ string, run func(storetest.T)) { run(&f) })
			if f.n.Load() == 0 {
				t.Error("the conformance suite passes")
			}
		})
	}
}

// TestShardFates: a batch takes its chances as other requests do, and a refused
// one is not done.
func TestShardFates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		p := s.Connect("p", 1)
		id := store.ShardID{Queue: "q"}
		if _, err := p.EnsureQueue(t.Context(), "q", 1); err != nil {
			t.Fatal(err)
		}
		s.Refuses = func(b store.Batch) bool { return len(b.Ops) > 0 }
		to := store.Header{Stamp: store.Stamp{Tick: 1, Nonce: "n"}}
		poison := store.Batch{To: to, Ops: []store.Op{{Kind: store.Put, Row: store.Row{Key: store.Key{Kind: 1, ID: "a"}}}}}
		if _, err := p.Commit(t.Context(), id, poison, 0); store.OutcomeOf(err) != store.Fail {
			t.Errorf("a refused batch: %v", err)
		}
		p.SetFaults(sim.Faults{Latency: time.Second, Late: 1, LateBy: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.Commit(ctx, id, store.Batch{To: to}, 0); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("a late batch: %v", err)
		}
		if n := len(s.ShardChanges()); n != 0 {
			t.Errorf("%d batches were applied already", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(s.ShardChanges()); n != 1 {
			t.Errorf("%d batches were applied at the end", n)
		}
	})
}

// TestPause: a process that stands still neither sends nor hears anything, and
// does not miss what came meanwhile.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		p := s.Connect("p", 1)
		p.SetFaults(sim.Faults{Latency: time.Millisecond})
		begun := time.Now()
		p.Pause(time.Minute)
		if _, err := p.EnsureQueue(t.Context(), "q", 1); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d < time.Minute {
			t.Errorf("answered after %s", d)
		}
		p.Pause(time.Hour)
		done := make(chan error)
		go func() {
			_, err := p.Look(t.Context(), store.ShardID{Queue: "q"}, true)
			done <- err
		}()
		synctest.Wait()
		p.Crash()
		if err := <-done; err == nil {
			t.Error("a crashed process was answered")
		}
	})
}

// TestShardReplay: goroutines that send at one instant, in whatever order, meet
// the same fates under one seed.
func TestShardReplay(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) string {
		out := make([]string, 20)
		synctest.Test(t, func(t *testing.T) {
			s := sim.New()
			p := s.Connect("p", seed)
			_, _ = p.EnsureQueue(t.Context(), "q", 20)
			p.SetFaults(sim.Faults{Latency: time.Millisecond, LoseRequest: 0.2, LoseReply: 0.2, Refuse: 0.2})
			done := make(chan bool)
			for n := range out {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					begun := time.Now()
					_, err := p.Commit(ctx, store.ShardID{Queue: "q", Shard: n}, store.Batch{To: store.Header{Stamp: store.Stamp{Tick: 1}}}, 0)
					out[n] = fmt.Sprint(store.OutcomeOf(err), time.Since(begun))
					done <- true
				}()
			}
			for range out {
				<-done
			}
		})
		return fmt.Sprint(out)
	}
	first := run(1)
	for range 3 {
		if run(1) != first {
			t.Error("two runs of one seed differ")
		}
	}
	if run(2) == first {
		t.Error("runs of two seeds are the same")
	}
}

// TestDeadRows: a scan fails that passes more deleted rows than MaxDead, until a range
// deletion stands for them, or rows are there again.
func TestDeadRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		s.MaxDead = 3
		p, id := s.Connect("p", 1), store.ShardID{Queue: "q"}
		if _, err := p.EnsureQueue(t.Context(), "q", 1); err != nil {
			t.Fatal(err)
		}
		tick := int64(0)
		commit := func(kind store.OpKind, ats ...int64) {
			b := store.Batch{From: store.Stamp{Tick: tick, Nonce: nonce(tick)}}
			tick++
			b.To.Stamp = store.Stamp{Tick: tick, Nonce: nonce(tick)}
			for _, at := range ats {
				b.Ops = append(b.Ops, store.Op{Kind: kind, Row: store.Row{Key: store.Key{Kind: store.KindDLQ, At: at, ID: "a"}}})
			}
			if res, err := p.Commit(t.Context(), id, b, 0); err != nil || !res.Applied {
				t.Fatal(res, err)
			}
		}
		scan := func(what string, after, upTo int64, limit, want int) {
			t.Helper()
			rows, err := p.Scan(t.Context(), id, store.Range{Kind: store.KindDLQ, AfterAt: after, AfterID: "\x7f", UpTo: upTo, Limit: limit})
			if failed := errors.Is(err, sim.ErrDead); failed != (want < 0) || !failed && (err != nil || len(rows) != want) {
				t.Errorf("%s: %d rows, %v", what, len(rows), err)
			}
		}
		commit(store.Put, 1, 2, 3, 4, 5, 6)
		commit(store.Delete, 2, 3, 4, 5)
		scan("all", 0, 9, 9, -1)
		scan("behind the first of them", 2, 9, 9, 1)
		scan("before the last of them", 0, 4, 9, 1)
		scan("a page that is full before", 0, 9, 1, 1)
		commit(store.Put, 3)
		scan("one is there again", 0, 9, 9, 3)
		commit(store.Delete, 3)
		commit(store.DeleteUpTo, 4)
		scan("a range deletion", 0, 9, 9, 1)
		if n := len(s.Overrun()); n != 1 {
			t.Errorf("%d scans failed", n)
		}

		for n := range 4 {
			r := store.InboxRow{ID: fmt.Sprint(n), Nonce: "n"}
			if _, _, err := p.InboxPut(t.Context(), id, r, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := p.InboxDelete(t.Context(), id, r.ID, r.Nonce, 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.InboxScan(t.Context(), id, "", store.AboveAll, 9); !errors.Is(err, sim.ErrDead) {
			t.Errorf("an inbox of deleted rows: %v", err)
		}
		if _, err := p.InboxScan(t.Context(), id, "0", store.AboveAll, 9); err != nil {
			t.Errorf("behind the first of them: %v", err)
		}
	})
}

func nonce(tick int64) string {
	if tick == 0 {
		return ""
	}
	return fmt.Sprint("n", tick)
}
