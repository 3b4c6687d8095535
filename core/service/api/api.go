package api

import (
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/service/query"
	"fencepost/core/store"
)

// Scheduler makes the changes that the API is asked for; *scheduler.Scheduler implements it.
type Scheduler interface {
	Submit(ctx context.Context, j job.Job) (engine.Receipt, error)
	Cancel(ctx context.Context, queue string, id job.ID) error
	Redrive(ctx context.Context, queue string, id job.ID) error
	Hasten(ctx context.Context, queue string, id job.ID) (engine.Receipt, error)
	Schedule(ctx context.Context, c engine.ScheduleCommand) (engine.Receipt, error)
	SetPaused(ctx context.Context, queue string, on bool) (duplicate bool, err error)
	PutQueue(ctx context.Context, queue string, shards int) (q store.Queue, duplicate bool, err error)
}

// Defaults of Options.
const (
	DefaultMaxBody = 256 << 10
	DefaultTimeout = 20 * time.Second
)

// Options configure a Handler. Scheduler and Reader are needed.
type Options struct {
	Scheduler Scheduler
	// Reader knows the queues, too. The first is that of requests that name none.
	Reader *query.Reader
	// Check, if set, reports a job that no handler of this scheduler can run, as a
	// *job.InvalidError of kind or payload.
	Check func(kind string, payload []byte) error
	// Token is asked for, as Authorization: Bearer TOKEN; "": none is.
	Token string
	JobDefaults
	Limits
	Probes
	// NewID returns unique ids of requests, jobs and triggers; default: UUIDs that begin with
	// the time (job.UniqueID).
	NewID func() uuid.UUID
	// Now is the wall clock; default time.Now.
	Now func() time.Time
	// Logger takes a line for each request, at level debug for probes, metrics and the
	// description; default slog.Default().
	Logger *slog.Logger
}

// JobDefaults apply to jobs that set none; zero values: the core's defaults.
type JobDefaults struct {
	MaxAttempts int
	Retry       job.RetryPolicy
}

// Limits bound requests.
type Limits struct {
	// Rate is how many requests per second are answered, Burst how many of them may come
	// at once; 0: any number.
	Rate  float64
	Burst int
	// MaxBody bounds a request's body, in bytes; default 256 KiB.
	MaxBody int64
	// Timeout bounds what a request waits for; default 20 s.
	Timeout time.Duration
}

// Probes configure the probes and the metrics.
type Probes struct {
	// Ready reports why this process should be given no requests; nil: it always should.
	Ready func() error
	// Why explains a database error in probe responses; it returns "" to omit the
	// explanation. Nil: always omitted.
	Why func(error) string
	// Metrics, if set, is served at /metrics.
	Metrics http.Handler
	// Observe, if set, is called for each request that was answered; route is its pattern,
	// "" for none.
	Observe func(method, route string, status int, took time.Duration)
}

// server is the API.
type server struct {
	o     Options
	limit *rate.Limiter
	pulse *pulse
	// quiet are the patterns of open routes, which are asked for all the time.
	quiet   map[string]bool
	foreign *http.CrossOriginProtection
}

// route is an operation; id is its operationId in openapi.yaml.
type route struct {
	method, path, id string
	// open: no token is asked for, and no limit holds.
	open bool
	do   func(*http.Request) (reply, error)
	// raw serves instead of do.
	raw http.Handler
}

// reply is an answer that is no problem.
type reply struct {
	status int // 0: 200
	body   any
	// location is of what was created; "" for none.
	location string
}

// Handler serves the API.
func Handler(o Options) http.Handler {
	o.MaxBody, o.Timeout = cmp.Or(max(o.MaxBody, 0), DefaultMaxBody), cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.NewID == nil {
		o.NewID = scheduler.NewUUID
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Why == nil {
		o.Why = func(error) string { return "" }
	}
	if o.Metrics == nil {
		o.Metrics = http.NotFoundHandler()
	}
	s := &server{o: o, quiet: map[string]bool{}, pulse: &pulse{ask: o.Reader.Ping}, foreign: http.NewCrossOriginProtection()}
	if o.Rate > 0 {
		s.limit = rate.NewLimiter(rate.Limit(o.Rate), max(1, o.Burst))
	}
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		pattern := r.method + " " + r.path
		mux.Handle(pattern, s.serve(r))
		s.quiet[pattern] = r.open
	}
	return s.outermost(mux)
}

// routes are all operations. The short paths are the same as those of /api/v1.
func (s *server) routes() []route {
	const v1 = "/api/v1"
	return []route{
		{method: "POST", path: "/jobs", id: "createJobShort", do: s.createJob},
		{method: "POST", path: "/jobs/batch", id: "createJobsShort", do: s.createJobs},
		{method: "GET", path: "/jobs/{id}", id: "getJobShort", do: s.in(s.getJob)},
		{method: "POST", path: "/jobs/{id}/run", id: "runJobShort", do: s.in(s.runJob)},

		{method: "POST", path: v1 + "/jobs", id: "createJob", do: s.createJob},
		{method: "POST", path: v1 + "/jobs/batch", id: "createJobs", do: s.createJobs},
		{method: "GET", path: v1 + "/jobs", id: "listJobs", do: s.in(s.listJobs, "state", "limit", "after")},
		{method: "GET", path: v1 + "/jobs/{id}", id: "getJob", do: s.in(s.getJob)},
		{method: "POST", path: v1 + "/jobs/{id}/run", id: "runJob", do: s.in(s.runJob)},
		{method: "POST", path: v1 + "/jobs/{id}/cancel", id: "cancelJob", do: s.in(s.cancelJob)},
		{method: "POST", path: v1 + "/jobs/{id}/retry", id: "retryJob", do: s.in(s.redrive)},
		{method: "GET", path: v1 + "/jobs/{id}/runs", id: "listRuns", do: s.in(s.listRuns, "days")},

		{method: "GET", path: v1 + "/dlq", id: "listDeadJobs", do: s.in(s.listDead, "limit", "after")},
		{method: "POST", path: v1 + "/dlq/redrive", id: "redriveDeadJobs", do: s.redriveDead},
		{method: "POST", path: v1 + "/dlq/{id}/redrive", id: "redriveDeadJob", do: s.in(s.redrive)},

		{method: "GET", path: v1 + "/schedules", id: "listSchedules", do: s.in(s.listSchedules, "limit", "after")},
		{method: "PUT", path: v1 + "/schedules/{key}", id: "putSchedule", do: s.putSchedule},
		{method: "GET", path: v1 + "/schedules/{key}", id: "getSchedule", do: s.in(s.getSchedule)},
		{method: "DELETE", path: v1 + "/schedules/{key}", id: "deleteSchedule", do: s.in(s.command(engine.RemoveSchedule))},
		{method: "POST", path: v1 + "/schedules/{key}/enable", id: "enableSchedule", do: s.in(s.command(engine.EnableSchedule))},
		{method: "POST", path: v1 + "/schedules/{key}/disable", id: "disableSchedule", do: s.in(s.command(engine.DisableSchedule))},
		{method: "POST", path: v1 + "/schedules/{key}/trigger", id: "triggerSchedule", do: s.in(s.trigger)},

		{method: "GET", path: v1 + "/queues", id: "listQueues", do: s.listQueues},
		{method: "GET", path: v1 + "/queues/{queue}", id: "getQueue", do: s.getQueue},
		{method: "PUT", path: v1 + "/queues/{queue}", id: "putQueue", do: s.putQueue},
		{method: "POST", path: v1 + "/queues/{queue}/pause", id: "pauseQueue", do: s.setPaused(true)},
		{method: "POST", path: v1 + "/queues/{queue}/resume", id: "resumeQueue", do: s.setPaused(false)},

		{method: "GET", path: "/healthz", id: "health", open: true, do: s.health},
		{method: "GET", path: "/readyz", id: "ready", open: true, do: s.ready},
		{method: "GET", path: "/metrics", id: "metrics", open: true, raw: s.o.Metrics},
		{method: "GET", path: "/openapi.yaml", id: "describe", open: true, raw: http.HandlerFunc(describe)},
	}
}

// Description is the API in OpenAPI 3.1.
//
//go:embed openapi.yaml
var Description []byte

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(Description)
}
