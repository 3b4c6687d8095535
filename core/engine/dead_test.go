package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/query"
	"fencepost/core/service/query/querytest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// deadRows is a store whose scans fail beyond 700 deleted rows, for engines that have
// TrimEvery at 1: Cassandra lets 1000 times TrimEvery pass by default. The test fails if
// one did.
func deadRows(t *testing.T) *sim.Store {
	s := sim.New()
	s.MaxDead = 700
	t.Cleanup(func() {
		if failed := s.Overrun(); len(failed) > 0 {
			t.Errorf("%d scans failed, first: %v", len(failed), failed[0])
		}
	})
	return s
}

// slots replaces the rig's pool by a larger one.
func slots(n int, h worker.Handler) func(*rig, *engine.Options) {
	return func(r *rig, o *engine.Options) {
		r.pool = worker.New(worker.Options{Slots: n, Handlers: map[string]worker.Handler{"k": h}, Clock: clock.Go(), Logger: quiet})
		o.Executor, o.TrimEvery = r.pool, 1
	}
}

func (r *rig) count(kind store.Kind, which func(store.Row) bool) (n int) {
	_, rows := r.store.ShardRows(shard0)
	for _, row := range rows {
		if row.Kind == kind && (which == nil || which(row)) {
			n++
		}
	}
	return n
}

// crash ends a rig's process without a word.
func (r *rig) crash(t *testing.T) {
	r.session.Crash()
	r.end(t)
}

// TestSweepAfterALongTime: what was not swept for longer than the window is swept page
// by page, each from where the one before ended.
func TestSweepAfterALongTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := deadRows(t)
		const look = 10 * time.Second
		short := func(_ *rig, o *engine.Options) { o.DedupeWindow, o.InboxPoll = time.Hour, look }
		a := runOver(t, s, "a", nothing, slots(9, nothing), short)
		for n := range 1500 {
			a.put(t, aJob(fmt.Sprint(n)))
		}
		time.Sleep(time.Minute)
		a.end(t)
		time.Sleep(2 * time.Hour)
		b := runOver(t, s, "b", nothing, slots(9, nothing), short)
		time.Sleep(10 * time.Minute)
		if left := b.count(store.KindJob, nil) + b.count(store.KindEnded, nil); left > 0 {
			t.Errorf("%d rows are left", left)
		}
		b.end(t)
	})
}

// TestRemovedSchedules: many schedules come and go between two that stay, which the next
// owner finds all the same.
func TestRemovedSchedules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := deadRows(t)
		a := runOver(t, s, "a", nothing, slots(9, nothing))
		put := func(key string) {
			t.Helper()
			d := schedule.Definition{Queue: "q", Key: key, Timing: schedule.Timing{Kind: schedule.FixedRate, Every: time.Hour}, Job: job.Job{Kind: "k"}}
			if _, err := a.eng.Schedule(t.Context(), engine.ScheduleCommand{Verb: engine.PutSchedule, Definition: &d}); err != nil {
				t.Fatal(err)
			}
		}
		put("stays")
		for n := range 500 {
			key := fmt.Sprint("comes ", n)
			put(key)
			if n == 250 {
				put("stays too")
			}
			if _, err := a.eng.Schedule(t.Context(), engine.ScheduleCommand{Verb: engine.RemoveSchedule, Queue: "q", Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		put("comes 0")
		a.crash(t)
		b := runOver(t, s, "b", nothing, slots(9, nothing))
		time.Sleep(61 * time.Minute)
		if n := b.count(store.KindEnded, nil); n < 3 {
			t.Errorf("%d jobs of 3 schedules have run within an hour", n)
		}
		b.end(t)
	})
}

// TestALongRunDoesNotHideOthers: behind the row of a run that takes hours those of many
// others come and go. The next owner finds what ran all the same.
func TestALongRunDoesNotHideOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := deadRows(t)
		h := func(ctx context.Context, k *worker.Task) error {
			if k.Run.Job.MaxDuration > time.Hour {
				return clock.Go().Sleep(ctx, 3*time.Hour)
			}
			return nil
		}
		a := runOver(t, s, "a", h, slots(9, h))
		put := func(key string, most time.Duration) {
			j := aJob(key)
			j.MaxDuration = most
			a.put(t, j)
		}
		put("long", 9*time.Hour)
		for n := range 1000 {
			put(fmt.Sprint(n), time.Minute)
			time.Sleep(time.Second)
		}
		for n := range 3 {
			put(fmt.Sprint("recent ", n), 9*time.Hour)
		}
		time.Sleep(time.Minute)
		if p := a.placed(t); p != 4 {
			t.Errorf("%d of 4 running jobs are found by their states' rows", p)
		}
		a.crash(t)
		b := runOver(t, s, "b", h, slots(9, h))
		time.Sleep(time.Minute)
		if n := b.count(store.KindRunning, func(r store.Row) bool { return job.RunID(r.Run).Fence() == 2 }); n != 4 {
			t.Errorf("%d of 4 jobs run again", n)
		}
		b.crash(t)
	})
}

// placed counts the running jobs whose states name the places of their rows.
func (r *rig) placed(t *testing.T) int {
	t.Helper()
	_, rows := r.store.ShardRows(shard0)
	at := map[string]store.Row{}
	for _, row := range rows {
		if row.Kind == store.KindRunning {
			at[row.ID] = row
		}
	}
	return r.count(store.KindJob, func(row store.Row) bool {
		return row.State == string(job.Running) && at[row.ID].At == row.Place && at[row.ID].Run == row.Run && at[row.ID].Due == row.Due
	})
}

// TestAStarvedJobDoesNotHideOthers: the row of a job of low priority stays, and those of
// urgent ones come and go behind it. The next owner finds all that waits.
func TestAStarvedJobDoesNotHideOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := deadRows(t)
		h := func(ctx context.Context, _ *worker.Task) error { return clock.Go().Sleep(ctx, 100*time.Millisecond) }
		a := runOver(t, s, "a", h, slots(2, h))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for lane := range 4 { // two of them always wait
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					j := aJob(fmt.Sprint("urgent ", lane, n))
					j.Priority = 9
					if _, err := a.eng.Enqueue(ctx, j); err != nil {
						return
					}
					_ = clock.Go().Sleep(ctx, time.Duration(195+lane)*time.Millisecond)
				}
			})
		}
		time.Sleep(2 * time.Second)
		low := aJob("low")
		a.put(t, low)
		time.Sleep(5 * time.Minute)
		stop()
		wg.Wait()
		if st, _ := a.state(low.ID); st != job.Pending {
			t.Errorf("the low one is %s", st)
		}
		a.crash(t)
		b := runOver(t, s, "b", nothing, slots(2, nothing))
		time.Sleep(time.Minute)
		if n := b.count(store.KindPending, nil); n > 0 {
			t.Errorf("%d acknowledged jobs are not run", n)
		}
		b.end(t)
	})
}

// TestAnInboxOfMany: jobs by the thousand came through the inbox, whose deleted rows nothing
// removes. What comes then is found all the same, and what has ended is forgotten.
func TestAnInboxOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		s.MaxDead = 700
		const look = 10 * time.Second
		short := func(_ *rig, o *engine.Options) { o.DedupeWindow, o.InboxPoll = time.Hour, look }
		a := runOver(t, s, "a", nothing, slots(9, nothing), short)
		b := engine.Inbox{Store: a.session, Clock: clock.Go()}
		put := func(key string) {
			t.Helper()
			if _, err := b.Enqueue(t.Context(), aJob(key), 1); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 2000 {
			put(fmt.Sprint(n))
		}
		time.Sleep(time.Minute)
		put("one more")
		time.Sleep(3 * time.Hour)
		if left := s.InboxRows(shard0); len(left) > 0 {
			t.Errorf("%d jobs are left in the inbox", len(left))
		}
		if left := a.count(store.KindJob, nil); left > 0 {
			t.Errorf("%d jobs that have ended are remembered", left)
		}
		if looks := int(3 * time.Hour / look); len(s.Overrun()) > looks/10 {
			t.Errorf("%d reads passed too many deleted rows", len(s.Overrun()))
		}
		a.end(t)
	})
}

// TestRedriveOfMany: the dead letter queue can be read while it is emptied, by the next
// owner's clients too.
func TestRedriveOfMany(t *testing.T) {
	t.Parallel()
	for _, stays := range []int{0, 3} {
		t.Run(fmt.Sprint(stays, " stay"), func(t *testing.T) { redriveAllBut(t, stays) })
	}
}

// redriveAllBut leaves so many in the dead letter queue: the first one, and some between.
func redriveAllBut(t *testing.T, stays int) {
	synctest.Test(t, func(t *testing.T) {
		s := deadRows(t)
		var mended atomic.Bool
		h := func(context.Context, *worker.Task) error {
			if !mended.Load() {
				return job.Permanent(errors.New("down"))
			}
			return nil
		}
		a := runOver(t, s, "a", h, slots(9, h))
		for n := range 1000 {
			a.put(t, aJob(fmt.Sprint(n)))
		}
		time.Sleep(time.Minute)
		mended.Store(true)
		left, redriven := map[job.ID]bool{}, 0
		r := query.New(query.Options{Shards: a.shards, Queues: querytest.Fixed{{Name: "q", Shards: 1}}})
		for {
			jobs, _, err := r.Jobs(t.Context(), "q", job.DLQ, query.Page{Limit: 50})
			if err != nil {
				t.Errorf("%d jobs are left and cannot be listed: %v", a.count(store.KindDLQ, nil), err)
				break
			}
			if len(jobs) <= stays {
				break
			}
			for _, j := range jobs {
				if left[j.ID] || len(left) < stays && len(left)*300 <= redriven {
					left[j.ID] = true
					continue
				}
				redriven++
				if err := a.command(t.Context(), engine.RedriveJob, j.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Minute)
		if n := a.count(store.KindJob, func(r store.Row) bool { return r.State != string(job.Completed) }); n != stays {
			t.Errorf("%d jobs were not completed", n)
		}
		a.end(t)
	})
}
