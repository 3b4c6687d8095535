package broken

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
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
