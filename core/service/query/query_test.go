package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/job"
	"fencepost/core/service/query"
	"fencepost/core/service/query/querytest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store whose rows a test writes as an owner would, and a reader of them.
type world struct {
	*testing.T
	store   *sim.Store
	session *sim.Session
	reader  *query.Reader
	ticks   map[store.ShardID]store.Header
}

const shards = 40 // more than a page looks at

func newWorld(t *testing.T, wrap ...func(store.Shards) store.Shards) *world {
	t.Helper()
	w := &world{T: t, store: sim.New(), ticks: map[store.ShardID]store.Header{}}
	w.session = w.store.Connect("r", 1)
	if _, err := w.session.EnsureQueue(t.Context(), "q", shards); err != nil {
		t.Fatal(err)
	}
	var s store.Shards = w.session
	for _, f := range wrap {
		s = f(s)
	}
	w.reader = query.New(query.Options{Shards: s, Runs: w.session, Queues: querytest.Fixed{{Name: "q", Shards: shards}}})
	return w
}

// put writes rows of one shard, and its header as change makes it.
func (w *world) put(id store.ShardID, change func(*store.Header), rows ...store.Row) {
	w.Helper()
	from := w.ticks[id]
	to := from
	to.Tick++
	to.Nonce = fmt.Sprint("n", to.Tick)
	if change != nil {
		change(&to)
	}
	var ops []store.Op
	for _, r := range rows {
		ops = append(ops, store.Op{Kind: store.Put, Row: r})
	}
	res, err := w.session.Commit(w.Context(), id, store.Batch{From: from.Stamp, To: to, Ops: ops}, 0)
	if err != nil || !res.Applied {
		w.Fatalf("%+v, %v", res, err)
	}
	w.ticks[id] = to
}

// aJob is a job whose id names its shard.
func aJob(n int) (job.Job, store.ShardID) {
	key := fmt.Sprint("job", n)
	j := job.Job{ID: job.KeyedID("q", key, shards), Queue: "q", Kind: "k", Key: key, Request: []byte{byte(n)}, Payload: []byte(`{"n":1}`)}.WithDefaults()
	s, _ := j.ID.Shard()
	return j, store.ShardID{Queue: "q", Shard: s}
}

var kinds = map[job.State]store.Kind{job.Pending: store.KindPending, job.Running: store.KindRunning, job.DLQ: store.KindDLQ,
	job.Completed: store.KindEnded, job.Cancelled: store.KindEnded, job.Abandoned: store.KindEnded}

// rows are those of a job in a state, at a place.
func rows(t testing.TB, j job.Job, s job.State, at int64) []store.Row {
	t.Helper()
	body, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	state := store.Row{Key: store.Key{Kind: store.KindJob, ID: string(j.ID)}, State: string(s), Due: 5000, Place: at, Attempt: 2, Run: 77, Note: "why", Body: j.Request}
	place := store.Row{Key: store.Key{Kind: kinds[s], At: at, ID: string(j.ID)}, Due: 5000, Attempt: 2, Run: 77}
	if place.Kind != store.KindEnded {
		place.Body = body
	}
	return []store.Row{state, place}
}

// TestJob: a job in each state is shown as what it is, with its body where there is one.
func TestJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n, state := range []job.State{job.Pending, job.Running, job.DLQ, job.Completed, job.Cancelled, job.Abandoned} {
			j, s := aJob(n)
			w.put(s, nil, rows(t, j, state, 9000)...)
			got, err := w.reader.Job(t.Context(), "q", j.ID)
			if err != nil || got.ID != j.ID || got.Queue != "q" || got.State != state || got.Attempts != 2 || got.Run != 77 || got.Note != "why" || got.Inbox || !slices.Equal(got.Request, j.Request) {
				t.Errorf("%s: %+v, %v", state, got, err)
			}
			if kept := kinds[state] != store.KindEnded; got.Body != kept || kept && got.Job.Key != j.Key {
				t.Errorf("%s: body %v, %+v", state, got.Body, got.Job)
			}
			if ended := state.Ended(); ended != got.Due.IsZero() || ended && got.Ended.UnixMilli() != 9000 || !ended && got.Due.UnixMilli() != 5000 {
				t.Errorf("%s: due %s, ended %s", state, got.Due, got.Ended)
			}
		}
		inbox, s := aJob(100)
		inbox.Due = time.UnixMilli(7000)
		body, _ := inbox.Encode()
		if _, _, err := w.session.InboxPut(t.Context(), s, store.InboxRow{ID: string(inbox.ID), Nonce: "n", Body: body}, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := w.reader.Job(t.Context(), "q", inbox.ID); err != nil || !got.Inbox || got.State != job.Pending || got.Due.UnixMilli() != 7000 || got.Job.Key != inbox.Key || len(got.Request) != 1 {
			t.Errorf("in the inbox: %+v, %v", got, err)
		}
		none, _ := aJob(101)
		if _, err := w.reader.Job(t.Context(), "q", none.ID); !errors.Is(err, query.ErrNone) {
			t.Errorf("none: %v", err)
		}
		broken, s := aJob(102)
		bad := rows(t, broken, job.Pending, 9000)
		bad[1].Body = []byte("{")
		w.put(s, nil, bad...)
		if got, err := w.reader.Job(t.Context(), "q", broken.ID); err != nil || got.Body || got.State != job.Pending {
			t.Errorf("a body that cannot be read: %+v, %v", got, err)
		}
		for field, ask := range map[string][2]string{"queue": {"other", string(none.ID)}, "id": {"q", "0-x"}} {
			var invalid *job.InvalidError
			if _, err := w.reader.Job(t.Context(), ask[0], job.ID(ask[1])); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

// moving changes the store between two reads.
type moving struct {
	store.Shards
	row func(k store.Key)
}

func (m moving) Row(ctx context.Context, s store.ShardID, k store.Key) (*store.Row, error) {
	defer m.row(k)
	return m.Shards.Row(ctx, s, k)
}

// TestJobThatMoves: both of its rows are read again; one that always moves is shown
// without its body.
func TestJobThatMoves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		moves int
		body  bool
	}{"once": {1, true}, "again and again": {100, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w *world
				j, s := aJob(1)
				moved := 0
				w = newWorld(t, func(inner store.Shards) store.Shards {
					return moving{inner, func(k store.Key) {
						if moved++; k.Kind == store.KindJob && moved <= c.moves {
							old := store.Key{Kind: store.KindPending, At: int64(1000 + moved - 1), ID: string(j.ID)}
							w.put(s, nil, rows(t, j, job.Pending, int64(1000+moved))...)
							w.remove(s, old)
						}
					}}
				})
				w.put(s, nil, rows(t, j, job.Pending, 1000)...)
				got, err := w.reader.Job(t.Context(), "q", j.ID)
				if err != nil || got.State != job.Pending || got.Body != c.body {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

// remove deletes the rows of a job's kind up to a place.
func (w *world) remove(id store.ShardID, k store.Key) {
	w.Helper()
	from := w.ticks[id]
	to := from
	to.Tick++
	to.Nonce = fmt.Sprint("n", to.Tick)
	if _, err := w.session.Commit(w.Context(), id, store.Batch{From: from.Stamp, To: to, Ops: []store.Op{{Kind: store.DeleteUpTo, Row: store.Row{Key: k}}}}, 0); err != nil {
		w.Fatal(err)
	}
	w.ticks[id] = to
}

// TestQueue: its jobs are counted up to a bound, and its shards are as their headers say.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n, state := range []job.State{job.Pending, job.Pending, job.Running, job.DLQ, job.Completed} {
			j, s := aJob(n)
			w.put(s, func(h *store.Header) { h.Owner, h.Addr = "w", "w:1" }, rows(t, j, state, int64(1000+n))...)
		}
		w.put(store.ShardID{Queue: "q", Shard: 7}, func(h *store.Header) { h.Pause = store.Pause{On: true, Since: 42} })
		q, err := w.reader.Queue(t.Context(), "q")
		if err != nil || len(q.Shards) != shards || q.Paused() != 1 || q.Shards[7].Pause.Since != 42 {
			t.Fatalf("%+v, %v", q, err)
		}
		want := map[job.State]query.Depth{job.Pending: {Jobs: 2}, job.Running: {Jobs: 1}, job.DLQ: {Jobs: 1}}
		if fmt.Sprint(q.Depth) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", q.Depth, want)
		}
		_, s := aJob(0)
		if sh := q.Shards[s.Shard]; sh.Shard != s.Shard || sh.Owner != "w" || sh.Addr != "w:1" || sh.Tick != w.ticks[s].Tick {
			t.Errorf("%+v", sh)
		}
		if only, err := w.reader.ShardsOf(t.Context(), "q"); err != nil || !slices.Equal(only, q.Shards) {
			t.Errorf("shards alone: %+v, %v; want %+v", only, err, q.Shards)
		}
		full := store.ShardID{Queue: "q", Shard: 3}
		for n := 0; n <= query.MaxDepth; n += 100 {
			var more []store.Row
			for k := range 100 {
				more = append(more, store.Row{Key: store.Key{Kind: store.KindPending, At: int64(n + k), ID: "x"}})
			}
			w.put(full, nil, more...)
		}
		if q, err = w.reader.Queue(t.Context(), "q"); err != nil || !q.Depth[job.Pending].More || q.Depth[job.Pending].Jobs < query.MaxDepth || q.Depth[job.DLQ].More {
			t.Errorf("%v, %v", q.Depth, err)
		}
		var invalid *job.InvalidError
		if _, err := w.reader.Queue(t.Context(), "other"); !errors.As(err, &invalid) {
			t.Errorf("another queue: %v", err)
		}
		if _, err := w.reader.ShardsOf(t.Context(), "other"); !errors.As(err, &invalid) {
			t.Errorf("shards of another queue: %v", err)
		}
	})
}

// TestAStoreThatDoesNotAnswer: every read ends in time, with the store's error.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j, _ := aJob(1)
		if err := w.reader.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.session.SetFaults(sim.Faults{LoseReply: 1})
		for name, ask := range map[string]func() error{
			"ping":     func() error { return w.reader.Ping(t.Context()) },
			"job":      func() error { _, err := w.reader.Job(t.Context(), "q", j.ID); return err },
			"jobs":     func() error { _, _, err := w.reader.Jobs(t.Context(), "q", job.DLQ, query.Page{}); return err },
			"schedule": func() error { _, err := w.reader.Schedule(t.Context(), "q", j.ID); return err },
			"queue":    func() error { _, err := w.reader.Queue(t.Context(), "q"); return err },
			"shards":   func() error { _, err := w.reader.ShardsOf(t.Context(), "q"); return err },
		} {
			begun := time.Now()
			if err := ask(); store.OutcomeOf(err) != store.Unknown || time.Since(begun) > time.Minute {
				t.Errorf("%s: %v after %s", name, err, time.Since(begun))
			}
		}
	})
}
