package metrics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/service/metrics"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
	"fencepost/internal/docpage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMetrics: a scheduler's jobs are counted, under names that Prometheus' linter
// finds nothing wrong with.
func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(nil)
		session := sim.New().Connect("a", 1)
		s, err := scheduler.New(scheduler.Options{
			Shards: session, Handlers: map[string]worker.Handler{
				"good": func(context.Context, *worker.Task) error { time.Sleep(2 * time.Second); return nil },
				"bad":  func(context.Context, *worker.Task) error { return errors.New("on purpose") },
			},
			Engine: engine.Options{Name: "a", Queues: []engine.Queue{{Name: "q", Shards: 2}}, World: engine.World{Clock: clock.Go()},
				Reports: engine.Reports{Observer: m, Late: m.Late, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- s.Run(ctx) }()
		time.Sleep(time.Minute)
		enqueue := func(key, kind string) {
			t.Helper()
			if _, err := s.Submit(ctx, job.Job{ID: job.KeyedID("q", key, 2), Queue: "q", Key: key, Kind: kind, MaxAttempts: 2}); err != nil {
				t.Fatal(err)
			}
		}
		enqueue("a", "good")
		enqueue("b", "good")
		enqueue("c", "bad")
		time.Sleep(time.Second)
		expect := func(text string) {
			t.Helper()
			var names []string
			for line := range strings.Lines(text) {
				if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
					names = append(names, strings.Fields(rest)[0])
				}
			}
			if err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(text), names...); err != nil {
				t.Error(err)
			}
		}
		expect("# HELP jobs_in_progress Running handlers.\n# TYPE jobs_in_progress gauge\njobs_in_progress 2\n" +
			"# HELP shards_owned Shards that this process owns.\n# TYPE shards_owned gauge\nshards_owned 2\n")
		if _, err := s.SetPaused(ctx, "q", true); err != nil {
			t.Error(err)
		}
		enqueue("d", "good")
		time.Sleep(time.Minute)
		expect("# HELP shards_paused Of these, shards that are paused.\n# TYPE shards_paused gauge\nshards_paused 2\n")
		if _, err := s.SetPaused(ctx, "q", false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if late := m.LateBy(); late > 1 {
			t.Errorf("late by %f s, a minute of it paused", late)
		}
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
		m.Request("GET", "GET /jobs/{id}", 200, time.Millisecond)
		m.LateJob("started")
		m.Notified("webhook", "dropped")
		expect("# HELP jobs_late_total Late jobs, each counted once, by their state then: waiting or started.\n# TYPE jobs_late_total counter\n" +
			"jobs_late_total{state=\"started\"} 1\njobs_late_total{state=\"waiting\"} 0\n")
		expect(`# HELP jobs_processed_total Ended runs, and ended pending jobs, by the job's new state: completed, retry, rescue, dlq, cancelled, abandoned.
# TYPE jobs_processed_total counter
jobs_processed_total{status="abandoned"} 0
jobs_processed_total{status="cancelled"} 0
jobs_processed_total{status="completed"} 3
jobs_processed_total{status="dlq"} 1
jobs_processed_total{status="rescue"} 0
jobs_processed_total{status="retry"} 1
# HELP jobs_in_progress Running handlers.
# TYPE jobs_in_progress gauge
jobs_in_progress 0
# HELP jobs_dlq_total Jobs that went to the dead letter queue.
# TYPE jobs_dlq_total counter
jobs_dlq_total 1
# HELP jobs_enqueued_total Jobs that this process put into its shards, those of schedules and sequences included.
# TYPE jobs_enqueued_total counter
jobs_enqueued_total 4
# HELP lock_acquire_attempt_total Attempted shard takeovers.
# TYPE lock_acquire_attempt_total counter
lock_acquire_attempt_total 2
# HELP lock_acquire_success_total Successful shard takeovers.
# TYPE lock_acquire_success_total counter
lock_acquire_success_total 2
# HELP lock_release_success_total Shards that were handed over.
# TYPE lock_release_success_total counter
lock_release_success_total 2
# HELP lock_renew_failure_total Ticks of shards that were rejected, failed, or have an unknown outcome.
# TYPE lock_renew_failure_total counter
lock_renew_failure_total 0
# HELP shards_owned Shards that this process owns.
# TYPE shards_owned gauge
shards_owned 0
# HELP shards_paused Of these, shards that are paused.
# TYPE shards_paused gauge
shards_paused 0
`)
		if n := testutil.CollectAndCount(m.Duration(), "job_duration_seconds"); n != 1 {
			t.Errorf("%d series", n)
		}
		problems, err := testutil.GatherAndLint(m.Gatherer())
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
		// Those of the specification, by name.
		families, err := m.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, f := range families {
			have[f.GetName()] = true
		}
		for _, name := range []string{"jobs_processed_total", "jobs_in_progress", "job_duration_seconds", "jobs_dlq_total", "lock_acquire_attempt_total",
			"lock_acquire_success_total", "lock_takeover_success_total", "lock_renew_success_total", "lock_renew_failure_total",
			"lock_release_success_total", "lock_release_failure_total", "lwt_latency_seconds", "job_lateness_seconds", "lwt_copies_total", "shards_configured", "jobs_late_total", "late_notifications_total"} {
			if !have[name] {
				t.Errorf("%s is missing", name)
			}
		}
	})
}

// TestPage: docs/metrics.md lists what a scheduler exports. Metrics whose labels' values are
// not known from the start are given one.
func TestPage(t *testing.T) {
	t.Parallel()
	m := metrics.New(nil)
	m.Request("GET", "GET /jobs/{id}", 200, time.Millisecond)
	docpage.Metrics(t, "metrics.md", m.Gatherer(), len(m.Defined()))
}
