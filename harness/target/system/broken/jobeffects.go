package broken

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
	"fencepost/harness/target/system/unfenced"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-complete-outside", only(workload.Hooks{Handler: completeOutside}))
	plant("jobs-ack-before-effect", only(workload.Hooks{Sink: ackBeforeEffect}))
	plant("jobs-effect-no-key", only(workload.Hooks{Sink: effectNoKey}))
	plant("jobs-key-with-attempt", only(workload.Hooks{Sink: keyWithAttempt}))
	plant("jobs-wrong-issuer", only(workload.Hooks{Tasks: wrongIssuer}))
	plant("jobs-one-issuer", only(workload.Hooks{Tasks: oneIssuer}))
	plant("jobs-retry-at-once", only(workload.Hooks{Submit: retryAtOnce}))
	plant("jobs-delays-off-by-one", only(workload.Hooks{Submit: delaysOffByOne}))
	plant("jobs-jitter-constant", only(workload.Hooks{Submit: jitterConstant}))
	plant("jobs-at-most-twice", only(workload.Hooks{Submit: atMostTwice}))
	plant("jobs-interrupted-is-done", only(workload.Hooks{Handler: interruptedIsDone}))
}

// ackBeforeEffect hands effects to a writer in the background, which takes its time:
// a job is completed when its effects are still in its process's memory.
func ackBeforeEffect(cfg workload.Config, _ unfenced.Writer, inner sink.Sink) sink.Sink {
	return &lazySink{Sink: inner, delay: cfg.TTL / 3}
}

type lazySink struct {
	sink.Sink
	delay time.Duration

	mu      sync.Mutex
	waiting []func() // in order
	writing sync.Mutex
}

func (s *lazySink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		time.AfterFunc(s.delay, s.flush)
	}
	s.waiting = append(s.waiting, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.delay)
		defer cancel()
		_, _ = s.Sink.Accept(ctx, resource, issuer, token, e)
	})
	return sink.Answer{Result: sink.Applied, FirstToken: token, Seen: token}, nil
}

func (s *lazySink) flush() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	writes := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, write := range writes {
		write()
	}
}

// effectNoKey accepts effects by their tokens alone: nothing tells the second time
// that it is the second.
func effectNoKey(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return keylessSink{uncheckedSink{inner, past}, func(sink.Entry, int64, string) bool { return false }}
}

// keyWithAttempt makes the attempt part of the idempotency key: a resend is known,
// what an earlier attempt did is not. The run id stands for the attempt's number.
func keyWithAttempt(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return keylessSink{uncheckedSink{inner, past}, func(e sink.Entry, token int64, key string) bool {
		return e.Kind == sink.KindAccept && e.Token == token && e.Key == key
	}}
}

// keylessSink has no rows of accepted keys, only a ledger. same says which of its
// entries are a given effect.
type keylessSink struct {
	uncheckedSink
	same func(e sink.Entry, token int64, key string) bool
}

func (s keylessSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if a, err := s.Raise(ctx, resource, issuer, token); err != nil || a.Result == sink.Stale {
		return a, err
	}
	for {
		st, err := s.Read(ctx, resource)
		if err != nil {
			return sink.Answer{}, err
		}
		if st.Seen > token {
			return sink.Answer{Result: sink.Stale, Seen: st.Seen, Seq: st.Seq}, nil
		}
		entries, err := s.Ledger(ctx, resource)
		if err != nil {
			return sink.Answer{}, err
		}
		if i := slices.IndexFunc(entries, func(x sink.Entry) bool { return s.same(x, token, e.Key) }); i >= 0 {
			return sink.Answer{Result: sink.Duplicate, FirstToken: token, Seen: st.Seen, Seq: entries[i].Seq}, nil
		}
		if a, applied, err := s.past.WriteUnfenced(ctx, st, resource, issuer, token, e); err != nil || applied {
			return a, err
		}
	}
}

// relabelled is a sink to which tokens come under another issuer or as another token.
type relabelled struct {
	sink.Sink
	as func(issuer string, token int64) (string, int64)
}

func (s relabelled) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	issuer, token = s.as(issuer, token)
	return s.Sink.Raise(ctx, resource, issuer, token)
}

func (s relabelled) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	issuer, token = s.as(issuer, token)
	return s.Sink.Accept(ctx, resource, issuer, token, e)
}

// wrongIssuer has one token for a whole process, the highest that it was given for
// any of its shards: effects carry run ids of other shards.
func wrongIssuer(_ workload.Config, inner sink.Sink) sink.Sink {
	var top atomic.Int64
	return relabelled{inner, func(issuer string, token int64) (string, int64) {
		for {
			old := top.Load()
			if token <= old || top.CompareAndSwap(old, token) {
				return issuer, max(token, old)
			}
		}
	}}
}

// retryAtOnce has jobs tried again at once, whatever backoff they ask for.
func retryAtOnce(j job.Job) job.Job {
	j.Retry, j.Then = job.RetryPolicy{Delays: []time.Duration{0}}, slices.Clone(j.Then)
	for i := range j.Then {
		j.Then[i].Retry = j.Retry
	}
	return j
}

// delaysOffByOne counts attempts from 1 and a list of delays from 0: after its first attempt a job
// waits for the second delay.
func delaysOffByOne(j job.Job) job.Job {
	if d := j.Retry.Delays; len(d) > 1 {
		j.Retry.Delays = d[1:]
	}
	return j
}

// jitterConstant has each wait vary by as much as the default policy's, whatever jitter its job
// asks for.
func jitterConstant(j job.Job) job.Job {
	j.Retry.Jitter = job.DefaultRetry().Jitter
	return j
}

// atMostTwice stores jobs without their rescue policy: one that is cut short runs again, though it
// must not.
func atMostTwice(j job.Job) job.Job {
	j.Rescue, j.Then = job.AtLeastOnce, slices.Clone(j.Then)
	for i := range j.Then {
		j.Then[i].Rescue = job.AtLeastOnce
	}
	return j
}

// oneIssuer names one shard as the issuer of all run ids: the sink binds resources of
// jobs in other shards to it, for good.
func oneIssuer(cfg workload.Config, inner sink.Sink) sink.Sink {
	first := engine.Issuer(store.ShardID{Queue: cfg.Jobs.Queue})
	return relabelled{inner, func(_ string, token int64) (string, int64) { return first, token }}
}

// completeOutside has handlers write down that their job is completed, by a plain
// write and whatever became of their run meanwhile.
func completeOutside(_ workload.Config, db *cassandra.DB, inner worker.Handler) worker.Handler {
	return plainCompletion(inner, plainWriter(db))
}

func plainCompletion(inner worker.Handler, write writeFunc) worker.Handler {
	return func(ctx context.Context, t *worker.Task) error {
		if err := inner(ctx, t); err != nil {
			return err
		}
		id, run := string(t.Run.Job.ID), int64(t.Run.ID)
		shard, err := t.Run.Job.ID.Shard()
		if err != nil {
			return err
		}
		return write(context.WithoutCancel(ctx), store.ShardID{Queue: t.Run.Job.Queue, Shard: shard}, nil, []store.Op{
			{Kind: store.Put, Row: store.Row{Key: store.Key{Kind: store.KindJob, ID: id}, State: string(job.Completed), Attempt: t.Run.Attempt, Run: run}},
			{Kind: store.Delete, Row: store.Row{Key: store.Key{Kind: store.KindRunning, At: run, ID: id}}},
		})
	}
}

// interruptedIsDone ends a job's work when its process stops, and reports no error: that the
// context ended was asked for.
func interruptedIsDone(_ workload.Config, _ *cassandra.DB, inner worker.Handler) worker.Handler {
	return func(ctx context.Context, t *worker.Task) error {
		err := inner(ctx, t)
		if errors.Is(context.Cause(ctx), job.ErrInterrupted) {
			return nil
		}
		return err
	}
}
