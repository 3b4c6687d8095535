package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestWhoWaitsBehindABatch: when the batch on its way has an answer that ends the ownership, or
// the engine stops meanwhile, the callers behind it learn at once that nothing was done. An answer
// that nobody understands ends the ownership too.
func TestWhoWaitsBehindABatch(t *testing.T) {
	t.Parallel()
	taken := func(c mistake.Copy) store.CommitResult {
		stamp := c.Batch.From
		stamp.Fence++
		return store.CommitResult{Stamp: &stamp}
	}
	strange := func(c mistake.Copy) store.CommitResult { // nothing that the batch inserts
		return store.CommitResult{Stamp: &c.Batch.From, Exists: []store.Key{{Kind: store.KindJob, ID: "another"}}}
	}
	for name, c := range map[string]struct {
		answer func(mistake.Copy) store.CommitResult // nil: the engine stops
		rider  error
		waiter error
	}{
		"the shard is another's":           {taken, engine.ErrTaken, engine.ErrNotOwner},
		"rejected for a row of no account": {strange, engine.ErrTaken, engine.ErrNotOwner},
		"the engine stops":                 {nil, nil, engine.ErrStopping},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { waitBehind(t, c.answer, c.rider, c.waiter) })
		})
	}
}

func waitBehind(t *testing.T, answer func(mistake.Copy) store.CommitResult, rider, waiter error) {
	var held atomic.Bool
	release := make(chan struct{})
	r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
		return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
			if !mistake.Has(c.Batch, func(op store.Op) bool { return op.Kind == store.PutNew }) || !held.CompareAndSwap(false, true) {
				return c.Send()
			}
			<-release
			if answer == nil {
				return c.Send()
			}
			return answer(c), nil
		}}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask := func(do func() error) chan error {
		told := make(chan error, 1)
		go func() { told <- do() }()
		time.Sleep(time.Millisecond)
		return told
	}
	put := func(key string) func() error {
		return func() error { _, err := r.eng.Enqueue(ctx, aJob(key)); return err }
	}
	rides := ask(put("rides"))
	waits := map[string]chan error{"an enqueue": ask(put("waits")), "a pause": ask(func() error {
		_, err := r.eng.SetPaused(ctx, shard0, true)
		return err
	})}
	told := func(who string, from chan error, want error) {
		t.Helper()
		select {
		case err := <-from:
			if !errors.Is(err, want) || want != nil && store.OutcomeOf(err) != store.Fail {
				t.Errorf("%s was told %v, want %v", who, err, want)
			}
		case <-time.After(100 * time.Millisecond):
			t.Errorf("%s is not told", who)
		}
	}
	if answer == nil {
		r.stop()
	} else {
		close(release)
	}
	for who, from := range waits {
		told(who, from, waiter)
	}
	if answer == nil {
		close(release)
	}
	told("who rides", rides, rider)
	r.end(t)
}

// TestATakeoverThatTheStoreRefuses has three copies. Then the contender leaves the shard alone
// for an eighth of the ttl, as between two looks, and tries as another takeover.
func TestATakeoverThatTheStoreRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const tries = 20
		type try struct {
			nonce       string
			copies      int
			first, last time.Time
		}
		var seen []try // by the goroutine of the shard alone, until it owns that
		r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				if !c.Takeover() {
					return c.Send()
				}
				if n := len(seen); n == 0 || seen[n-1].nonce != c.Batch.To.Nonce {
					seen = append(seen, try{nonce: c.Batch.To.Nonce, first: time.Now()})
				}
				at := &seen[len(seen)-1]
				at.copies, at.last = at.copies+1, time.Now()
				if len(seen) > tries {
					return c.Send()
				}
				return store.CommitResult{}, &store.Error{Op: "commit", Outcome: store.Fail, Cause: errors.New("refused")}
			}}
		}))
		time.Sleep(time.Minute)
		r.put(t, aJob("a"))
		r.end(t)
		if len(seen) != tries+1 {
			t.Fatalf("%d takeovers, want %d", len(seen), tries+1)
		}
		for n, s := range seen[:tries] {
			pause := seen[n+1].first.Sub(s.last)
			if eighth := 6 * time.Second / 8; s.copies != 3 || pause < eighth || pause > eighth+eighth/4 {
				t.Errorf("%d copies, and the next takeover after %s", s.copies, pause)
			}
		}
		if st, _ := r.state(aJob("a").ID); st != job.Completed {
			t.Errorf("in the end the job is %s", st)
		}
	})
}

// TestALookThatIsRefused for good is told once, with the remedy, and the store is left alone for a
// while after each.
func TestALookThatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var looks atomic.Int64
		var log bytes.Buffer
		r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards { return unreadable{s, &looks} }), func(_ *rig, o *engine.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		time.Sleep(time.Hour)
		if n := looks.Load(); n < 30 || n > 65 {
			t.Errorf("%d looks in an hour", n)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "grant it") {
			t.Errorf("the log has %d lines: %s", n, log.String())
		}
		r.end(t)
	})
}

// unreadable is a store that refuses to show headers.
type unreadable struct {
	store.Shards
	looks *atomic.Int64
}

func (u unreadable) Look(context.Context, store.ShardID, bool) (*store.Header, error) {
	u.looks.Add(1)
	return nil, &store.Error{Op: "look", Outcome: store.Fail, Permanent: true, Cause: errors.New("no SELECT permission: grant it")}
}

// TestFencesEnd: nobody takes a shard over whose fence is the last one there is.
func TestFencesEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		queue, operator := engine.Queue{Name: "q", Shards: 1}, s.Connect("operator", 1)
		if err := engine.RaiseFences(t.Context(), operator, queue, 1); err != nil {
			t.Fatal(err)
		}
		h, _ := s.ShardRows(shard0)
		if err := engine.RaiseFences(t.Context(), operator, queue, job.MaxFence-h.Fence); err != nil {
			t.Fatal(err)
		}
		r := runOver(t, s, "w", nothing, func(_ *rig, o *engine.Options) { o.Logger = quiet })
		time.Sleep(time.Minute)
		if h, _ := s.ShardRows(shard0); r.eng.Owns(shard0) || h.Fence != job.MaxFence {
			t.Errorf("it owns the shard: %v; the fence is %d, and the last one %d", r.eng.Owns(shard0), h.Fence, int64(job.MaxFence))
		}
		r.end(t)
	})
}

// TestAShardThatIsNotThereYet: a plain read may miss the header that was just inserted. The
// contender looks again, and owns the shard when it shows.
func TestAShardThatIsNotThereYet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shows := time.Now().Add(10 * time.Second)
		r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards { return unseen{s, shows} }))
		time.Sleep(time.Until(shows) - time.Second)
		if r.eng.Owns(shard0) {
			t.Error("it owns a shard that it has not seen")
		}
		time.Sleep(3 * time.Second)
		if !r.eng.Owns(shard0) {
			t.Error("it does not own the shard")
		}
		r.end(t)
	})
}

// unseen is a store whose plain reads show no header for a while.
type unseen struct {
	store.Shards
	shows time.Time
}

func (u unseen) Look(ctx context.Context, id store.ShardID, serial bool) (*store.Header, error) {
	if !serial && time.Now().Before(u.shows) {
		return nil, nil
	}
	return u.Shards.Look(ctx, id, serial)
}
