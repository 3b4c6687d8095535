package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/scheduler/schedulertest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestPayloads: what is no Args is not tried again; what has more than Args is.
func TestPayloads(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]struct {
		state    job.State
		attempts int
		note     string
	}{
		`{"customer": "a", "cents": 1}`:        {job.Completed, 1, ""},
		`{}`:                                   {job.Completed, 1, ""},
		`null`:                                 {job.Completed, 1, ""},
		``:                                     {job.DLQ, 1, "unexpected end"},
		`{"customer": "a"`:                     {job.DLQ, 1, "unexpected end"},
		`{"cents": "1"}`:                       {job.DLQ, 1, "string into Go struct field"},
		`{"cents": 1} {}`:                      {job.DLQ, 1, "after top-level value"},
		`[1]`:                                  {job.DLQ, 1, "no scheduler_test.Invoice"},
		`{"customer": "a", "currency": "EUR"}`: {job.DLQ, 2, `has more than scheduler_test.Invoice: json: unknown field "currency"`},
		`{"customer": "a", "currency": 5} broken`: {job.DLQ, 1, "after top-level value"},
	} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
				ran := 0
				schedulertest.Handle(h, SendInvoice, func(context.Context, *scheduler.Task, Invoice) error { ran++; return nil })
				rec, err := h.Scheduler().Enqueue(t.Context(), job.Job{Kind: string(SendInvoice), Payload: []byte(payload), MaxAttempts: 2})
				if err != nil {
					t.Fatal(err)
				}
				h.Advance(time.Minute)
				j := h.Job(rec.ID)
				if j.State != want.state || j.State == job.DLQ && (j.Attempts != want.attempts || !strings.Contains(j.Note, want.note)) || (ran == 1) != (want.state == job.Completed) {
					t.Errorf("%s after %d attempts, %d calls: %s", j.State, j.Attempts, ran, j.Note)
				}
			})
		})
	}
}

// Anything is a type that takes every payload.
type Anything map[string]json.RawMessage

func TestKindTakesWhatItsTypeTakes(t *testing.T) {
	t.Parallel()
	const some scheduler.Kind[Anything] = "some"
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		schedulertest.Handle(h, some, func(context.Context, *scheduler.Task, Anything) error { return nil })
		rec, err := some.Enqueue(t.Context(), h.Scheduler(), Anything{"a": json.RawMessage("5")})
		h.Advance(time.Second)
		if err != nil || h.Job(rec.ID).State != job.Completed {
			t.Errorf("%v, %+v", err, h.Job(rec.ID))
		}
	})
	handlers := scheduler.Handlers{}
	nothing := func(context.Context, *scheduler.Task, Anything) error { return nil }
	if err := errors.Join(some.Register(handlers, nothing), scheduler.Kind[int]("other").Register(handlers, nil)); err != nil {
		t.Error(err)
	}
	if err := some.Register(handlers, nothing); err == nil {
		t.Error("a kind has two handlers")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 1, time.UTC)
	j, err := SendInvoice.Job(Invoice{"a", 1}, scheduler.Key("k"), scheduler.Queue("q"), scheduler.At(at), scheduler.Priority(3), scheduler.MaxAttempts(7),
		scheduler.MaxDuration(time.Hour), scheduler.AtMostOnce(), scheduler.GoOn(), scheduler.Retry(job.Exponential(time.Second, 3, time.Minute)),
		scheduler.Then(SendInvoice, Invoice{"b", 2}, scheduler.MaxAttempts(2)), scheduler.Then(SendInvoice, Invoice{"c", 3}))
	if err != nil {
		t.Fatal(err)
	}
	j.Queue, j.ID = "q", job.KeyedID("q", "k", 3)
	if err := j.WithDefaults().Check(3); err != nil {
		t.Error(err)
	}
	got := fmt.Sprint(string(j.Payload), j.Key, j.Due.UTC(), j.Priority, j.MaxAttempts, j.MaxDuration, j.Rescue, j.OnFailure, j.Retry.Base, len(j.Then), j.Then[0].MaxAttempts, string(j.Then[1].Payload))
	want := `{"customer":"a","cents":1}k2030-01-01 00:00:00.001 +0000 UTC 3 7 1h0m0sat_most_oncego_on1s 2 2{"customer":"c","cents":3}`
	if got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	const number scheduler.Kind[float64] = "number"
	var invalid *job.InvalidError
	for _, o := range [][]scheduler.Option{nil, {scheduler.Then(number, math.NaN())}} {
		if _, err := number.Job(math.Inf(1), o...); !errors.As(err, &invalid) || invalid.Field != "payload" {
			t.Errorf("a payload that cannot be encoded: %v", err)
		}
	}
	if _, err := number.Job(1, scheduler.Then(number, math.NaN())); !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), "job 2 of a sequence") {
		t.Errorf("a second payload that cannot be encoded: %v", err)
	}
}

// TestEnqueueUntilKnown: an enqueue whose answer is lost is asked for again, and there is
// one job. Without an answer until the context ends the outcome is unknown.
func TestEnqueueUntilKnown(t *testing.T) {
	t.Parallel()
	var session *sim.Session
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		ran := 0
		schedulertest.Handle(h, SendInvoice, func(context.Context, *scheduler.Task, Invoice) error { ran++; return nil })
		session.SetFaults(sim.Faults{LoseReply: 1})
		time.AfterFunc(2*time.Minute, func() { session.SetFaults(sim.Faults{}) })
		begun := time.Now()
		rec, err := SendInvoice.Enqueue(t.Context(), h.Scheduler(), Invoice{})
		if err != nil || rec.Duplicate || time.Since(begun) < 2*time.Minute {
			t.Errorf("%+v, %v after %s", rec, err, time.Since(begun))
		}
		h.Advance(10 * time.Minute)
		if ran != 1 {
			t.Errorf("%d runs", ran)
		}

		session.SetFaults(sim.Faults{LoseReply: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = SendInvoice.Enqueue(ctx, h.Scheduler(), Invoice{})
		var ee *engine.EnqueueError
		if !errors.As(err, &ee) || ee.Outcome != store.Unknown {
			t.Errorf("nobody answers: %v", err)
		}
		session.SetFaults(sim.Faults{})
	}, func(o *scheduler.Options) { session = o.Shards.(*sim.Session) })
}

// TestEnqueueMany: jobs that are enqueued at once ride in few transactions, and each has its own answer.
func TestEnqueueMany(t *testing.T) {
	t.Parallel()
	var ticks, ran atomic.Int64
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		schedulertest.Handle(h, SendInvoice, func(context.Context, *scheduler.Task, Invoice) error { ran.Add(1); return nil })
		var jobs []job.Job
		for n := range 300 {
			jobs = append(jobs, job.Job{Kind: string(SendInvoice), Key: fmt.Sprint("invoice-", n%200), Payload: []byte("{}")})
		}
		jobs[17].Queue = "nowhere"
		ticks.Store(0)
		out, err := h.Scheduler().EnqueueMany(t.Context(), jobs)
		if err != nil || len(out) != len(jobs) {
			t.Fatalf("%d answers, %v", len(out), err)
		}
		if n := ticks.Load(); n > 30 {
			t.Errorf("%d transactions", n)
		}
		duplicates := 0
		for n, x := range out {
			if (x.Err != nil) != (n == 17) {
				t.Errorf("job %d: %v", n, x.Err)
			}
			if x.Duplicate {
				duplicates++
			}
		}
		h.Advance(time.Minute)
		if ran.Load() != 200 || duplicates != 99 {
			t.Errorf("%d runs, %d duplicates; want 200 and 99", ran.Load(), duplicates)
		}
		var invalid *job.InvalidError
		if _, err := h.Scheduler().EnqueueMany(t.Context(), make([]job.Job, scheduler.MaxMany+1)); !errors.As(err, &invalid) {
			t.Errorf("too many: %v", err)
		}
	}, func(o *scheduler.Options) {
		o.Shards = mistake.Shards{Shards: o.Shards, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
			ticks.Add(1)
			return c.Send()
		}}
	})
}

// TestPutScheduleWaitsForAnOwner, and does not if nothing would help.
func TestPutScheduleWaitsForAnOwner(t *testing.T) {
	t.Parallel()
	schedulertest.Test(t, func(t *testing.T, h *schedulertest.Harness) {
		d := schedule.Definition{Key: "s", Timing: schedule.Timing{Kind: schedule.FixedRate, Every: time.Minute}}
		_ = h.Crash()
		begun := time.Now()
		if _, err := SendInvoice.Schedule(t.Context(), h.Scheduler(), d, Invoice{}); err != nil || time.Since(begun) < 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		var invalid *job.InvalidError
		d.Every = time.Millisecond
		if _, err := SendInvoice.Schedule(t.Context(), h.Scheduler(), d, Invoice{}); !errors.As(err, new(*schedule.InvalidError)) {
			t.Errorf("a schedule that no store takes: %v", err)
		}
		if _, err := SendInvoice.Schedule(t.Context(), h.Scheduler(), d, Invoice{}, scheduler.Queue("other")); !errors.As(err, &invalid) {
			t.Errorf("a queue that nobody has: %v", err)
		}
		if _, err := SendInvoice.Enqueue(t.Context(), h.Scheduler(), Invoice{}, scheduler.MaxAttempts(-1)); !errors.As(err, &invalid) || invalid.Field != "max_attempts" {
			t.Errorf("a job that no store takes: %v", err)
		}
		if _, err := SendInvoice.Enqueue(t.Context(), h.Scheduler(), Invoice{}, scheduler.Queue("other")); !errors.As(err, &invalid) || invalid.Field != "queue" {
			t.Errorf("a queue that nobody has: %v", err)
		}
	})
}
