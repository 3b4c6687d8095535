package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
	"fencepost/core/service/query"
	"fencepost/core/service/query/querytest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
)

// apiWorld is a scheduler that has all shards of a queue, its API on a socket, and a client of it.
func apiWorld(t *testing.T) (*apiClient, *query.Reader) {
	t.Helper()
	session := sim.New().Connect("a", 1)
	quiet := slog.New(slog.DiscardHandler)
	queues := []engine.Queue{{Name: "q 1", Shards: 2}}
	s, err := scheduler.New(scheduler.Options{
		Shards: session, Runs: session, Handlers: map[string]worker.Handler{
			"good": func(context.Context, *worker.Task) error { return nil },
			"bad":  func(context.Context, *worker.Task) error { return job.Permanent(errOnPurpose) },
		},
		Engine: engine.Options{Name: "a", Queues: queues, World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Logger: quiet}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reader := query.New(query.Options{Shards: session, Runs: session, Queues: querytest.Fixed(queues)})
	web := httptest.NewServer(api.Handler(api.Options{Scheduler: s, Reader: reader, Token: "secret", Logger: quiet}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		web.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for n := range 2 {
		for !s.Owns(store.ShardID{Queue: "q 1", Shard: n}) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	c := newAPIClient(web.Listener.Addr().String(), "secret", s)
	t.Cleanup(c.http.CloseIdleConnections)
	return c, reader
}

// jobOf is a job of a test with a key, due in an hour.
func jobOf(kind, key string) job.Job {
	j := job.Job{Queue: "q 1", Kind: kind, Key: key, ID: job.KeyedID("q 1", key, 2), Payload: []byte(`{"a":"b"}`), Priority: 3, MaxAttempts: 2,
		MaxDuration: 1500 * time.Millisecond, Rescue: job.AtMostOnce, Retry: job.Exponential(250*time.Millisecond, 2, time.Second), OnFailure: job.GoOn,
		Due: time.Now().Add(time.Hour).Truncate(time.Millisecond)}
	j.Then = []job.Job{{Kind: "good", MaxAttempts: 1, Retry: job.RetryPolicy{Delays: []time.Duration{time.Second, 2 * time.Second}}}}
	return j.WithDefaults()
}

// TestAPIClientEnqueues: what the API makes of a request is the job that was meant, once by its key.
func TestAPIClientEnqueues(t *testing.T) {
	t.Parallel()
	c, reader := apiWorld(t)
	for _, key := range []string{"k-1", "K-1", " k-1", "k-1 ", "k-1\u00a0"} {
		j := jobOf("good", key)
		for n, want := range []engine.Receipt{{ID: j.ID}, {ID: j.ID, Duplicate: true}, {ID: j.ID, Duplicate: true}} {
			if r, err := c.Submit(t.Context(), j); err != nil || r != want {
				t.Errorf("key %q, call %d: %+v, %v", key, n, r, err)
			}
		}
		got, err := reader.Job(t.Context(), "q 1", j.ID)
		if err != nil {
			t.Fatal(err)
		}
		got.Job.Request, got.Job.Due = nil, j.Due // the digest is the API's
		j.Then[0] = j.Then[0].WithDefaults()
		got.Job.Then[0] = got.Job.Then[0].WithDefaults()
		have, _ := got.Job.Encode()
		if want, _ := j.Encode(); !bytes.Equal(have, want) {
			t.Errorf("key %q: stored as\n%s, want\n%s", key, have, want)
		}
		j.Payload = []byte(`{"a":"c"}`)
		if _, err := c.Submit(t.Context(), j); store.OutcomeOf(err) != store.Fail {
			t.Errorf("another body with the key %q: %v", key, err)
		}
	}
}

// TestAPIClientBatches: jobs that come together have an answer each, whether they ride in one request or not.
func TestAPIClientBatches(t *testing.T) {
	t.Parallel()
	c, _ := apiWorld(t)
	if _, err := c.Submit(t.Context(), jobOf("good", "taken")); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 30 {
		all.Go(func() {
			j, want := jobOf("good", fmt.Sprint("many-", n)), store.OK
			if n%5 == 0 {
				j, want = jobOf("good", "taken"), store.Fail
				j.Payload = []byte(`{"another":"body"}`)
			}
			if r, err := c.Submit(t.Context(), j); store.OutcomeOf(err) != want || want == store.OK && r != (engine.Receipt{ID: j.ID}) {
				t.Errorf("%s: %+v, %v", j.Key, r, err)
			}
		})
	}
	all.Wait()
}

// TestAPIClientCommands: commands are carried out, and refused with the job's state.
func TestAPIClientCommands(t *testing.T) {
	t.Parallel()
	c, reader := apiWorld(t)
	ctx := t.Context()
	await := func(id job.ID, state job.State) {
		t.Helper()
		for {
			if j, err := reader.Job(ctx, "q 1", id); err != nil {
				t.Fatal(err)
			} else if j.State == state {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	refused := func(err error, as string) {
		t.Helper()
		if told(err) != as {
			t.Errorf("%v, want it refused as %s", err, as)
		}
	}
	j := jobOf("bad", "dead")
	j.Then = nil
	for range 2 { // by both paths
		refused(c.Cancel(ctx, "q 1", j.ID), history.ToldUnknown)
		refused(c.Redrive(ctx, "q 1", j.ID), history.ToldUnknown)
	}
	if _, err := c.Submit(ctx, j); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Hasten(ctx, "q 1", j.ID); err != nil || r.Duplicate {
		t.Errorf("hastened: %+v, %v", r, err)
	}
	await(j.ID, job.DLQ)
	for range 2 {
		if err := c.Redrive(ctx, "q 1", j.ID); err != nil {
			t.Error(err)
		}
		await(j.ID, job.DLQ)
		if _, err := c.Hasten(ctx, "q 1", j.ID); err != nil { // which redrives it
			t.Error(err)
		}
		await(j.ID, job.DLQ)
	}
	want := []history.Answered{{Job: string(j.ID), Outcome: string(history.OK)}}
	want[0].Shard, _ = shardIssuer(j)
	if got, err := c.RedriveDead(ctx, "q 1", 5); err != nil || !slices.Equal(got, want) {
		t.Errorf("redrove %v, %v", got, err)
	}
	await(j.ID, job.DLQ)
	refused(c.Cancel(ctx, "q 1", j.ID), string(job.DLQ))
	later := jobOf("good", "later")
	if _, err := c.Submit(ctx, later); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(ctx, "q 1", later.ID); err != nil {
		t.Error(err)
	}
	refused(c.Cancel(ctx, "q 1", later.ID), string(job.Cancelled))
	for _, on := range []bool{true, false} {
		for _, had := range []bool{false, true} {
			if duplicate, err := c.SetPaused(ctx, "q 1", on); err != nil || duplicate != had {
				t.Errorf("paused %v: %v, %v", on, duplicate, err)
			}
		}
	}
}

// TestAPIClientSchedules: the definition that is stored is the one that was meant, in all its bytes, as
// histories have its digest; and each verb does what it says.
func TestAPIClientSchedules(t *testing.T) {
	t.Parallel()
	c, reader := apiWorld(t)
	jobs := &Jobs{Steps: 2, Sequence: 1, MaxAttempts: 3, RetryBase: 250 * time.Millisecond}
	for _, of := range []Recurring{
		{Key: "every second", Kind: schedule.FixedRate, Every: time.Second, Misfire: schedule.MisfireAll, Window: time.Hour, Overlap: schedule.OverlapAllow},
		{Key: "cron/1", Kind: schedule.Cron, Cron: "*/2 * * * * *", Zone: "Europe/Berlin", Grace: 2 * time.Second, Overlap: schedule.OverlapQueue},
		{Key: "at", Kind: schedule.At, At: 7 * time.Second, Overlap: schedule.OverlapAllow},
		{Key: "between", Kind: schedule.FixedRate, Every: time.Second, At: -500 * time.Millisecond, Until: 2 * time.Second},
		{Key: "now", Kind: schedule.Now, Overlap: schedule.OverlapAllow},
	} {
		d := of.Definition("q 1", jobs.occurrence(20*time.Millisecond), time.UnixMilli(1_700_000_000_123))
		ask := func(verb engine.Verb, trigger string) (engine.Receipt, error) {
			cmd := engine.ScheduleCommand{Verb: verb, Queue: d.Queue, Key: d.Key, Trigger: trigger}
			if verb == engine.PutSchedule {
				cmd.Definition = &d
			}
			return c.Schedule(t.Context(), cmd)
		}
		if _, err := ask(engine.EnableSchedule, ""); !errors.Is(err, engine.ErrUnknownSchedule) || store.OutcomeOf(err) != store.Fail {
			t.Errorf("%s: enabled before it is put: %v", d.Key, err)
		}
		for i, step := range []struct {
			verb      engine.Verb
			trigger   string
			duplicate bool
		}{
			{engine.PutSchedule, "", false}, {engine.PutSchedule, "", true}, {engine.DisableSchedule, "", false}, {engine.DisableSchedule, "", true},
			{engine.TriggerSchedule, "t", false}, {engine.TriggerSchedule, "t", true}, {engine.EnableSchedule, "", false},
		} {
			if r, err := ask(step.verb, step.trigger); err != nil || r.Duplicate != step.duplicate {
				t.Errorf("%s: step %d, %s: %+v, %v", d.Key, i, step.verb, r, err)
			}
		}
		id, err := reader.ScheduleID(t.Context(), "q 1", d.Key)
		if err != nil {
			t.Fatal(err)
		}
		there, err := reader.Schedule(t.Context(), "q 1", id)
		if err != nil {
			t.Fatal(err)
		}
		have, _ := there.Definition.Encode()
		if want, _ := d.WithDefaults().Encode(); !bytes.Equal(have, want) {
			t.Errorf("%s: stored as\n%s, want\n%s", d.Key, have, want)
		}
		if _, err := ask(engine.RemoveSchedule, ""); err != nil {
			t.Error(err)
		}
	}
}

// TestAPIOutcomes: what is known of a request is what its answer documents, and of one without an answer
// nothing, unless it was never sent.
func TestAPIOutcomes(t *testing.T) {
	t.Parallel()
	problem := func(status int, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, more)
		}
	}
	for name, c := range map[string]struct {
		do   http.HandlerFunc
		want store.Outcome
	}{
		"done":                        {problem(200, `{"id":"0-a"}`), store.OK},
		"may have been done":          {problem(504, `{"status":504,"code":"outcome-unknown"}`), store.Unknown},
		"a mistake of the API":        {problem(500, `{"status":500,"code":"internal"}`), store.Unknown},
		"nobody owns the shard":       {problem(503, `{"status":503,"code":"no-owner"}`), store.Fail},
		"done in part":                {problem(503, `{"status":503,"code":"partly","shards":[1]}`), store.Unknown},
		"too many":                    {problem(429, `{"status":429,"code":"busy"}`), store.Fail},
		"the job's state":             {problem(409, `{"status":409,"code":"state","state":"dlq"}`), store.Fail},
		"a status that contradicts":   {problem(504, `{"status":409,"code":"state","state":"dlq"}`), store.Unknown},
		"a proxy's answer":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, store.Unknown},
		"a server that refuses":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, store.Fail},
		"another place":               {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, store.Unknown},
		"done, and cannot be read":    {problem(200, `{"id":`), store.Unknown},
		"an answer that was cut":      {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") }, store.Unknown},
		"no answer, the link was cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, store.Unknown},
		"no answer in time":           {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, store.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var came atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if r.Method == http.MethodDelete { // for a connection that is used again
					problem(200, `{}`)(w, r)
					return
				}
				came.Add(1)
				c.do(w, r)
			}))
			defer web.Close()
			client := newAPIClient(web.Listener.Addr().String(), "secret", nil)
			defer client.http.CloseIdleConnections()
			for n, ask := range []func(ctx context.Context) error{
				func(ctx context.Context) error { _, err := client.Submit(ctx, job.Job{Key: "k"}); return err },
				func(ctx context.Context) error {
					_, err := client.Schedule(ctx, engine.ScheduleCommand{Verb: engine.TriggerSchedule, Trigger: "k"})
					return err
				},
				func(ctx context.Context) error { return client.Cancel(ctx, "q", "0-a") },
				func(ctx context.Context) error { _, err := client.SetPaused(ctx, "q", true); return err },
			} {
				if _, err := client.Schedule(t.Context(), engine.ScheduleCommand{Verb: engine.RemoveSchedule}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if err := ask(ctx); store.OutcomeOf(err) != c.want {
					t.Errorf("request %d: %v, %v", n, store.OutcomeOf(err), err)
				}
				cancel()
			}
			if n := came.Load(); n != 4 {
				t.Errorf("%d requests, of 4 that were made", n)
			}
		})
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	if err := newAPIClient(gone.Addr().String(), "", nil).Cancel(t.Context(), "q", "0-a"); store.OutcomeOf(err) != store.Fail {
		t.Errorf("nobody listens: %v", err)
	}
	err = apiProblem{Status: 503, Code: "partly", Shards: []int{1}}.cause(apiRequest{})
	if toldOf(0, err) != nil || toldOf(1, err) == nil {
		t.Errorf("done in part: %v, %v", toldOf(0, err), toldOf(1, err))
	}
}
