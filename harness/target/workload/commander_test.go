package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// desk takes every command and answers as it is told to.
type desk struct {
	mu     sync.Mutex
	paused map[int]bool
	taken  map[string]int
	answer func(what string) error
}

func (d *desk) take(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.taken[what]++
	if d.answer == nil {
		return nil
	}
	return d.answer(what)
}

func (d *desk) Cancel(context.Context, string, job.ID) error  { return d.take(history.DoCancel) }
func (d *desk) Redrive(context.Context, string, job.ID) error { return d.take(history.DoRedrive) }

func (d *desk) Hasten(_ context.Context, _ string, id job.ID) (engine.Receipt, error) {
	return engine.Receipt{ID: id, Duplicate: true}, d.take(history.DoHasten)
}

func (d *desk) SetShardPaused(_ context.Context, id store.ShardID, on bool) (bool, error) {
	if err := d.take(engine.PauseName(on)); err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	had := d.paused[id.Shard]
	d.paused[id.Shard] = on
	return had == on, nil
}

// SetPaused leaves out the shards that the desk does not answer for.
func (d *desk) SetPaused(ctx context.Context, queue string, on bool) (bool, error) {
	all, partly := true, &scheduler.PartlyError{Queue: queue}
	for n := range 4 {
		had, err := d.SetShardPaused(ctx, store.ShardID{Queue: queue, Shard: n}, on)
		if all = all && had; err != nil {
			partly.Shards, partly.Cause = append(partly.Shards, n), err
		}
	}
	if len(partly.Shards) > 0 {
		return false, partly
	}
	return all, nil
}

// commanded is a commander with a desk, in a life of a worker.
func commanded(d *desk) (*commander, *notebook) {
	rec := &notebook{}
	jobs := &Jobs{Queue: "q", Shards: 4, Commands: &Commands{Cancel: 5, Redrive: 2, RedriveMany: 0.5, Hasten: 5, Pause: 2, PauseQueue: 1}}
	p := &process{cfg: Config{Life: "w1.1", TTL: 6 * time.Second, Seed: 7, Jobs: jobs}, rec: rec, clock: NewClock(clock.Go()), counts: &counters{}}
	c := newCommander(p)
	d.paused, d.taken = map[int]bool{}, map[string]int{}
	c.to = d
	for n := range 200 {
		c.enqueued(jobRef{"q", job.ID(fmt.Sprintf("%d-%032x", n%4, n))})
	}
	c.died(jobRef{"q", job.ID(fmt.Sprintf("1-%032x", 5))})
	return c, rec
}

// TestCommander: every kind of command is given and recorded, and no shard stays paused.
func TestCommander(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		c, rec := commanded(d)
		feed, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		c.run(t.Context(), feed)
		for _, do := range []string{history.DoCancel, history.DoRedrive, history.DoHasten, history.DoPause, history.DoResume} {
			if d.taken[do] < 10 {
				t.Errorf("%d commands to %s", d.taken[do], do)
			}
		}
		for shard, on := range d.paused {
			if on {
				t.Errorf("shard %d is left paused", shard)
			}
		}
		results := map[string][]string{}
		for _, e := range rec.events {
			switch {
			case e.Op != history.OpCommand:
				t.Errorf("recorded %+v", e)
			case e.Type == history.Invoke && (e.Command().Queue != "q" || e.Command().Shard == "" || e.Key == ""):
				t.Errorf("recorded %+v", e.Command())
			case e.Type != history.Invoke:
				results[e.Result] = append(results[e.Result], e.Proc)
			}
		}
		if len(results) != 2 || len(results["applied"]) == 0 || len(results["duplicate"]) == 0 {
			t.Errorf("results %v", results)
		}
		if n := c.counts.enqueuing.Load(); n != 0 || c.names.used() != 0 {
			t.Errorf("%d commands are still under way", n)
		}
	})
}

// TestCommandsAreTold: a refusal says by which state, and nothing else does.
func TestCommandsAreTold(t *testing.T) {
	t.Parallel()
	refused := func(cause error) error { return &engine.CommandError{Outcome: store.Fail, Cause: cause} }
	for want, err := range map[string]error{
		"completed":         refused(&engine.StateError{Job: "0-a", State: job.Completed}),
		history.ToldUnknown: refused(engine.ErrUnknownJob),
		"":                  refused(engine.ErrBusy),
		"-":                 &engine.CommandError{Outcome: store.Unknown, Cause: &engine.StateError{State: job.Completed}},
	} {
		d := &desk{answer: func(string) error { return err }}
		c, rec := commanded(d)
		got := c.job(t.Context(), history.DoCancel, jobRef{"q", job.ID(fmt.Sprintf("1-%032x", 5))})
		if !errors.Is(got, err) || len(rec.events) != 2 {
			t.Fatalf("%v, recorded %+v", got, rec.events)
		}
		end := rec.events[1]
		outcome := history.Fail
		if want == "-" {
			want, outcome = "", history.Unknown
		}
		if end.Type != outcome || end.Told() != want || end.Result != "" || end.Error == "" {
			t.Errorf("%v is recorded as %+v, told %q", err, end, end.Told())
		}
	}
}

// TestResumesUntilItIsKnown: a shard is resumed again while nobody knows whether it was.
func TestResumesUntilItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := 3
		d := &desk{}
		d.answer = func(what string) error {
			if what == history.DoResume && left > 0 {
				left--
				return &engine.CommandError{Outcome: store.Unknown, Cause: errors.New("cut")}
			}
			return nil
		}
		c, rec := commanded(d)
		d.paused[2] = true
		c.resumeAll(t.Context())
		if d.paused[2] || left > 0 {
			t.Error("a shard is left paused")
		}
		ends := map[history.Type]int{}
		for _, e := range rec.events {
			ends[e.Type]++
		}
		if want := map[history.Type]int{history.Invoke: 7, history.Unknown: 3, history.OK: 4}; !maps.Equal(ends, want) {
			t.Errorf("%v, want %v", ends, want)
		}
	})
}

// silent takes jobs and answers none until its context ends.
type silent struct{ jobScheduler }

func (silent) Submit(ctx context.Context, _ job.Job) (engine.Receipt, error) {
	<-ctx.Done()
	return engine.Receipt{}, &engine.EnqueueError{Outcome: store.Fail, Cause: ctx.Err()}
}

// TestArrivalsAreCounted: what comes while too many enqueues wait is left out, and noted; what
// comes while fewer wait is not, whatever the answers.
func TestArrivalsAreCounted(t *testing.T) {
	t.Parallel()
	for most, dropped := range map[int]bool{maxEnqueuing: false, 40: true} {
		synctest.Test(t, func(t *testing.T) {
			rec := &notebook{}
			jobs := &Jobs{Queue: "q", Shards: 4, Rate: 20, Steps: 1, MaxAttempts: 1, RetryBase: time.Second}
			p := &process{cfg: Config{Life: "w1.1", TTL: 6 * time.Second, Seed: 7, Jobs: jobs}, rec: rec, clock: NewClock(clock.Go()), counts: &counters{}}
			e := newEnqueuer(p, silent{}, shardIssuer, drawEffects)
			e.most = most
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			e.run(ctx)
			asked, notes, last := int64(0), 0, history.Arrivals{}
			for _, ev := range rec.events {
				switch {
				case ev.Op == history.NoteArrivals:
					notes++
					if n := ev.Arrivals(); n.Came < last.Came || n.Dropped < last.Dropped || n.Dropped > n.Came {
						t.Errorf("%+v after %+v", n, last)
					}
					last = *ev.Arrivals()
				case ev.Type == history.Invoke:
					asked++
				}
			}
			if last.Came < 450 || last.Came != asked+last.Dropped {
				t.Errorf("at most %d: %+v, and %d were enqueued", most, last, asked)
			}
			if (last.Dropped > 0) != dropped || dropped && notes < 2 {
				t.Errorf("at most %d: %+v in %d notes", most, last, notes)
			}
		})
	}
}
