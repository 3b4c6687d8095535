package jobs

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/bench"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// window runs one arm for a window and looks at everything.
func (w *world) window(t *testing.T, kind string, length time.Duration) *bench.Result {
	t.Helper()
	s := newSuite(t, Config{})
	if err := s.Open(t.Context(), w.env); err != nil {
		t.Fatal(err)
	}
	a := s.arm(kind, 2)
	subject, err := s.Subject(a, 1)
	if err != nil {
		t.Fatal(err)
	}
	sample, err := subject.Window(t.Context(), bench.Window{Arm: a, Round: 1, Length: length, Lead: time.Second, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &bench.Result{Suite: s, Design: s.Design(), Samples: []bench.Sample{sample}}
	if err := subject.Close(t.Context()); err != nil {
		r.Problem("%v", err)
	}
	if err := s.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// broken is a store that does something wrong to a batch now and then.
type broken struct {
	store.Shards
	n      atomic.Int64
	wrong  func(b store.Batch) store.Batch
	unsent bool
}

const often = 20

func (s *broken) Commit(ctx context.Context, id store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	if len(b.Ops) > 0 && s.n.Add(1)%often == 0 {
		if s.unsent {
			return store.CommitResult{Applied: true}, nil
		}
		b = s.wrong(b)
	}
	return s.Shards.Commit(ctx, id, b, copyNo)
}

// without leaves out the first change of a kind of row that f picks.
func without(f func(store.Op) bool) func(store.Batch) store.Batch {
	return func(b store.Batch) store.Batch {
		for i, op := range b.Ops {
			if f(op) {
				ops := append([]store.Op(nil), b.Ops[:i]...)
				b.Ops = append(ops, b.Ops[i+1:]...)
				return b
			}
		}
		return b
	}
}

// again does the first change that f picks once more, an hour later.
func again(f func(store.Op) bool) func(store.Batch) store.Batch {
	return func(b store.Batch) store.Batch {
		for _, op := range b.Ops {
			if f(op) {
				op.Row.At += time.Hour.Milliseconds()
				b.Ops = append(append([]store.Op(nil), b.Ops...), op)
				return b
			}
		}
		return b
	}
}

// twice is a sink that has some effects once more under another key.
type twice struct {
	sink.Sink
	n atomic.Int64
}

func (s *twice) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	a, err := s.Sink.Accept(ctx, resource, issuer, token, e)
	if s.n.Add(1)%often == 0 && err == nil {
		e.Key += " again"
		_, err = s.Sink.Accept(ctx, resource, issuer, token, e)
	}
	return a, err
}

// forgetful is a sink that says it has had effects which it has not.
type forgetful struct {
	sink.Sink
	n atomic.Int64
}

func (s *forgetful) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if s.n.Add(1)%often == 0 {
		return sink.Answer{Result: sink.Applied}, nil
	}
	return s.Sink.Accept(ctx, resource, issuer, token, e)
}

// TestUnsafeIsFound: what loses or repeats a job, or its effect, does not win.
func TestUnsafeIsFound(t *testing.T) {
	t.Parallel()
	ofKind := func(kind store.OpKind, row store.Kind) func(store.Op) bool {
		return func(op store.Op) bool { return op.Kind == kind && op.Row.Kind == row }
	}
	for _, c := range []struct {
		name     string
		kind     string
		sabotage func(*bench.Env)
		want     []string // in some of the violations, or problems
	}{
		{"nothing", kindJobs, func(*bench.Env) {}, nil},
		{"nothing, with effects", kindEffects, func(*bench.Env) {}, nil},
		{"batches acknowledged and not done", kindJobs, func(e *bench.Env) { e.Shards = &broken{Shards: e.Shards, unsent: true} }, []string{"was completed 2 times"}},
		{"rows of completed jobs not written", kindJobs, func(e *bench.Env) {
			e.Shards = &broken{Shards: e.Shards, wrong: without(func(op store.Op) bool {
				return op.Row.Kind == store.KindJob && op.Row.State == string(job.Completed)
			})}
		}, []string{`says "running", and it was reported completed 1 times`}},
		{"running rows written twice", kindJobs, func(e *bench.Env) {
			e.Shards = &broken{Shards: e.Shards, wrong: again(ofKind(store.Put, store.KindRunning))}
		}, []string{"running, 0 dead and 0 unread jobs: there must be 0, and 0 more at most"}},
		{"jobs missing from the index of ended ones", kindJobs, func(e *bench.Env) {
			e.Shards = &broken{Shards: e.Shards, wrong: without(ofKind(store.Put, store.KindEnded))}
		}, []string{"ended ones and 0 others"}},
		{"effects had twice", kindEffects, func(e *bench.Env) { e.Sink = &twice{Sink: e.Sink} }, []string{"was accepted 2 times"}},
		{"effects lost", kindEffects, func(e *bench.Env) { e.Sink = &forgetful{Sink: e.Sink} }, []string{"was accepted 0 times"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(sim.Faults{})
			c.sabotage(w.env)
			r := w.window(t, c.kind, 2*time.Second)
			found := strings.Join(r.Violations, "\n")
			if len(c.want) == 0 && (found != "" || len(r.Problems) > 0) {
				t.Errorf("%s: violations %q, problems %q", c.name, r.Violations, r.Problems)
			}
			for _, want := range c.want {
				if !strings.Contains(found, want) {
					t.Errorf("%s: violations\n%s\nwant one with %q", c.name, found, want)
				}
			}
			if n := r.Samples[0].OK; n == 0 {
				t.Errorf("%s: no job was completed", c.name)
			}
		})
	}
}

// TestFaultsAreNoViolations: requests that are lost, refused or answered late leave
// outcomes unknown and shards to others, and nothing is lost or repeated.
func TestFaultsAreNoViolations(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{kindJobs, kindEffects} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(sim.Faults{LoseReply: 0.03, LoseRequest: 0.02, ServerTimeout: 0.03, Refuse: 0.03})
			r := w.window(t, kind, 20*time.Second)
			if len(r.Violations)+len(r.Problems) > 0 || r.Samples[0].OK == 0 || r.Samples[0].Sent.Unknown == 0 {
				t.Errorf("%s: %d ok, %d requests unknown, violations %q, problems %q", kind, r.Samples[0].OK, r.Samples[0].Sent.Unknown, r.Violations, r.Problems)
			}
		})
	}
}

func TestCountsMustAgree(t *testing.T) {
	t.Parallel()
	var wrong *miscount
	if err := agree("q", 7, 8); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "reported 7 conditional batches and the store saw 8") {
		t.Errorf("%v", err)
	}
	if err := agree("q", 8, 8); err != nil {
		t.Error(err)
	}
	// It is a problem of the arm, told when that is closed, and stops nothing.
	a := &arm{}
	if err := a.stop(&process{stop: func() error { return agree("q", 1, 2) }}); err != nil || a.Close(t.Context()) == nil {
		t.Errorf("stop: %v, Close: %v", err, a.Close(t.Context()))
	}
	if err := a.stop(&process{stop: func() error { return errors.New("it crashed") }}); err == nil {
		t.Error("a scheduler that ended with an error ended well")
	}
}
