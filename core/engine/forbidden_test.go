package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// forbidding is a store that may refuse everything for good.
type forbidding struct {
	store.Shards
	on       *atomic.Bool
	requests *atomic.Int64
}

var errForbidden = &store.Error{Op: "commit", Outcome: store.Fail, Permanent: true, Cause: errors.New("no MODIFY permission: grant it")}

func (f forbidding) refuses() error {
	if !f.on.Load() {
		return nil
	}
	f.requests.Add(1)
	time.Sleep(time.Millisecond)
	return errForbidden
}

func (f forbidding) EnsureQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	if err := f.refuses(); err != nil {
		return store.Queue{}, err
	}
	return f.Shards.EnsureQueue(ctx, queue, shards)
}

func (f forbidding) Commit(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
	if err := f.refuses(); err != nil {
		return store.CommitResult{}, err
	}
	return f.Shards.Commit(ctx, id, b, n)
}

func (f forbidding) InboxPut(ctx context.Context, id store.ShardID, r store.InboxRow, n int) (bool, string, error) {
	if err := f.refuses(); err != nil {
		return false, "", err
	}
	return f.Shards.InboxPut(ctx, id, r, n)
}

// refusedFor checks that a caller was told what to do, within a tenth of the ttl.
func refusedFor(t *testing.T, what string, call func(context.Context) error) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := call(ctx)
	if !store.IsPermanent(err) || store.OutcomeOf(err) != store.Fail || !strings.Contains(err.Error(), "grant it") || time.Since(start) > 600*time.Millisecond {
		t.Errorf("%s: %v after %v", what, err, time.Since(start))
	}
}

// TestARevokedPermission: a caller is told at once why its request is refused for
// good, with the remedy. The owner tries until it is not trusted any more; then the shard
// is left alone but for a try a minute. The log has it once, and once more when the permission
// is revoked again.
func TestARevokedPermission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var on atomic.Bool
		var requests, runs atomic.Int64
		var log bytes.Buffer
		r := runOver(t, sim.New(), "w", func(context.Context, *worker.Task) error { runs.Add(1); return nil }, over(func(s store.Shards) store.Shards {
			return forbidding{s, &on, &requests}
		}), func(_ *rig, o *engine.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		later := aJob("later")
		later.Due = time.Now().Add(time.Hour)
		r.put(t, later)
		on.Store(true)
		put := func(ctx context.Context) error { _, err := r.eng.Submit(ctx, aJob("a")); return err }
		refusedFor(t, "the first enqueue", put)
		refusedFor(t, "the next one", put)
		refusedFor(t, "a cancel", func(ctx context.Context) error { return r.command(ctx, engine.CancelJob, later.ID) })
		refusedFor(t, "a pause", func(ctx context.Context) error { _, err := r.eng.SetPaused(ctx, shard0, true); return err })
		if !r.eng.Owns(shard0) {
			t.Error("the shard was given up while it was trusted")
		}
		time.Sleep(10 * time.Second)
		if r.eng.Owns(shard0) {
			t.Error("the shard is owned without a tick")
		}
		refusedFor(t, "an insert into the inbox", put)
		before := requests.Load()
		time.Sleep(24 * time.Hour)
		if n := requests.Load() - before; n > 3*24*60 {
			t.Errorf("%d requests in a day", n)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "grant it") {
			t.Errorf("the log has %d lines: %s", n, log.String())
		}
		on.Store(false)
		time.Sleep(2 * time.Minute)
		if _, err := r.eng.Enqueue(t.Context(), aJob("a")); err != nil {
			t.Error("after the permission is back:", err)
		}
		time.Sleep(time.Minute)
		if runs.Load() != 2 {
			t.Errorf("%d of 2 jobs ran", runs.Load())
		}
		on.Store(true)
		refusedFor(t, "an enqueue after it was revoked again", put)
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("then the log has %d lines: %s", n, log.String())
		}
		on.Store(false)
		r.end(t)
	})
}

// TestNoPermissionAtTheStart: the engine does not begin to wait.
func TestNoPermissionAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var on atomic.Bool
		var requests atomic.Int64
		on.Store(true)
		o := options("w", worker.New(worker.Options{Logger: quiet}))
		e, err := engine.New(forbidding{sim.New().Connect("w", 1), &on, &requests}, o)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := e.Run(ctx); !store.IsPermanent(err) || time.Since(start) > o.TTL {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestUnreadableRows: a command whose job's rows may not be read is refused, others are
// carried out.
func TestUnreadableRows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnRow: func(context.Context, store.ShardID, store.Key) (*store.Row, error) { return nil, errForbidden }}
		}))
		refusedFor(t, "a cancel", func(ctx context.Context) error { return r.command(ctx, engine.CancelJob, aJob("none").ID) })
		if _, err := r.eng.Enqueue(t.Context(), aJob("a")); err != nil {
			t.Error(err)
		}
		r.end(t)
	})
}

// TestANodeThatRefusesAlone: it may lack a table that all others have. Another one is asked for a
// job's rows, and the command is carried out.
func TestANodeThatRefusesAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var reads atomic.Int64
		r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnRow: func(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
				if reads.Add(1) == 1 {
					return nil, errForbidden
				}
				return s.Row(ctx, id, k)
			}}
		}))
		j := aJob("far")
		j.Due = time.Now().Add(24 * time.Hour)
		r.put(t, j)
		if err := r.command(t.Context(), engine.CancelJob, j.ID); err != nil || reads.Load() < 2 {
			t.Errorf("%v after %d reads", err, reads.Load())
		}
		r.end(t)
	})
}

// TestRowsThatMayNotBeRead: who waits for a command is told that the store refuses to show one of the
// job's rows for good, whichever it is.
func TestRowsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]store.Kind{"its state": store.KindJob, "its place": store.KindPending} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
					return mistake.Shards{Shards: s, OnRow: func(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
						if k.Kind == kind {
							return nil, errForbidden
						}
						return s.Row(ctx, id, k)
					}}
				}))
				j := aJob("far")
				j.Due = time.Now().Add(24 * time.Hour)
				r.put(t, j)
				refusedFor(t, "a cancel", func(ctx context.Context) error { return r.command(ctx, engine.CancelJob, j.ID) })
				r.end(t)
			})
		})
	}
}

// outcomes counts what many callers are told.
type outcomes struct{ ok, busy, stalled, other atomic.Int64 }

func (o *outcomes) take(err error) {
	switch {
	case err == nil:
		o.ok.Add(1)
	case errors.Is(err, engine.ErrBusy) && store.OutcomeOf(err) == store.Fail:
		o.busy.Add(1)
	case errors.Is(err, engine.ErrStalled) && store.OutcomeOf(err) == store.Fail:
		o.stalled.Add(1)
	default:
		o.other.Add(1)
	}
}

// TestNobodyWaitsForAStalledShard: when a batch is not answered in time, those who wait for
// the next one are told so, and those who come, until it is settled.
func TestNobodyWaitsForAStalledShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bad atomic.Bool
		r := runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				if bad.Load() {
					<-c.Ctx.Done()
					return store.CommitResult{}, &store.Error{Op: "commit", Outcome: store.Unknown, Cause: context.Cause(c.Ctx)}
				}
				return c.Send()
			}}
		}))
		bad.Store(true)
		var told outcomes
		put := func(n int) {
			_, err := r.eng.Enqueue(t.Context(), aJob(fmt.Sprint(n)))
			told.take(err)
		}
		for n := range 200 {
			go put(n)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(1200 * time.Millisecond) // a copy's time is a second
		if n := told.stalled.Load(); n != 199 {
			t.Errorf("%d of 199 were told that the shard is stalled", n)
		}
		put(1000)
		if n := told.stalled.Load(); n != 200 {
			t.Error("who came later was not told at once")
		}
		bad.Store(false)
		time.Sleep(5 * time.Second)
		put(1001)
		if told.ok.Load() != 2 || told.other.Load() != 0 {
			t.Errorf("afterwards %d were enqueued, and %d told something else", told.ok.Load(), told.other.Load())
		}
		r.end(t)
	})
}

// TestFewWaitForAnInbox: inserts go one by one, so that only a few may wait for theirs. When
// these are done there is room again.
func TestFewWaitForAnInbox(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		a := run(t, s, "a", nothing)
		b := run(t, s, "b", nothing)
		b.session.SetFaults(sim.Faults{Latency: 300 * time.Millisecond})
		var told outcomes
		for n := range 100 {
			go func() {
				_, err := b.eng.Submit(t.Context(), aJob(fmt.Sprint(n)))
				told.take(err)
			}()
		}
		time.Sleep(100 * time.Millisecond)
		if n := told.stalled.Load(); n != 84 {
			t.Errorf("%d of 84 were told at once that there is no room in the inbox", n)
		}
		time.Sleep(time.Minute)
		if told.ok.Load() != 16 || told.other.Load() != 0 {
			t.Errorf("%d of 16 were enqueued, %d told something else", told.ok.Load(), told.other.Load())
		}
		if rec, err := b.eng.Submit(t.Context(), aJob("later")); err != nil || !rec.Inbox {
			t.Errorf("afterwards: %+v, %v", rec, err)
		}
		a.end(t)
		b.end(t)
	})
}
