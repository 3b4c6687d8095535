package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// ran collects the occurrences that were run, by when in the bubble.
type ran struct {
	mu   sync.Mutex
	list []job.Occurrence
	at   []time.Time
}

func (r *ran) handle(_ context.Context, t *worker.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list, r.at = append(r.list, t.Run.Job.Occurrence), append(r.at, time.Now())
	return nil
}

// take returns what was run since the last call, in order of nominal times, and how
// late the latest of it was.
func (r *ran) take() (list []job.Occurrence, late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, o := range r.list {
		late = max(late, r.at[n].Sub(time.UnixMilli(o.Nominal)))
	}
	list = r.list
	slices.SortFunc(list, func(a, b job.Occurrence) int { return int(a.Nominal - b.Nominal) })
	r.list, r.at = nil, nil
	return list, late
}

func minutely(overlap schedule.Overlap) schedule.Definition {
	return schedule.Definition{Queue: "q", Key: "s", Timing: schedule.Timing{Kind: schedule.Cron, Cron: "0 * * * * *", Zone: "Asia/Ho_Chi_Minh"},
		Overlap: overlap, Job: job.Job{Kind: "k"}}
}

func command(v engine.Verb) engine.ScheduleCommand {
	return engine.ScheduleCommand{Verb: v, Queue: "q", Key: "s"}
}

func put(d schedule.Definition) engine.ScheduleCommand {
	return engine.ScheduleCommand{Verb: engine.PutSchedule, Definition: &d}
}

// TestAScheduleEndToEnd: it fires each minute, on time; it can be stopped, triggered and
// removed; and all that can be read.
func TestAScheduleEndToEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got ran
		r := run(t, sim.New(), "w", got.handle)
		do := func(c engine.ScheduleCommand) engine.Receipt {
			t.Helper()
			rec, err := r.eng.Schedule(t.Context(), c)
			if err != nil {
				t.Fatalf("%s: %v", c.Verb, err)
			}
			return rec
		}
		if rec := do(put(minutely(schedule.OverlapSkip))); rec.ID != job.ScheduleID("q", "s", 1) || rec.Duplicate {
			t.Errorf("%+v", rec)
		}
		if !do(put(minutely(schedule.OverlapSkip))).Duplicate {
			t.Error("the same once more is something else")
		}
		time.Sleep(10 * time.Minute)
		if l, late := got.take(); len(l) != 10 || l[9].Nominal-l[0].Nominal != 9*60_000 || late > time.Second {
			t.Errorf("in ten minutes: %v, up to %s late", l, late)
		}
		do(command(engine.DisableSchedule))
		time.Sleep(5 * time.Minute)
		trigger := command(engine.TriggerSchedule)
		trigger.Trigger = "by-hand"
		first, second := do(trigger), do(trigger)
		time.Sleep(time.Minute)
		if third := do(trigger); !second.Duplicate || !third.Duplicate || first.Duplicate || first.ID != third.ID {
			t.Errorf("one trigger is %+v, %+v, %+v", first, second, third)
		}
		if l, _ := got.take(); len(l) != 1 || l[0].Trigger != "by-hand" || l[0].ID("q", 1) != first.ID {
			t.Errorf("while it is disabled: %v", l)
		}
		do(command(engine.EnableSchedule))
		time.Sleep(2 * time.Minute)
		d, st, err := r.eng.ReadSchedule(t.Context(), "q", "s")
		if l, _ := got.take(); err != nil || d.Cron != "0 * * * * *" || st.Fired != 13 || st.Missed+st.Skipped != 0 || len(l) != 2 {
			t.Errorf("%+v, %+v, %v, ran %v", d, st, err, l)
		}
		do(command(engine.RemoveSchedule))
		time.Sleep(5 * time.Minute)
		if l, _ := got.take(); len(l) != 0 {
			t.Errorf("after its end: %v", l)
		}
		if d, _, err := r.eng.ReadSchedule(t.Context(), "q", "s"); err != nil || d.Key != "" {
			t.Errorf("%+v, %v", d, err)
		}
		r.end(t)
	})
}

// TestMisfiresAfterAnOutage: what came due while nobody was there is made up for as
// the policy says, and told.
func TestMisfiresAfterAnOutage(t *testing.T) {
	t.Parallel()
	for misfire, want := range map[schedule.Misfire]int{schedule.MisfireSkip: 2, schedule.MisfireOnce: 2, schedule.MisfireAll: 31} {
		t.Run(string(misfire), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var got ran
				s := sim.New()
				r := run(t, s, "a", got.handle)
				d := minutely(schedule.OverlapAllow)
				d.Misfire, d.Grace = misfire, 90*time.Second
				if misfire == schedule.MisfireAll {
					d.Window = 30*time.Minute + 30*time.Second
				}
				if _, err := r.eng.Schedule(t.Context(), put(d)); err != nil {
					t.Fatal(err)
				}
				r.end(t)
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 5*time.Second)))
				var mu sync.Mutex
				var told []engine.Lateness
				r = run(t, s, "b", got.handle, func(o *engine.Options) {
					o.Late = func(l engine.Lateness) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, l)
					}
				})
				time.Sleep(20 * time.Second)
				_, st, err := r.eng.ReadSchedule(t.Context(), "q", "s")
				l, _ := got.take()
				if err != nil || len(l) != want || st.Missed != 60-int64(want) {
					t.Errorf("%d fired, want %d; %+v, %v", len(l), want, st, err)
				}
				late, missed := 0, int64(0)
				for _, x := range told {
					late, missed = late+len(x.Late), missed+x.Missed
					if x.Shard != shard0 || x.Schedule != "s" || x.By > time.Hour {
						t.Errorf("told %+v", x)
					}
				}
				if late != want || missed != st.Missed {
					t.Errorf("told of %d late and %d missed ones: %+v", late, missed, told)
				}
				r.end(t)
			})
		})
	}
}

func TestSchedulesThatAreNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got ran
		r := run(t, sim.New(), "w", got.handle, func(o *engine.Options) { o.MaxBytes = 8 << 10 })
		large := minutely(schedule.OverlapAllow)
		large.Job.Payload = make([]byte, 6<<10)
		follower := minutely(schedule.OverlapAllow)
		follower.Job.Then = []job.Job{{Kind: "k", Payload: make([]byte, 3<<10)}}
		other := minutely(schedule.OverlapAllow)
		other.Queue = "elsewhere"
		odd := command(engine.TriggerSchedule)
		odd.Trigger = "a b"
		mixed := put(minutely(schedule.OverlapAllow))
		mixed.Key = "another"
		without := command(engine.PutSchedule)
		with := command(engine.EnableSchedule)
		with.Definition = mixed.Definition
		if _, err := r.eng.Schedule(t.Context(), put(minutely(schedule.OverlapAllow))); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			cmd   engine.ScheduleCommand
			field string
		}{
			"verb": {engine.ScheduleCommand{Verb: "stop", Queue: "q", Key: "s"}, "verb"}, "large": {put(large), "job"}, "large follower": {put(follower), "job"},
			"queue": {put(other), "queue"}, "trigger": {odd, "trigger"}, "two keys": {mixed, "definition"}, "no definition": {without, "definition"}, "two much": {with, "definition"},
		} {
			_, err := r.eng.Schedule(t.Context(), c.cmd)
			var invalid *schedule.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != c.field {
				t.Errorf("%s: %v, want field %q", name, err, c.field)
			}
		}
		forged := aJob("a")
		forged.Key, forged.Occurrence = "", job.Occurrence{Schedule: "s", Nominal: 60_000}
		forged.ID, forged.Key = forged.Occurrence.ID("q", 1), forged.Occurrence.Key()
		var invalid *job.InvalidError
		if _, err := r.eng.Submit(t.Context(), forged); !errors.As(err, &invalid) || invalid.Field != "occurrence" {
			t.Errorf("a job in the place of an occurrence: %v", err)
		}
		if _, _, err := r.eng.ReadSchedule(t.Context(), "elsewhere", "s"); err == nil {
			t.Error("a schedule of another engine's queue is read")
		}
		r.end(t)
		if _, err := r.eng.Schedule(t.Context(), command(engine.EnableSchedule)); !errors.Is(err, engine.ErrNotOwner) || store.OutcomeOf(err) != store.Fail {
			t.Errorf("without the shard: %v", err)
		}
	})
}

// TestSequencesOfPlainJobs: jobs may follow jobs without any schedule.
func TestSequencesOfPlainJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var kinds []string
		r := run(t, sim.New(), "w", func(_ context.Context, t *worker.Task) error {
			mu.Lock()
			defer mu.Unlock()
			kinds = append(kinds, string(t.Run.Job.Payload))
			if string(t.Run.Job.Payload) == "two" {
				return job.Cancel(errors.New("no more"))
			}
			return nil
		})
		j := aJob("a")
		j.Payload, j.Then = []byte("one"), []job.Job{{Kind: "k", Payload: []byte("two")}, {Kind: "k", Payload: []byte("three")}}
		if _, err := r.eng.Submit(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		mu.Lock() // a sleep in a bubble orders nothing
		if !slices.Equal(kinds, []string{"one", "two"}) {
			t.Errorf("ran %v", kinds)
		}
		mu.Unlock()
		r.end(t)
	})
}

// vanishing does something after a schedule's definition was read.
type vanishing struct {
	store.Shards
	then func()
}

func (v vanishing) Row(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
	row, err := v.Shards.Row(ctx, id, k)
	if k.Kind == store.KindSchedule && k.At == engine.AtDefinition {
		v.then()
	}
	return row, err
}

// TestAScheduleThatIsRemovedWhileItIsRead is none, and no broken one.
func TestAScheduleThatIsRemovedWhileItIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r *rig
		r = runOver(t, sim.New(), "w", nothing, over(func(s store.Shards) store.Shards {
			return vanishing{s, func() {
				if _, err := r.eng.Schedule(t.Context(), command(engine.RemoveSchedule)); err != nil {
					t.Error(err)
				}
			}}
		}))
		if _, err := r.eng.Schedule(t.Context(), put(minutely(schedule.OverlapAllow))); err != nil {
			t.Fatal(err)
		}
		if d, _, err := r.eng.ReadSchedule(t.Context(), "q", "s"); err != nil || d.Key != "" {
			t.Errorf("%+v, %v", d, err)
		}
		r.end(t)
	})
}
