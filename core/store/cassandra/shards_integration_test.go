//go:build integration

package cassandra_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
	"fencepost/core/store/storetest"
)

func TestShardsConformance(t *testing.T) {
	t.Parallel()
	shards := patient{cassandra.NewShards(cassandratest.Open(t, cassandratest.Keyspace(t)))}
	t.Run("cases", func(t *testing.T) {
		storetest.RunShards(t, shards, "conformance", func(name string, f func(storetest.T)) {
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
		})
	})
}

func TestMembersConformance(t *testing.T) {
	t.Parallel()
	storetest.RunMembers(t, cassandra.NewMembers(cassandratest.Open(t, cassandratest.Keyspace(t))), "conformance")
}

// patient sends copies of a batch for as long as coordinators run into their own time
// limit, as they do on a busy machine. A copy that is rejected because an earlier one
// was applied, is reported as applied.
type patient struct{ *cassandra.Shards }

func (p patient) Commit(ctx context.Context, id store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	res, err := p.Shards.Commit(ctx, id, b, copyNo)
	for n := 1; n < 10 && store.IsServerTimeout(err); n++ {
		res, err = p.Shards.Commit(ctx, id, b, copyNo+n)
		if err == nil && res.Stamp != nil && *res.Stamp == b.To.Stamp {
			res = store.CommitResult{Applied: true}
		}
	}
	return res, err
}

// shardRig commits batches to one shard.
type shardRig struct {
	*testing.T
	s  patient
	id store.ShardID
	at store.Stamp
}

func newShardRig(t *testing.T, cfg cassandra.Config) *shardRig {
	r := &shardRig{T: t, s: patient{cassandra.NewShards(cassandratest.Open(t, cfg))}, id: store.ShardID{Queue: t.Name()}}
	if _, err := r.s.EnsureQueue(t.Context(), r.id.Queue, 1); err != nil {
		t.Fatal(err)
	}
	return r
}

// commit reports whether the batch was applied.
func (r *shardRig) commit(ops ...store.Op) bool {
	r.Helper()
	to := store.Header{Stamp: store.Stamp{Fence: r.at.Fence, Tick: r.at.Tick + 1, Nonce: uuid.NewString()}}
	res, err := r.s.Commit(r.Context(), r.id, store.Batch{From: r.at, To: to, Ops: ops}, 0)
	if err != nil {
		r.Fatal(err)
	}
	if res.Applied {
		r.at = to.Stamp
	}
	return res.Applied
}

func (r *shardRig) scan(kind store.Kind) string {
	r.Helper()
	rows, err := r.s.Scan(r.Context(), r.id, store.Range{Kind: kind, AfterAt: -1, UpTo: 1 << 62, Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	var keys []string
	for _, row := range rows {
		keys = append(keys, row.Key.String())
	}
	return strings.Join(keys, " ")
}

func keyed(op store.OpKind, kind store.Kind, at int64, id string) store.Op {
	return store.Op{Kind: op, Row: store.Row{Key: store.Key{Kind: kind, At: at, ID: id}}}
}

// TestShardsMixedBatch: one batch inserts, overwrites and deletes rows and a range.
func TestShardsMixedBatch(t *testing.T) {
	t.Parallel()
	r := newShardRig(t, cassandratest.Keyspace(t))
	if !r.commit(keyed(store.Put, 1, 1, "a"), keyed(store.Put, 1, 2, "b"), keyed(store.Put, 1, 9, "c"), keyed(store.PutNew, 3, 0, "a"), keyed(store.Put, 4, 1, "a")) {
		t.Fatal("rejected")
	}
	mixed := []store.Op{keyed(store.DeleteUpTo, 1, 2, ""), keyed(store.Delete, 1, 9, "c"), keyed(store.Put, 1, 3, "d"),
		keyed(store.Put, 3, 0, "a"), keyed(store.PutNew, 3, 0, "d"), keyed(store.Delete, 4, 1, "a"), keyed(store.Put, 5, 1, "a")}
	mixed[3].Row.State, mixed[2].Row.Note = "dlq", "cut in \xe2\x82"
	if !r.commit(mixed...) {
		t.Fatal("rejected")
	}
	for kind, want := range map[store.Kind]string{1: "1/3/d", 3: "3/0/a 3/0/d", 4: "", 5: "5/1/a"} {
		if got := r.scan(kind); got != want {
			t.Errorf("kind %d: %q, want %q", kind, got, want)
		}
	}
	row, err := r.s.Row(t.Context(), r.id, store.Key{Kind: 1, At: 3, ID: "d"})
	if err != nil || row == nil || row.Note != "cut in \uFFFD" {
		t.Errorf("row %+v, %v", row, err)
	}
	// The same batch with a new row that is there already changes nothing.
	if r.commit(keyed(store.Delete, 1, 3, "d"), keyed(store.PutNew, 3, 0, "d"), keyed(store.PutNew, 3, 0, "e")) {
		t.Error("applied although a row exists")
	}
	if got := r.scan(1) + " " + r.scan(3); got != "1/3/d 3/0/a 3/0/d" {
		t.Errorf("after a rejection: %q", got)
	}
}

// TestShardsLargestBatch: what is not refused here, the cluster takes.
func TestShardsLargestBatch(t *testing.T) {
	t.Parallel()
	r := newShardRig(t, cassandratest.Keyspace(t))
	var ops []store.Op
	for n := range store.MaxOps {
		kind := []store.OpKind{store.Put, store.PutNew}[n%2]
		op := keyed(kind, store.KindDLQ, int64(n), "j")
		op.Row.Body = make([]byte, store.MaxBytes/store.MaxOps-300)
		ops = append(ops, op)
	}
	if !r.commit(ops...) {
		t.Fatal("rejected")
	}
	if got := len(strings.Fields(r.scan(store.KindDLQ))); got != store.MaxOps {
		t.Errorf("%d rows", got)
	}
	ops[0].Row.Body = make([]byte, store.MaxBytes)
	_, err := r.s.Commit(t.Context(), r.id, store.Batch{From: r.at, To: store.Header{Stamp: store.Stamp{Tick: 99, Nonce: uuid.NewString()}}, Ops: ops}, 0)
	if store.OutcomeOf(err) != store.Fail {
		t.Errorf("a batch that is too large: %v", err)
	}
}

// TestShardsWithoutHeader: a batch of the header alone is a single statement, whose
// answer has another form.
func TestShardsWithoutHeader(t *testing.T) {
	t.Parallel()
	r := newShardRig(t, cassandratest.Keyspace(t))
	b := store.Batch{From: store.Stamp{Tick: 5}, To: store.Header{Stamp: store.Stamp{Tick: 6, Nonce: uuid.NewString()}}}
	if res, err := r.s.Commit(t.Context(), r.id, b, 0); err != nil || res.Applied || res.Stamp == nil || *res.Stamp != (store.Stamp{}) {
		t.Errorf("another stamp: %+v, %v", res, err)
	}
	r.id.Shard = 7
	if res, err := r.s.Commit(t.Context(), r.id, b, 0); err != nil || res.Applied || res.Stamp != nil {
		t.Errorf("no header: %+v, %v", res, err)
	}
	if h, err := r.s.Look(t.Context(), r.id, true); err != nil || h != nil {
		t.Errorf("the batch made a header: %+v, %v", h, err)
	}
}

// TestShardsStatementShapes: few shapes, whatever is in the batches, each write with a
// condition at SERIAL.
func TestShardsStatementShapes(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	var mu sync.Mutex
	var writes []cassandra.StatementInfo
	cfg.OnStatement = func(s cassandra.StatementInfo) {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(s.CQL, "SELECT") {
			writes = append(writes, s)
		}
	}
	r := newShardRig(t, cfg)
	for n := range 12 {
		id := fmt.Sprint(n)
		ops := []store.Op{keyed(store.PutNew, 3, 0, id), keyed(store.Put, 1, 1, id), keyed(store.Delete, 2, 1, id)}
		if !r.commit(append(ops[n%3:], ops[:n%3]...)...) {
			t.Error("rejected")
		}
	}
	for _, s := range writes {
		if !strings.Contains(s.CQL, " IF ") || s.SerialConsistency != cassandra.Serial || s.Consistency != cassandra.Quorum {
			t.Errorf("%+v", s)
		}
	}
	if len(writes) != 3 { // the queue, its header, the batch
		t.Errorf("%d shapes: %+v", len(writes), writes)
	}
}

func TestRunsConformance(t *testing.T) {
	t.Parallel()
	runs := cassandra.NewRuns(cassandratest.Open(t, cassandratest.Keyspace(t)))
	t.Run("cases", func(t *testing.T) {
		storetest.RunRuns(t, runs, "conformance", func(name string, f func(storetest.T)) {
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
		})
	})
}

// TestRunsExpire: rows have a time to live though no statement gives them one, and the
// table is compacted by days.
func TestRunsExpire(t *testing.T) {
	t.Parallel()
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	rows, err := db.Query(t.Context(), false, "SELECT default_time_to_live, compaction FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'runs'", db.Keyspace())
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	if ttl, _ := rows[0]["default_time_to_live"].(int); ttl != 14*24*60*60 {
		t.Errorf("rows live for %d s", ttl)
	}
	if c, _ := rows[0]["compaction"].(map[string]string); c["compaction_window_unit"] != "DAYS" {
		t.Errorf("compaction %v", c)
	}
}

func TestMain(m *testing.M) { cassandratest.Main(m) }
