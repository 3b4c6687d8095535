package metrics

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Metrics is an engine.Observer. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	now      func() time.Time

	processed                                     *prometheus.CounterVec
	inProgress, owned, paused                     prometheus.Gauge
	enqueued, dlq                                 prometheus.Counter
	duration, lateness                            prometheus.Histogram
	acquire, acquired, takenOver                  prometheus.Counter
	renewed, notRenewed, released, unreleased     prometheus.Counter
	lost                                          prometheus.Counter
	lwt                                           *prometheus.HistogramVec
	copies, refused                               *prometheus.CounterVec
	operations                                    prometheus.Histogram
	scheduleLate, scheduleMissed, scheduleSkipped prometheus.Counter
	jobsLate, notified                            *prometheus.CounterVec
	requests                                      *prometheus.CounterVec
	requestTime                                   *prometheus.HistogramVec

	queues atomic.Pointer[func() []store.Queue]

	mu sync.Mutex
	// running are the starts of runs that are at work; mine the shards that are owned.
	running map[runKey]time.Time
	mine    map[store.ShardID]bool // whether they are paused
}

type runKey struct {
	shard store.ShardID
	run   job.RunID
}

var _ engine.Observer = (*Metrics)(nil)

// Buckets, in seconds; operations are a number.
var (
	latencies  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	durations  = []float64{.005, .01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600}
	operations = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	latenesses = []float64{.01, .05, .1, .25, .5, 1, 2, 4, 8, 15, 60, 300, 3600}
)

// New makes metrics in a registry of their own, with those of the process. Now is the
// wall clock, time.Now if it is nil.
func New(now func() time.Time) *Metrics {
	if now == nil {
		now = time.Now
	}
	m := &Metrics{registry: prometheus.NewRegistry(), now: now, running: map[runKey]time.Time{}, mine: map[store.ShardID]bool{}}
	register := promauto.With(m.registry)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return register.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return register.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}

	m.processed = counters("jobs_processed_total", "Ended runs, and ended pending jobs, by the job's new state: completed, retry, rescue, dlq, cancelled, abandoned.", "status")
	for _, status := range statuses {
		m.processed.WithLabelValues(status)
	}
	m.inProgress = gauge("jobs_in_progress", "Running handlers.")
	m.duration = histogram("job_duration_seconds", "Duration of a handler's call.", durations)
	m.lateness = histogram("job_lateness_seconds", "From an attempt's due time to the call of its handler, by this process's wall clock; excludes the time for which its shard was paused.", latenesses)
	m.dlq = counter("jobs_dlq_total", "Jobs that went to the dead letter queue.")
	m.enqueued = counter("jobs_enqueued_total", "Jobs that this process put into its shards, those of schedules and sequences included.")
	m.acquire = counter("lock_acquire_attempt_total", "Attempted shard takeovers.")
	m.acquired = counter("lock_acquire_success_total", "Successful shard takeovers.")
	m.takenOver = counter("lock_takeover_success_total", "Successful takeovers of shards that had an owner before, handed over or not.")
	m.renewed = counter("lock_renew_success_total", "Ticks of shards that were applied.")
	m.notRenewed = counter("lock_renew_failure_total", "Ticks of shards that were rejected, failed, or have an unknown outcome.")
	m.released = counter("lock_release_success_total", "Shards that were handed over.")
	m.unreleased = counter("lock_release_failure_total", "Hand-overs that were rejected, failed, or have an unknown outcome.")
	m.lost = counter("shards_lost_total", "Ownerships that ended without a hand-over.")
	m.owned = gauge("shards_owned", "Shards that this process owns.")
	m.paused = gauge("shards_paused", "Of these, shards that are paused.")
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: "shards_configured", Help: "Shards of all queues, owned by this process or not."}, m.configured)
	m.lwt = histograms("lwt_latency_seconds", "From the first transmission of a conditional batch until its outcome is settled, by kind: tick, takeover, handover.", latencies, "op")
	m.copies = counters("lwt_copies_total", "Transmissions of conditional batches.", "op")
	for _, op := range []engine.OpKind{engine.OpTick, engine.OpTakeover, engine.OpHandover} {
		m.lwt.WithLabelValues(string(op))
		m.copies.WithLabelValues(string(op))
	}
	m.operations = histogram("tick_operations", "Changes of rows in a tick.", operations)
	m.refused = counters("enqueues_refused_total", "Enqueues for this process's shards that were refused, by reason: busy, stalled.", "reason")
	for _, reason := range []string{busy, stalled} {
		m.refused.WithLabelValues(reason)
	}
	m.scheduleLate = counter("schedule_late_total", "Occurrences of schedules that were fired late.")
	m.scheduleMissed = counter("schedule_missed_total", "Nominal times that were skipped because they came too late.")
	m.scheduleSkipped = counter("schedule_skipped_total", "Nominal times that were skipped because the previous occurrence had not ended.")
	m.jobsLate = counters("jobs_late_total", "Late jobs, each counted once, by their state then: waiting or started.", "state")
	m.notified = counters("late_notifications_total", "Lateness notifications, by channel (log, webhook) and result: sent, failed, dropped.", "way", "result")
	for _, state := range []string{"waiting", "started"} {
		m.jobsLate.WithLabelValues(state)
	}
	for _, way := range []string{"log", "webhook"} {
		for _, result := range []string{"sent", "failed", "dropped"} {
			m.notified.WithLabelValues(way, result)
		}
	}
	m.requests = counters("http_requests_total", "Requests to the API, by route and status.", "route", "code")
	m.requestTime = histograms("http_request_duration_seconds", "From a request to its answer, by route.", latencies, "route")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Queues says what queues there are, whose shards are counted.
func (m *Metrics) Queues(all func() []store.Queue) { m.queues.Store(&all) }

func (m *Metrics) configured() (n float64) {
	if all := m.queues.Load(); all != nil {
		for _, q := range (*all)() {
			n += float64(q.Shards)
		}
	}
	return n
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Gatherer gives the metrics to other registries and to tests.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Request counts a request to the API; it fits api.Options.Observe.
func (m *Metrics) Request(_, route string, status int, took time.Duration) {
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.requestTime.WithLabelValues(route).Observe(took.Seconds())
}

// Why an enqueue is refused.
const (
	busy    = "busy"    // there is too much to do
	stalled = "stalled" // the store does not answer
)

// Refused counts an enqueue that was refused; it fits engine.Options.Refused.
func (m *Metrics) Refused(_ store.ShardID, cause error) {
	reason := busy
	if errors.Is(cause, engine.ErrStalled) {
		reason = stalled
	}
	m.refused.WithLabelValues(reason).Inc()
}

// Late counts what schedules did not do in time; it fits engine.Options.Late.
func (m *Metrics) Late(l engine.Lateness) {
	m.scheduleLate.Add(float64(len(l.Late)))
	m.scheduleMissed.Add(float64(l.Missed))
	m.scheduleSkipped.Add(float64(l.Skipped))
}

// LateJob counts a job that is late; with Notified it makes Metrics a late.Counter.
func (m *Metrics) LateJob(state string) { m.jobsLate.WithLabelValues(state).Inc() }

// Notified counts what became of an event of what is late.
func (m *Metrics) Notified(way, result string) { m.notified.WithLabelValues(way, result).Inc() }

// statuses of jobs_processed_total, by step.
var statuses = map[engine.StepKind]string{
	engine.StepComplete: "completed", engine.StepRetry: "retry", engine.StepRescue: "rescue", engine.StepDLQ: "dlq",
	engine.StepCancel: "cancelled", engine.StepAbandon: "abandoned",
}

// Step implements engine.Observer.
func (m *Metrics) Step(s engine.Step) {
	if status, ok := statuses[s.Kind]; ok {
		m.processed.WithLabelValues(status).Inc()
	}
	switch s.Kind {
	case engine.StepDLQ:
		m.dlq.Inc()
	case engine.StepEnqueue:
		m.enqueued.Inc()
	case engine.StepOwn:
		m.own(s.Shard, s.Paused)
	case engine.StepPause, engine.StepResume:
		m.own(s.Shard, s.Kind == engine.StepPause)
	case engine.StepLost:
		m.lost.Inc()
		m.disown(s.Shard)
	case engine.StepHanded:
		m.disown(s.Shard)
	case engine.StepStart:
		now := m.now()
		m.lateness.Observe(max(0, now.Sub(time.UnixMilli(s.Due+s.Held)).Seconds()))
		m.mu.Lock()
		m.running[runKey{s.Shard, s.Run}] = now
		m.inProgress.Set(float64(len(m.running)))
		m.mu.Unlock()
	case engine.StepFinish:
		m.finish(runKey{s.Shard, s.Run})
	}
}

// finish ends a run, if it was begun: a run may finish that was not.
func (m *Metrics) finish(k runKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	began, ok := m.running[k]
	if !ok {
		return
	}
	delete(m.running, k)
	m.inProgress.Set(float64(len(m.running)))
	m.duration.Observe(m.now().Sub(began).Seconds())
}

func (m *Metrics) own(s store.ShardID, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mine[s] = paused
	m.countShards()
}

func (m *Metrics) disown(s store.ShardID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mine, s)
	m.countShards()
}

func (m *Metrics) countShards() {
	paused := 0
	for _, p := range m.mine {
		if p {
			paused++
		}
	}
	m.owned.Set(float64(len(m.mine)))
	m.paused.Set(float64(paused))
}

// Begin implements engine.Observer.
func (m *Metrics) Begin(op engine.Op) engine.Span {
	switch op.Kind {
	case engine.OpTakeover:
		m.acquire.Inc()
	case engine.OpTick:
		m.operations.Observe(float64(op.Rows))
	}
	return &span{m: m, op: op}
}

type span struct {
	m     *Metrics
	op    engine.Op
	began time.Time
}

// Sending implements engine.Span.
func (s *span) Sending(copyNo int) {
	if copyNo == 0 {
		s.began = s.m.now()
	}
	s.m.copies.WithLabelValues(string(s.op.Kind)).Inc()
}

// End implements engine.Span.
func (s *span) End(r engine.Result) {
	m, done := s.m, r.Outcome == store.OK
	if !s.began.IsZero() {
		m.lwt.WithLabelValues(string(s.op.Kind)).Observe(max(0, m.now().Sub(s.began).Seconds()))
	}
	switch {
	case s.op.Kind == engine.OpTakeover && done:
		m.acquired.Inc()
		if s.op.From.Fence > 0 {
			m.takenOver.Inc()
		}
	case s.op.Kind == engine.OpTick && done:
		m.renewed.Inc()
	case s.op.Kind == engine.OpTick:
		m.notRenewed.Inc()
	case s.op.Kind == engine.OpHandover && done:
		m.released.Inc()
	case s.op.Kind == engine.OpHandover:
		m.unreleased.Inc()
	}
}
