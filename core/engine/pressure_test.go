package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// over puts another store between an engine and its session.
func over(wrap func(store.Shards) store.Shards) func(r *rig, o *engine.Options) {
	return func(r *rig, _ *engine.Options) { r.shards = wrap(r.session) }
}

// TestARefusedBatchDoesNotWaitForSlots: claims of a batch that the store refused lose
// their slots; others take these and keep them. Nothing else may wait behind.
func TestARefusedBatchDoesNotWaitForSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var refusals atomic.Int64
		var r *rig
		r = runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				if !mistake.Has(c.Batch, func(op store.Op) bool { return op.Row.Kind == store.KindRunning }) || refusals.Add(1) > 3 {
					return c.Send()
				}
				if refusals.Load() == 3 {
					// When this answer has come the slots are free for a moment.
					time.AfterFunc(time.Microsecond, func() { r.pool.Reserve(2) })
				}
				return store.CommitResult{}, &store.Error{Outcome: store.Fail, Cause: errors.New("unavailable")}
			}}
		}))
		for _, key := range []string{"a", "b"} {
			r.put(t, aJob(key))
		}
		time.Sleep(3 * time.Second)
		if refusals.Load() != 3 || r.pool.Free() != 0 {
			t.Fatalf("%d refusals, %d slots are free: not the situation", refusals.Load(), r.pool.Free())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := r.eng.Enqueue(ctx, aJob("c")); err != nil {
			t.Errorf("an enqueue behind claims without slots: %v", err)
		}
		r.pool.Release(2)
		time.Sleep(time.Second)
		for _, key := range []string{"a", "b", "c"} {
			if s, _ := r.state(aJob(key).ID); s != job.Completed {
				t.Errorf("%s is %q", key, s)
			}
		}
		r.end(t)
	})
}

// slowReads does not answer what is larger than so many bytes.
func slowReads(most int) func(store.Shards) store.Shards {
	return func(s store.Shards) store.Shards { return &slowStore{Shards: s, most: most} }
}

type slowStore struct {
	store.Shards
	most int
}

func (s *slowStore) late(ctx context.Context, size int, err error) error {
	if err != nil || size <= s.most {
		return err
	}
	<-ctx.Done()
	return &store.Error{Op: "read", Outcome: store.Unknown, Cause: context.Cause(ctx)}
}

func (s *slowStore) Scan(ctx context.Context, id store.ShardID, r store.Range) ([]store.Row, error) {
	rows, err := s.Shards.Scan(ctx, id, r)
	size := 0
	for _, row := range rows {
		size += len(row.Body)
	}
	return rows, s.late(ctx, size, err)
}

func (s *slowStore) InboxScan(ctx context.Context, id store.ShardID, after, upTo string, limit int) ([]store.InboxRow, error) {
	rows, err := s.Shards.InboxScan(ctx, id, after, upTo, limit)
	size := 0
	for _, row := range rows {
		size += len(row.Body)
	}
	return rows, s.late(ctx, size, err)
}

// TestPagesThatAreTooMuch: a page of large jobs that the store does not answer in time
// is not asked for again and again as it is.
func TestPagesThatAreTooMuch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		a := run(t, s, "a", func(ctx context.Context, _ *worker.Task) error { return clock.Go().Sleep(ctx, time.Hour) })
		large := func(key string) job.Job {
			j := aJob(key)
			j.Payload, j.MaxDuration = make([]byte, 1000), 2*time.Hour
			return j
		}
		for n := range 20 { // two of them run
			a.put(t, large(fmt.Sprint("pending ", n)))
		}
		inbox := engine.Inbox{Store: a.session, Clock: clock.Go()}
		a.session.Pause(time.Minute)
		b := s.Connect("client", 1)
		inbox.Store = b
		for n := range 20 {
			if _, err := inbox.Enqueue(t.Context(), large(fmt.Sprint("inbox ", n)), 1); err != nil {
				t.Fatal(err)
			}
		}
		a.session.Crash()
		var done atomic.Int64
		r := runOver(t, s, "b", func(context.Context, *worker.Task) error { done.Add(1); return nil }, over(slowReads(5000)))
		time.Sleep(time.Minute)
		if n := done.Load(); n != 40 {
			t.Errorf("%d of 40 jobs have run", n)
		}
		r.end(t)
		a.end(t)
	})
}

// TestInboxRowsAreDeletedOneAfterTheOther: deletions are conditional, on one partition.
func TestInboxRowsAreDeletedOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		var now, most, all atomic.Int64
		inbox := engine.Inbox{Store: s.Connect("client", 1), Clock: clock.Go()}
		if _, err := s.Connect("client", 1).EnsureQueue(t.Context(), "q", 1); err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			if _, err := inbox.Enqueue(t.Context(), aJob(fmt.Sprint(n)), 1); err != nil {
				t.Fatal(err)
			}
		}
		r := runOver(t, s, "w", nothing, over(func(s store.Shards) store.Shards {
			return deletions{s, func() func() {
				all.Add(1)
				most.Store(max(most.Load(), now.Add(1)))
				return func() { now.Add(-1) }
			}}
		}))
		time.Sleep(time.Minute)
		if most.Load() != 1 || all.Load() != 100 || len(s.InboxRows(shard0)) != 0 {
			t.Errorf("%d deletions, up to %d at once, %d rows are left", all.Load(), most.Load(), len(s.InboxRows(shard0)))
		}
		r.end(t)
	})
}

// deletions watches those of inbox rows.
type deletions struct {
	store.Shards
	begun func() (ended func())
}

func (d deletions) InboxDelete(ctx context.Context, id store.ShardID, job, nonce string, n int) (bool, error) {
	defer d.begun()()
	return d.Shards.InboxDelete(ctx, id, job, nonce, n)
}

// TestMemoryIsBounded in bytes: enqueues are refused, and what is in the inbox stays
// there, until there is room again.
func TestMemoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		go_ := make(chan struct{})
		r := run(t, sim.New(), "w", func(ctx context.Context, _ *worker.Task) error {
			select {
			case <-go_:
			case <-ctx.Done():
			}
			return nil
		}, func(o *engine.Options) { o.MaxPendingBytes, o.InboxPoll = 20_000, time.Second })
		large := func(key string) job.Job {
			j := aJob(key)
			j.Payload = make([]byte, 3000) // 4,000 in JSON
			return j
		}
		taken := 0
		for n := range 20 {
			_, err := r.eng.Enqueue(t.Context(), large(fmt.Sprint(n)))
			switch {
			case err == nil:
				taken++
			case !errors.Is(err, engine.ErrBusy):
				t.Error(err)
			}
		}
		if taken < 3 || taken > 6 {
			t.Errorf("%d jobs were taken", taken)
		}
		inbox := engine.Inbox{Store: r.session, Clock: clock.Go()}
		if _, err := inbox.Enqueue(t.Context(), large("inbox"), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if len(r.store.InboxRows(shard0)) != 1 {
			t.Error("a job was taken from the inbox though memory is full")
		}
		close(go_)
		time.Sleep(5 * time.Second)
		if s, _ := r.state(large("inbox").ID); s != job.Completed {
			t.Errorf("the job in the inbox is %q", s)
		}
		for n := range 20 {
			if _, err := r.eng.Enqueue(t.Context(), large(fmt.Sprint("later ", n))); err != nil {
				t.Errorf("enqueue %d when there is room again: %v", n, err)
			}
		}
		r.end(t)
	})
}

// TestARowOfTheInboxThatIsNoJob: it was acknowledged, so it goes to the dead letter
// queue, once.
func TestARowOfTheInboxThatIsNoJob(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(j job.Job) (id string, body string){
		"not JSON": func(j job.Job) (string, string) { return string(j.ID), "{" },
		"another's row": func(j job.Job) (string, string) {
			b, _ := aJob("other").WithDefaults().Encode()
			return string(j.ID), string(b)
		},
		"another queue": func(j job.Job) (string, string) { j.Queue = "z"; b, _ := j.Encode(); return string(j.ID), string(b) },
		"no attempts": func(j job.Job) (string, string) {
			j.MaxAttempts = -1
			b, _ := j.Encode()
			return string(j.ID), string(b)
		},
		"another number": func(j job.Job) (string, string) {
			j.ID = "7-" + j.ID[2:]
			b, _ := j.Encode()
			return string(j.ID), string(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := run(t, sim.New(), "w", func(context.Context, *worker.Task) error { t.Error("it ran"); return nil })
				id, body := row(aJob("a").WithDefaults())
				if ok, _, err := r.session.InboxPut(t.Context(), shard0, store.InboxRow{ID: id, Nonce: "n", Body: []byte(body)}, 0); err != nil || !ok {
					t.Fatal(ok, err)
				}
				time.Sleep(10 * time.Second)
				if s, _ := r.state(job.ID(id)); s != job.DLQ || len(r.store.InboxRows(shard0)) != 0 {
					t.Errorf("it is %q, inbox %v", s, r.store.InboxRows(shard0))
				}
				_, rows := r.store.ShardRows(shard0)
				for _, x := range rows {
					if x.Kind == store.KindDLQ && (string(x.Body) != body || !strings.Contains(x.Note, "no job")) {
						t.Errorf("in the dead letter queue: %+v", x)
					}
				}
				r.end(t)
			})
		})
	}
}

// TestWhatFailsAgainAndAgainIsSaid, and not too often.
func TestWhatFailsAgainAndAgainIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(writer(func(p []byte) {
			mu.Lock()
			defer mu.Unlock()
			said.Write(p)
		}), nil))
		r := runOver(t, sim.New(), "w", nil, over(slowReads(-1)), func(_ *rig, o *engine.Options) { o.Logger = log })
		time.Sleep(time.Minute)
		mu.Lock()
		n := strings.Count(said.String(), "cannot be read")
		mu.Unlock()
		if n < 5 || n > 15 {
			t.Errorf("said %d times in a minute:\n%s", n, said.String())
		}
		r.end(t)
	})
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
