package late

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"fencepost/core/engine"
)

// Defaults of Options, and limits.
const (
	DefaultTimeout = 5 * time.Second
	DefaultTries   = 5
	DefaultPause   = time.Second
	DefaultQueue   = 1000
	// Remembered is how many reported jobs are remembered.
	Remembered = 10_000
	// logged is how many events a second the log takes, and at once.
	logged = 20
	// dropsSaid is how often it is said that events were dropped.
	dropsSaid = time.Minute
)

// Event is a notification as a receiver gets it. Empty fields are left out.
type Event struct {
	// Event is job-late or schedule-late, Worker the process that tells.
	Event  string `json:"event"`
	Worker string `json:"worker"`
	Queue  string `json:"queue"`
	Shard  int    `json:"shard"`
	// Of a job: its id, kind, key and attempt, when that was due, and whether it is
	// waiting or started.
	Job     string `json:"job,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Key     string `json:"key,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Due     string `json:"due,omitempty"` // RFC 3339
	State   string `json:"state,omitempty"`
	// LateMS is by how much the job is late, or the latest of the occurrences.
	LateMS int64 `json:"late_ms"`
	// Of a schedule: its key, how many occurrences were fired late, and how many nominal
	// times were missed and skipped; why it fires no more.
	Schedule string `json:"schedule,omitempty"`
	Late     int    `json:"late,omitempty"`
	Missed   int64  `json:"missed,omitempty"`
	Skipped  int64  `json:"skipped,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Counter counts what became of events (core/service/metrics).
type Counter interface {
	// LateJob counts a reported job; state is waiting or started.
	LateJob(state string)
	// Notified counts an event of a way out: sent, failed or dropped.
	Notified(way, result string)
}

// Options configure a Notifier. Worker is needed.
type Options struct {
	Worker string
	// Webhook is the URL that events are posted to; "": they go to the log alone.
	Webhook string
	// Timeout bounds one request, default 5 s; Tries is how often an event is sent at
	// most, default 5; Pause is the wait after the first try, default 1 s, doubling.
	Timeout time.Duration
	Tries   int
	Pause   time.Duration
	// Queue is how many events may wait for each way out; default 1000.
	Queue int
	// Client defaults to one of its own. Counter may be nil.
	Client  *http.Client
	Counter Counter
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Notifier tells of what is late. Safe for concurrent use.
type Notifier struct {
	o    Options
	ways []*way
	mu   sync.Mutex
	told map[string]bool
	ring []string // of told, in order of time
	next int
}

// way is one way out.
type way struct {
	name    string
	queue   chan Event
	send    func(context.Context, Event) error
	dropped atomic.Int64
}

type nobody struct{}

func (nobody) LateJob(string)          {}
func (nobody) Notified(string, string) {}

// New makes a notifier; Run sends.
func New(o Options) *Notifier {
	o.Timeout, o.Pause = cmp.Or(max(o.Timeout, 0), DefaultTimeout), cmp.Or(max(o.Pause, 0), DefaultPause)
	o.Tries, o.Queue = cmp.Or(max(o.Tries, 0), DefaultTries), cmp.Or(max(o.Queue, 0), DefaultQueue)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Client == nil {
		o.Client = &http.Client{
			Transport: http.DefaultTransport.(*http.Transport).Clone(),
			// A redirected POST would become a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if o.Counter == nil {
		o.Counter = nobody{}
	}
	n := &Notifier{o: o, told: map[string]bool{}, ring: make([]string, Remembered)}
	n.add("log", n.logger())
	if o.Webhook != "" {
		n.add("webhook", n.post)
	}
	return n
}

func (n *Notifier) add(name string, send func(context.Context, Event) error) {
	n.ways = append(n.ways, &way{name: name, queue: make(chan Event, n.o.Queue), send: send})
}

// Job takes a job that is late; it fits engine.Options.LateJob.
func (n *Notifier) Job(l engine.LateJob) {
	state := "started"
	if l.Waiting {
		state = "waiting"
	}
	if !n.first(l.Shard.Queue + "/" + string(l.Job)) {
		return
	}
	n.o.Counter.LateJob(state)
	n.tell(Event{Event: "job-late", Queue: l.Shard.Queue, Shard: l.Shard.Shard, Job: string(l.Job), Kind: l.Kind, Key: l.Key,
		Attempt: l.Attempt, Due: l.Due.Format("2006-01-02T15:04:05.000Z07:00"), State: state, LateMS: l.By.Milliseconds()})
}

// Schedule takes what a schedule did not do in time; it fits engine.Options.Late.
func (n *Notifier) Schedule(l engine.Lateness) {
	e := Event{Event: "schedule-late", Queue: l.Shard.Queue, Shard: l.Shard.Shard, Schedule: l.Schedule,
		Late: len(l.Late), LateMS: l.By.Milliseconds(), Missed: l.Missed, Skipped: l.Skipped}
	if l.Err != nil {
		e.Error = l.Err.Error()
	}
	n.tell(e)
}

// first reports whether a job was not reported yet.
func (n *Notifier) first(job string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[job] {
		return false
	}
	delete(n.told, n.ring[n.next])
	n.told[job], n.ring[n.next] = true, job
	n.next = (n.next + 1) % len(n.ring)
	return true
}

func (n *Notifier) tell(e Event) {
	e.Worker = n.o.Worker
	for _, w := range n.ways {
		select {
		case w.queue <- e:
		default:
			w.dropped.Add(1)
			n.o.Counter.Notified(w.name, "dropped")
		}
	}
}

// Run sends until ctx ends; then what waits has Timeout to be sent, and the rest is
// dropped.
func (n *Notifier) Run(ctx context.Context) {
	last, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(n.o.Timeout, stop) })()
	var wg sync.WaitGroup
	for _, w := range n.ways {
		wg.Go(func() { n.run(ctx, last, w) })
	}
	wg.Wait()
	n.o.Client.CloseIdleConnections()
}

// run works a way's queue off. Requests may go on until last ends.
func (n *Notifier) run(ctx, last context.Context, w *way) {
	say := time.NewTicker(dropsSaid)
	defer say.Stop()
	defer n.sayDropped(w)
	for {
		select {
		case e := <-w.queue:
			n.send(last, w, e)
			continue
		default:
		}
		select {
		case e := <-w.queue:
			n.send(last, w, e)
		case <-say.C:
			n.sayDropped(w)
		case <-ctx.Done():
			for len(w.queue) > 0 {
				n.send(last, w, <-w.queue)
			}
			return
		}
	}
}

func (n *Notifier) send(ctx context.Context, w *way, e Event) {
	if ctx.Err() != nil {
		w.dropped.Add(1)
		n.o.Counter.Notified(w.name, "dropped")
		return
	}
	if err := w.send(ctx, e); err != nil {
		n.o.Logger.Warn("lateness notification failed", "channel", w.name, "event", e.Event, "job", e.Job, "schedule", e.Schedule, "error", err)
		n.o.Counter.Notified(w.name, "failed")
		return
	}
	n.o.Counter.Notified(w.name, "sent")
}

func (n *Notifier) sayDropped(w *way) {
	if d := w.dropped.Swap(0); d > 0 {
		n.o.Logger.Warn("lateness notifications dropped: queue full", "channel", w.name, "dropped", d)
	}
}

// logger writes events into the log, but no flood of them: what is more is counted.
func (n *Notifier) logger() func(context.Context, Event) error {
	limit := rate.NewLimiter(logged, logged)
	left := 0
	return func(_ context.Context, e Event) error {
		if !limit.Allow() {
			left++
			return nil
		}
		args := []any{"queue", e.Queue, "shard", e.Shard, "late_ms", e.LateMS}
		if e.Event == "job-late" {
			args = append(args, "job", e.Job, "kind", e.Kind, "key", e.Key, "attempt", e.Attempt, "due", e.Due, "state", e.State)
		} else {
			args = append(args, "schedule", e.Schedule, "late", e.Late, "missed", e.Missed, "skipped", e.Skipped, "error", e.Error)
		}
		if left > 0 {
			args, left = append(args, "not_logged_before", left), 0
		}
		n.o.Logger.Warn(map[string]string{"job-late": "job is late", "schedule-late": "schedule is late"}[e.Event], args...)
		return nil
	}
}

// mostAnswer is how much of an answer is read, so that its connection can be used again.
const mostAnswer = 64 << 10

// post sends an event until it is taken, refused for good, or was tried often enough.
func (n *Notifier) post(ctx context.Context, e Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	pause := n.o.Pause
	for try := 1; ; try++ {
		again, err := n.once(ctx, body)
		if err == nil || !again {
			return err
		}
		if try == n.o.Tries {
			return fmt.Errorf("tried %d times: %w", try, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("tried %d times before the process stopped: %w", try, err)
		}
		pause *= 2
	}
}

// once sends an event, and reports whether it makes sense to try again if it failed.
func (n *Notifier) once(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.o.Webhook, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "schedulerd")
	resp, err := n.o.Client.Do(req)
	var failed *url.Error
	if errors.As(err, &failed) {
		return true, failed.Err // without the URL, which may be a secret
	} else if err != nil {
		return true, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer))
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return false, nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return true, fmt.Errorf("the webhook answers %s", resp.Status)
	}
	return false, fmt.Errorf("the webhook answers %s", resp.Status)
}
