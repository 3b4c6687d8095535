package broken

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// play is a run of two schedulers with one shard over a simulated store: the first
// loses answers, and later crashes with a run at work and jobs that wait.
type play struct {
	t     *testing.T
	store *sim.Store

	mu     sync.Mutex
	armed  bool // the next batch of w1 that only claims is not answered
	owners map[string]bool
	failed map[store.Stamp]bool
	due    map[job.ID]time.Time
	wrong  map[string]string
}

func (p *play) found(rule, format string, args ...any) {
	if p.wrong[rule] == "" {
		p.wrong[rule] = fmt.Sprintf(format, args...)
	}
}

// watcher is the observer of one process.
type watcher struct {
	*play
	name    string
	session *sim.Session
}

func (w watcher) Begin(op engine.Op) engine.Span {
	w.mu.Lock()
	defer w.mu.Unlock()
	claims := len(op.Changes) > 0
	for _, c := range op.Changes {
		claims = claims && c.Kind == engine.StepClaim
	}
	if claims && w.armed && w.name == "w1.1" {
		w.armed = false
		w.session.SetFaults(lossy)
		time.AfterFunc(1500*time.Millisecond, func() { w.session.SetFaults(sim.Faults{}) })
	}
	return watched{w, op.To}
}

type watched struct {
	watcher
	to store.Stamp
}

func (watched) Sending(int) {}
func (w watched) End(r engine.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Outcome == store.Fail {
		w.failed[w.to] = true
	}
}

func (w watcher) Step(s engine.Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s.Kind {
	case engine.StepOwn:
		if len(w.owners) > 0 {
			w.found("overlap", "%s took what %v still trusted", w.name, w.owners)
		}
		w.owners[w.name] = true
	case engine.StepLost, engine.StepHanded:
		delete(w.owners, w.name)
	case engine.StepStart:
		if d := time.Until(w.due[s.Job]); d > 0 {
			w.found("early", "%s started %s before it was due", s.Job, d)
		}
	}
}

// takes is a handler that ends after d.
func takes(d time.Duration, err error) worker.Handler {
	return func(ctx context.Context, _ *worker.Task) error {
		if e := clock.Go().Sleep(ctx, d); e != nil {
			return e
		}
		return err
	}
}

// start begins a process with a variant's hooks; stop waits for its end.
func (p *play) start(variant, name string, rank int) (e *engine.Engine, s *sim.Session, stop func()) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s = p.store.Connect(name, 1)
	pool := worker.New(worker.Options{Logger: quiet, Clock: clock.Go(), Handlers: map[string]worker.Handler{
		"ok": takes(50*time.Millisecond, nil), "long": takes(3*time.Second, nil), "bad": takes(0, errors.New("bad"))}})
	o := engine.Options{
		Name: name, Queues: []engine.Queue{{Name: "q", Shards: 1}}, Executor: pool,
		Ownership: engine.Ownership{TTL: config.TTL, Rank: func(store.ShardID) int { return rank }},
		World:     engine.World{Clock: clock.Go(), Wall: time.Now, Rand: rand.New(rand.NewPCG(1, 2))},
		Reports:   engine.Reports{Observer: watcher{p, name, s}, Logger: quiet},
	}
	shards := store.Shards(s)
	if variant != "" {
		h, err := Worker(variant)
		if err != nil {
			p.t.Fatal(err)
		}
		if h.Engine != nil {
			h.Engine(config, &o)
		}
		switch {
		case variant == "jobs-silent-is-dead": // nobody beats here
			shards = silentIsDead(config, s, "cell", s)
		case h.Shards != nil:
			shards = h.Shards(config, nil, s)
		}
	}
	e, err := engine.New(shards, o)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		_ = e.Run(ctx)
		pool.Wait()
		close(done)
	}()
	return e, s, func() { cancel(); <-done }
}

// enqueue asks the process that owns the shard, if one does.
func (p *play) enqueue(kind, key string, due time.Duration, es ...*engine.Engine) {
	j := job.Job{ID: job.KeyedID("q", key, 1), Queue: "q", Kind: kind, Key: key, MaxAttempts: 3, Retry: job.Exponential(100*time.Millisecond, 2, time.Second)}
	if due > 0 {
		j.Due = time.Now().Add(due)
		p.mu.Lock()
		p.due[j.ID] = j.Due
		p.mu.Unlock()
	}
	for _, e := range es {
		if e.Owns(shard0) {
			go func() {
				ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Second)
				defer cancel()
				_, _ = e.Enqueue(ctx, j)
			}()
			return
		}
	}
}

func (p *play) run(variant string) {
	a, session, stopA := p.start(variant, "w1.1", 0)
	rank := 1
	if variant == "jobs-silent-is-dead" {
		rank = 0 // it believes to be alone
	}
	b, _, stopB := p.start(variant, "w2.1", rank)
	time.Sleep(time.Second)
	for i := range 40 {
		kind, due := "ok", time.Duration(0)
		switch {
		case i%10 == 7:
			kind = "bad"
		case i%4 == 1:
			due = 9 * time.Second
		}
		p.enqueue(kind, fmt.Sprint(i), due, a, b)
		if i == 10 {
			p.mu.Lock()
			p.armed = true
			p.mu.Unlock()
		}
		time.Sleep(400 * time.Millisecond)
	}
	p.enqueue("long", "long", 0, a, b)
	time.Sleep(time.Second)
	session.Crash()
	p.mu.Lock()
	delete(p.owners, "w1.1")
	p.mu.Unlock()
	stopA()
	time.Sleep(40 * time.Second)
	p.enqueue("ok", "0", 0, b)
	time.Sleep(10 * time.Second)
	stopB()
	p.judge()
}

// judge looks at what the store did and what is left in it.
func (p *play) judge() {
	attempts, completed := map[string]int{}, map[string]int{}
	for _, c := range p.store.ShardChanges() {
		if p.failed[c.To.Stamp] {
			p.found("told failed", "%s was called failed and happened", c.To.Stamp)
		}
		for _, op := range c.Ops {
			switch r := op.Row; {
			case op.Kind == store.Put && r.Kind == store.KindRunning:
				if r.Attempt <= attempts[r.ID] {
					p.found("attempts", "%s is claimed for attempt %d after %d", r.ID, r.Attempt, attempts[r.ID])
				}
				attempts[r.ID] = r.Attempt
			case op.Kind == store.Put && r.State == string(job.Completed):
				if completed[r.ID]++; completed[r.ID] > 1 {
					p.found("twice", "%s is completed twice", r.ID)
				}
			}
		}
	}
	if len(completed) < 30 {
		p.found("idle", "%d jobs were completed", len(completed))
	}
	_, rows := p.store.ShardRows(shard0)
	places := map[string][]store.Kind{}
	for _, r := range rows {
		if r.Kind != store.KindJob {
			places[r.ID] = append(places[r.ID], r.Kind)
		}
	}
	for _, r := range rows {
		if r.Kind != store.KindJob {
			continue
		}
		want := map[string]store.Kind{"pending": store.KindPending, "running": store.KindRunning, "dlq": store.KindDLQ, "completed": store.KindEnded}[r.State]
		if len(places[r.ID]) != 1 || places[r.ID][0] != want {
			p.found("rows", "%s is %s and has rows of kind %v", r.ID, r.State, places[r.ID])
		}
		if want == store.KindPending || want == store.KindRunning {
			p.found("stuck", "%s is %s at the end", r.ID, r.State)
		}
	}
}

// With the production engine each variant does what it was made for, and without one
// nothing goes wrong.
func TestVariantsOfTheEngine(t *testing.T) {
	t.Parallel()
	for variant, rule := range map[string]string{
		"":                       "",
		"jobs-tick-blind":        "rows",
		"jobs-unknown-means-no":  "told failed",
		"jobs-early-hand-over":   "overlap",
		"jobs-silent-is-dead":    "overlap",
		"jobs-rescue-dead-only":  "stuck",
		"jobs-dlq-lost":          "rows",
		"jobs-retries-in-memory": "attempts",
		"jobs-claimed-twice":     "twice",
		"jobs-behind-the-mark":   "stuck",
		"jobs-swept-early":       "twice",
		"jobs-early-bird":        "early",
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &play{t: t, store: sim.New(), owners: map[string]bool{}, failed: map[store.Stamp]bool{}, due: map[job.ID]time.Time{}, wrong: map[string]string{}}
				p.run(variant)
				t.Logf("found %v", p.wrong)
				if rule == "" && len(p.wrong) > 0 || rule != "" && p.wrong[rule] == "" {
					t.Errorf("want %q", rule)
				}
			})
		})
	}
}
