package broken

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/target/system/unfenced"
)

func TestAckBeforeEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := sinktest.NewMemory()
		s := ackBeforeEffect(config, nil, m)
		ctx, cancel := context.WithCancel(t.Context())
		a, err := s.Accept(ctx, "r", "shard/q/0", 5, sink.Effect{Key: "s1", Value: 1})
		if err != nil || a.Result != sink.Applied {
			t.Fatalf("%+v, %v", a, err)
		}
		cancel()
		if l, _ := m.Ledger(t.Context(), "r"); len(l) != 0 {
			t.Errorf("it is done already: %+v", l)
		}
		time.Sleep(config.TTL)
		synctest.Wait()
		if l, _ := m.Ledger(t.Context(), "r"); len(l) != 1 || l[0].Token != 5 {
			t.Errorf("it is never done: %+v", l)
		}
	})
}

// ledgerSink is one resource that has a ledger and no keys: what the statements of an
// uncheckedSink write.
type ledgerSink struct {
	sink.Sink
	st      sink.State
	entries []sink.Entry
	unknown bool // the next write is done and not answered
}

func (l *ledgerSink) log(e sink.Entry) {
	l.st.Seq++
	e.Seq = l.st.Seq
	l.entries = append(l.entries, e)
}

func (l *ledgerSink) Raise(_ context.Context, _, _ string, token int64) (sink.Answer, error) {
	if token < l.st.Seen {
		return sink.Answer{Result: sink.Stale, Seen: l.st.Seen}, nil
	}
	if token > l.st.Seen {
		l.st.Seen = token
		l.log(sink.Entry{Kind: sink.KindRaise, Token: token})
	}
	return sink.Answer{Result: sink.Applied}, nil
}

func (l *ledgerSink) Read(context.Context, string, ...string) (sink.State, error) { return l.st, nil }

func (l *ledgerSink) Ledger(context.Context, string) ([]sink.Entry, error) { return l.entries, nil }

func (*ledgerSink) Exec(context.Context, string, ...any) error { return nil }

func (l *ledgerSink) CAS(_ context.Context, _ int, stmts ...store.Statement) (bool, []map[string]any, error) {
	head, row := stmts[0].Args, stmts[1].Args
	if head[len(head)-1] != l.st.Seq {
		return false, nil, nil
	}
	l.log(sink.Entry{Kind: sink.KindAccept, Token: row[3].(int64), Value: row[4].(int64), Key: row[5].(string)})
	if l.unknown {
		l.unknown = false
		return false, nil, &store.Error{Op: "cas", Outcome: store.Unknown, Cause: errors.New("no answer")}
	}
	return true, nil, nil
}

// How often an effect is accepted when it is sent again by the same run, after its
// answer was lost, and by the job's next one.
func TestKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make             func(*ledgerSink) keylessSink
		resent, nextTime int
	}{
		"effect-no-key":    {func(l *ledgerSink) keylessSink { return effectNoKey(config, nil, l).(keylessSink) }, 2, 3},
		"key-with-attempt": {func(l *ledgerSink) keylessSink { return keyWithAttempt(config, nil, l).(keylessSink) }, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &ledgerSink{unknown: true}
			s := c.make(l)
			s.past = unfenced.Rows(l)
			accept := func(token int64) (sink.Answer, error) {
				return s.Accept(t.Context(), "r", "shard/q/0", token, sink.Effect{Key: "s1", Value: 1})
			}
			accepted := func() (n int) {
				for _, e := range l.entries {
					if e.Kind == sink.KindAccept && e.Key == "s1" {
						n++
					}
				}
				return n
			}
			if _, err := accept(5); store.OutcomeOf(err) != store.Unknown || accepted() != 1 {
				t.Fatalf("without an answer: %v, accepted %d times", err, accepted())
			}
			if a, err := accept(5); err != nil || sink.OutcomeOf(a, err) != store.OK || accepted() != c.resent {
				t.Errorf("again: %+v, %v, accepted %d times", a, err, accepted())
			}
			if a, err := accept(6); err != nil || a.Result != sink.Applied || accepted() != c.nextTime {
				t.Errorf("by the next run: %+v, %v, accepted %d times", a, err, accepted())
			}
			if a, err := accept(5); err != nil || a.Result != sink.Stale || accepted() != c.nextTime {
				t.Errorf("by a zombie: %+v, %v, accepted %d times", a, err, accepted())
			}
		})
	}
}

func TestWrongIssuer(t *testing.T) {
	t.Parallel()
	m := sinktest.NewMemory()
	s := wrongIssuer(config, m)
	for _, c := range []struct {
		resource, issuer string
		token, want      int64
	}{{"a", "shard/q/0", 7, 7}, {"b", "shard/q/1", 3, 7}, {"c", "shard/q/0", 8, 8}, {"d", "shard/q/1", 4, 8}} {
		if _, err := s.Raise(t.Context(), c.resource, c.issuer, c.token); err != nil {
			t.Fatal(err)
		}
		a, err := s.Accept(t.Context(), c.resource, c.issuer, c.token, sink.Effect{Key: "s1"})
		if err != nil || a.FirstToken != c.want {
			t.Errorf("token %d of %s: %+v, %v", c.token, c.issuer, a, err)
		}
	}
}

// runJob runs a handler as a pool does, as run 7 of job a.
func runJob(t *testing.T, h worker.Handler) error {
	t.Helper()
	p := worker.New(worker.Options{Handlers: map[string]worker.Handler{"k": h}})
	x := engine.Execution{
		Run:   job.Run{Job: job.Job{ID: job.KeyedID("q", "a", 1), Queue: "q", Kind: "k"}.WithDefaults(), ID: 7, Attempt: 2},
		Begin: func() error { return nil }, Valid: func() bool { return true },
	}
	p.Reserve(1)
	done := make(chan error, 1)
	p.Start(t.Context(), x, func(err error) { done <- err })
	return <-done
}

func TestCompleteOutside(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		result error
		want   int
	}{"success": {nil, 2}, "failure": {failed, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ops []store.Op
			write := func(_ context.Context, id store.ShardID, h *store.Header, o []store.Op) error {
				if id != shard0 || h != nil {
					t.Errorf("it writes to %s, header %v", id, h)
				}
				ops = o
				return nil
			}
			err := runJob(t, plainCompletion(func(context.Context, *worker.Task) error { return c.result }, write))
			if !errors.Is(err, c.result) || len(ops) != c.want {
				t.Fatalf("%v; it writes %+v", err, ops)
			}
			if c.want > 0 && (ops[0].Row.State != string(job.Completed) || ops[0].Row.Attempt != 2 || ops[0].Row.Run != 7 || ops[1].Row.At != 7) {
				t.Errorf("it writes %+v", ops)
			}
		})
	}
}
