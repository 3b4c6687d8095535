package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// simSink is the sink over the process's own network.
type simSink struct {
	w       *World
	session *sim.Session
	clock   clock.Clock
	timeout time.Duration
}

func (s *simSink) call(ctx context.Context, name string, f func()) error {
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.clock.AfterFunc(s.timeout, cancel)()
	return s.session.Call(rctx, name, f)
}

// repeat sends until it is answered or ctx ends.
func (s *simSink) repeat(ctx context.Context, name string, f func() (sink.Answer, error)) (sink.Answer, error) {
	unsure := false
	for {
		var a sink.Answer
		var failed error
		err := s.call(ctx, name, func() { a, failed = f() })
		switch {
		case err == nil && failed == nil && a.Result == sink.Stale && unsure:
			return a, &store.Error{Op: name, Outcome: store.Unknown, Cause: sink.ErrStaleAfterUnknown}
		case err == nil:
			return a, failed
		case store.OutcomeOf(err) != store.Fail:
			unsure = true
		}
		if ctx.Err() != nil || s.gone() {
			out := store.Fail
			if unsure {
				out = store.Unknown
			}
			return sink.Answer{}, &store.Error{Op: name, Outcome: out, Cause: err}
		}
		_ = s.clock.Sleep(ctx, s.timeout/5)
	}
}

func (s *simSink) gone() bool {
	select {
	case <-s.session.Crashed():
		return true
	default:
		return false
	}
}

func (s *simSink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return s.repeat(ctx, fmt.Sprint("raise ", resource, token), func() (sink.Answer, error) {
		return s.w.sink.Raise(context.Background(), resource, issuer, token)
	})
}

func (s *simSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if s.w.cfg.deafSink {
		return sink.Answer{Result: sink.Applied}, nil
	}
	return s.repeat(ctx, fmt.Sprint("accept ", resource, token, e.Key), func() (sink.Answer, error) {
		return s.w.sink.Accept(context.Background(), resource, issuer, token, e)
	})
}

func (s *simSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	var st sink.State
	err := s.call(ctx, "read "+resource, func() { st, _ = s.w.sink.Read(context.Background(), resource, keys...) })
	if err != nil {
		return sink.State{}, err
	}
	return st, nil
}

func (s *simSink) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) {
	return s.w.sink.Ledger(ctx, resource)
}

func (s *simSink) Forget(context.Context, string, time.Time) (int, error) { return 0, nil }

// Retire implements sink.Retirer.
func (s *simSink) Retire(ctx context.Context, issuer string, below int64, resources ...string) (int, error) {
	var n int // not the result: what was given up may still happen
	var err error
	failed := s.call(ctx, fmt.Sprint("retire ", issuer, resources), func() {
		before := map[string][]sink.Entry{}
		for _, r := range resources {
			before[r], _ = s.w.sink.Ledger(context.Background(), r)
		}
		n, err = s.w.sink.Retire(context.Background(), issuer, below, resources...)
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.w.counts["retired"] += n
		var removed []string
		for _, r := range resources {
			if left, _ := s.w.sink.Ledger(context.Background(), r); len(left) == 0 {
				s.w.retired[r] = append(s.w.retired[r], before[r]...)
				if len(before[r]) > 0 {
					removed = append(removed, r)
				}
			}
		}
		s.w.judgeRetireLocked(issuer, job.RunID(below), removed)
	})
	if failed != nil {
		return 0, failed
	}
	return n, err
}

// judgeRetireLocked checks, as it happens, that what is removed is over for good. A call that comes late
// may name a job that was forgotten and enqueued again since: what that one has done stays.
func (w *World) judgeRetireLocked(issuer string, below job.RunID, removed []string) {
	ids := w.shardIDs()
	id := ids[slices.IndexFunc(ids, func(id store.ShardID) bool { return engine.Issuer(id) == issuer })]
	head, rows := w.store.ShardRows(id)
	states := map[string]job.State{}
	for _, r := range rows {
		switch run := job.RunID(r.Run); {
		case r.Kind == store.KindJob:
			states[r.ID] = job.State(r.State)
		case r.Kind == store.KindRunning && run.Fence() == head.Fence && run < below:
			w.violateLocked("retire", "%s: run %s of job %s is at work, and what is below %s is retired", id, run, r.ID, below)
		}
	}
	for _, r := range removed {
		switch s, there := states[strings.TrimPrefix(r, "job/"+id.Queue+"/")]; {
		case there && (!s.Ended() || s == job.DLQ):
			w.violateLocked("retire", "%s: %s is retired, and its job is %s", id, r, s)
		}
	}
}

// judgeLeft checks that nothing is left of a job that was forgotten.
func (w *World) judgeLeft(j *simJob, t *jobTruth) {
	r := worker.Resource(j.job)
	if left, _ := w.sink.Ledger(context.Background(), r); w.cfg.retires && t.swept && len(left) > 0 {
		w.violate("retire", "job %s was forgotten, and %d entries of its ledger are left", j.job.ID, len(left))
	}
}
