package broken

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
	"fencepost/harness/target/system/unfenced"
	"fencepost/harness/target/workload"
)

var (
	shard0 = store.ShardID{Queue: "q"}
	shard1 = store.ShardID{Queue: "q", Shard: 1}
	config = workload.Config{TTL: 6 * time.Second}
)

// world is a store of two shards under fence 1, and a process that uses it.
type world struct {
	*sim.Session
	t     *testing.T
	store *sim.Store
	at    map[store.ShardID]store.Header
	made  int // batches
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := sim.New()
	w := &world{Session: s.Connect("w1", 1), t: t, store: s, at: map[store.ShardID]store.Header{}}
	if _, err := w.EnsureQueue(t.Context(), "q", 2); err != nil {
		t.Fatal(err)
	}
	for _, id := range []store.ShardID{shard0, shard1} {
		w.at[id] = store.Header{}
		w.apply(w.Session, id, w.batch(id, 1))
	}
	return w
}

// batch is the next one of a shard's owner under a fence.
func (w *world) batch(id store.ShardID, fence int64, ops ...store.Op) store.Batch {
	to := w.at[id]
	to.Fence, to.Tick, to.Owner, to.Addr = fence, to.Tick+1, "w1.1", "here"
	w.made++
	to.Nonce = strconv.Itoa(w.made)
	return store.Batch{From: w.at[id].Stamp, To: to, Ops: ops}
}

func (w *world) send(s store.Shards, id store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	return s.Commit(ctx, id, b, copyNo)
}

// apply sends a batch that must happen.
func (w *world) apply(s store.Shards, id store.ShardID, b store.Batch) {
	w.t.Helper()
	if res, err := w.send(s, id, b, 0); err != nil || !res.Applied {
		w.t.Fatalf("batch %s: %+v, %v", b.To.Stamp, res, err)
	}
	w.at[id] = b.To
}

// rows are the shard's rows in short: "running/5/a".
func (w *world) rows(id store.ShardID) string {
	names := map[store.Kind]string{store.KindPending: "pending", store.KindRunning: "running", store.KindJob: "job", store.KindEnded: "ended", store.KindDLQ: "dlq", store.KindSchedule: "schedule"}
	_, rows := w.store.ShardRows(id)
	var out []string
	for _, r := range rows {
		text := strings.Replace(r.Key.String(), r.Key.String()[:1], names[r.Kind], 1)
		if r.State != "" {
			text += "=" + r.State
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func put(kind store.Kind, at int64, id string) store.Op {
	return store.Op{Kind: store.Put, Row: store.Row{Key: store.Key{Kind: kind, At: at, ID: id}}}
}

func remove(kind store.Kind, at int64, id string) store.Op {
	return store.Op{Kind: store.Delete, Row: store.Row{Key: store.Key{Kind: kind, At: at, ID: id}}}
}

func state(s job.State, id string) store.Op {
	return store.Op{Kind: store.Put, Row: store.Row{Key: store.Key{Kind: store.KindJob, ID: id}, State: string(s)}}
}

func enqueue(id string, at, due int64) []store.Op {
	st, row := state(job.Pending, id), put(store.KindPending, at, id)
	st.Kind, row.Row.Due = store.PutNew, due
	return []store.Op{st, row}
}

func claim(id string, at, run int64) []store.Op {
	return []store.Op{remove(store.KindPending, at, id), put(store.KindRunning, run, id), state(job.Running, id)}
}

func complete(id string, run, ended int64) []store.Op {
	return []store.Op{state(job.Completed, id), put(store.KindEnded, ended, id), remove(store.KindRunning, run, id)}
}

// plainly is the writer of a database without conditions, over the simulated one.
func (w *world) plainly(ctx context.Context, id store.ShardID, h *store.Header, ops []store.Op) error {
	now, _ := w.store.ShardRows(id)
	to := now
	to.Tick++
	if h != nil {
		to = *h
	}
	_, err := w.Commit(ctx, id, store.Batch{From: now.Stamp, To: to, Ops: ops}, 0)
	return err
}

// A tick whose owner has lost its shard is written all the same, even if its owner
// has given up; a takeover and an enqueue still have their conditions.
func TestPlainHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := plainTicks(config, w.Session, w.plainly)
		w.apply(s, shard0, w.batch(shard0, 1, enqueue("a", 5, 5)...))
		w.apply(s, shard0, w.batch(shard0, 1, claim("a", 5, 7)...))
		late, asks := w.batch(shard0, 1, complete("a", 7, 9)...), w.batch(shard0, 1, enqueue("b", 5, 5)...)
		takes := w.batch(shard0, 2)
		w.apply(s, shard0, takes)
		for name, b := range map[string]store.Batch{"enqueue": asks, "takeover": takes} {
			if res, err := w.send(s, shard0, b, 0); err != nil || res.Applied {
				t.Errorf("%s by a zombie: %+v, %v", name, res, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if res, err := s.Commit(ctx, shard0, late, 0); err != nil || !res.Applied {
			t.Fatalf("a tick by a zombie: %+v, %v", res, err)
		}
		if h, _ := w.store.ShardRows(shard0); h.Stamp != late.To.Stamp || w.rows(shard0) != "job/0/a=completed ended/9/a" {
			t.Errorf("it left %s, %s", h.Stamp, w.rows(shard0))
		}
	})
}

func TestPlainBatch(t *testing.T) {
	t.Parallel()
	h := store.Header{Owner: "w1.1"}
	cql, args := plainBatch(shard1, &h, append(complete("a", 7, 9), store.Op{Kind: store.DeleteUpTo, Row: store.Row{Key: store.Key{Kind: store.KindPending, At: 3}}}))
	if strings.Count(cql, "?") != len(args) || strings.Contains(cql, "IF") || strings.Count(cql, "INSERT") != 2 || strings.Count(cql, "DELETE") != 2 || !strings.HasPrefix(cql, "BEGIN UNLOGGED BATCH UPDATE shards SET fence") {
		t.Errorf("%d arguments for %s", len(args), cql)
	}
	if cql, _ = plainBatch(shard1, nil, complete("a", 7, 9)); strings.Contains(cql, "UPDATE") {
		t.Errorf("without a header: %s", cql)
	}
}

// Who runs the version before reads what it cannot decode; its writers notice nothing.
func TestFormatUnsaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := formatUnsaid(config, nil, w.Session)
		body := put(store.KindPending, 6, "b")
		body.Row.Body = []byte("{}")
		w.apply(told, shard1, w.batch(shard1, 1, body))
		for want, s := range map[string]store.Shards{"{}": told, "\x02{}": w.Session} {
			rows, err := s.Scan(t.Context(), shard1, store.Range{Kind: store.KindPending, UpTo: 1 << 60, Limit: 9})
			if err != nil || len(rows) != 1 || string(rows[0].Body) != want {
				t.Errorf("it shows %+v, %v, want %q", rows, err, want)
			}
		}
	})
}

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
