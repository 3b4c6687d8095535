package cassandra

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"fencepost/core/store"
	"fencepost/core/store/storetest"
)

func TestShardConformanceOnFake(t *testing.T) {
	t.Parallel()
	f := newFakeShards()
	storetest.RunShards(t, &Shards{db: f}, "fake", func(name string, run func(storetest.T)) {
		t.Run(name, func(t *testing.T) { run(t) })
	})
	if f.unexpected != nil {
		t.Error(f.unexpected)
	}
}

// failures counts what the suite finds.
type failures struct{ n atomic.Int64 }

func (f *failures) Helper()               {}
func (f *failures) Logf(string, ...any)   {}
func (f *failures) Errorf(string, ...any) { f.n.Add(1) }

// TestShardConformanceFindsBrokenStatements: what goes wrong between the
// statements and the database is found too.
func TestShardConformanceFindsBrokenStatements(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*fakeShards){
		"the header has no condition":     func(f *fakeShards) { f.blind[updateShardHeader] = true },
		"new rows have no condition":      func(f *fakeShards) { f.blind[putNewShardRow] = true },
		"queues have no condition":        func(f *fakeShards) { f.blind[insertQueue] = true; f.queues["broken-0"] = fakeQueue{shards: 7} },
		"inbox inserts have no condition": func(f *fakeShards) { f.blind[insertInbox] = true },
		"inbox deletions have none":       func(f *fakeShards) { f.blind[deleteInbox] = true },
		"rejections name no rows":         func(f *fakeShards) { f.stampOnly = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeShards()
			breakIt(f)
			var found failures
			storetest.RunShards(&found, &Shards{db: f}, "broken", func(_ string, run func(storetest.T)) { run(&found) })
			if found.n.Load() == 0 {
				t.Error("the conformance suite passes")
			}
		})
	}
}

// TestHeadersComeFirst: a number of shards is not written before their headers are there: nobody sees shards
// without headers if the writer is interrupted between the two.
func TestHeadersComeFirst(t *testing.T) {
	t.Parallel()
	f := newFakeShards()
	s := &Shards{db: f}
	broken := errors.New("interrupted")
	f.failing = map[string]error{insertShardHeader: broken}
	if _, err := s.EnsureQueue(t.Context(), "q", 2); !errors.Is(err, broken) || len(f.queues) > 0 {
		t.Errorf("%v, and the queue is %v", err, f.queues)
	}
	f.failing = nil
	if _, err := s.EnsureQueue(t.Context(), "q", 2); err != nil {
		t.Fatal(err)
	}
	f.failing = map[string]error{insertShardHeader: broken}
	if _, err := s.RaiseQueue(t.Context(), "q", 3); !errors.Is(err, broken) || f.queues["q"].shards != 2 {
		t.Errorf("%v, and the queue is %v", err, f.queues)
	}
}

// TestRaiseBesideAnother: a raise that comes between the read and the write of another is not undone, and
// programs that do not know of raises are kept out before.
func TestRaiseBesideAnother(t *testing.T) {
	t.Parallel()
	for _, blind := range []bool{false, true} {
		f := newFakeShards()
		f.blind[raiseQueue] = blind
		s := &Shards{db: f}
		if _, err := s.EnsureQueue(t.Context(), "q", 2); err != nil {
			t.Fatal(err)
		}
		f.between = func() {
			if f.oldest != strconv.Itoa(raisesVersion) {
				t.Errorf("%s is %q when a queue is raised", settingOldest, f.oldest)
			}
			f.queues["q"] = fakeQueue{9, 2}
		}
		q, err := s.RaiseQueue(t.Context(), "q", 3)
		if kept := q == (store.Queue{Name: "q", First: 2, Shards: 9}); err != nil || kept == blind {
			t.Errorf("condition left out %v: %+v, %v", blind, q, err)
		}
	}
}

var (
	shardA  = store.ShardID{Queue: "q", Shard: 3}
	stampA  = store.Stamp{Fence: 4, Tick: 7, Nonce: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
	stampB  = store.Stamp{Fence: 4, Tick: 8, Nonce: "6ba7b811-9dad-11d1-80b4-00c04fd430c8"}
	pending = store.Key{Kind: store.KindPending, At: 10, ID: "j"}
	jobRow  = store.Key{Kind: store.KindJob, ID: "j"}
)

func op(kind store.OpKind, k store.Key) store.Op {
	return store.Op{Kind: kind, Row: store.Row{Key: k}}
}

func TestBatchOf(t *testing.T) {
	t.Parallel()
	run := store.Key{Kind: store.KindRunning, At: 4<<32 | 1, ID: "j"}
	ops := []store.Op{{Kind: store.DeleteWithin, Row: store.Row{Key: store.Key{Kind: store.KindDLQ, At: 2}}, Below: 4}, {Kind: store.DeleteBetween, Row: store.Row{Key: store.Key{Kind: store.KindSchedule, At: 1, ID: "a"}}, Before: "c"}, op(store.DeleteUpTo, store.Key{Kind: store.KindPending, At: 5}), op(store.Delete, pending), op(store.Put, run), op(store.PutNew, jobRow)}
	ops[4].Row.Note = "cut \xc3"
	stmts := batchOf(shardA, store.Batch{From: store.Stamp{}, To: store.Header{Stamp: stampB, Owner: "w", Addr: "a:1", TTL: 6e9, Read: 1, LowPending: 2, LowRunning: 3, LowEnded: 4, Wall: 5, Pause: store.Pause{On: true, Since: 6, Lasted: 7}}, Ops: ops})
	want := []struct {
		cql  string
		args []any
	}{
		{updateShardHeader, []any{int64(4), int64(8), stampB.Nonce, "w", "a:1", int64(6000), int64(1), int64(2), int64(3), int64(4), int64(5), "paused", int64(6), int64(7), "q", 3, int64(0), int64(0), noNonce}},
		{putNewShardRow, []any{"q", 3, int8(3), int64(0), "j", "", 0, int64(0), int64(0), int64(0), int64(0), "", []byte{}}},
		{putShardRow, []any{"q", 3, int8(2), run.At, "j", "", 0, int64(0), int64(0), int64(0), int64(0), "cut \uFFFD", []byte{}}},
		{deleteShardRow, []any{"q", 3, int8(1), int64(10), "j"}},
		{deleteShardUpTo, []any{"q", 3, int8(1), int64(5)}},
		{deleteBetween, []any{"q", 3, int8(6), int64(1), "a", "c"}},
		{deleteWithin, []any{"q", 3, int8(5), int64(2), int64(4)}},
	}
	if len(stmts) != len(want) {
		t.Fatalf("%d statements", len(stmts))
	}
	for n, w := range want {
		s := stmts[n]
		if s.CQL != w.cql || !reflect.DeepEqual(s.Args, w.args) || !reflect.DeepEqual(s.Partition, []any{"q", int32(3)}) {
			t.Errorf("statement %d: %+v, want %+v", n, s, w)
		}
		if got := strings.Count(s.CQL, "?"); got != len(s.Args) {
			t.Errorf("%d markers and %d arguments: %s", got, len(s.Args), s.CQL)
		}
	}
	// Whatever the order of the operations, the shape is the same.
	slices.Reverse(ops)
	if a, b := shape(stmts), shape(batchOf(shardA, store.Batch{To: store.Header{Stamp: stampB}, Ops: ops})); a != b {
		t.Errorf("two shapes:\n%s\n%s", a, b)
	}
	if n := len(batchOf(shardA, store.Batch{To: store.Header{Stamp: stampB}})); n != 1 {
		t.Errorf("an empty batch has %d statements", n)
	}
}

// TestShardStatements: writes are conditional, alone or by the header in their
// batch, and nothing expires or carries a client's time.
func TestShardStatements(t *testing.T) {
	t.Parallel()
	byHeader := []string{putShardRow, deleteShardRow, deleteShardUpTo, deleteBetween, deleteWithin}
	for _, cql := range append([]string{insertQueue, insertShardHeader, updateShardHeader, putNewShardRow, insertInbox, deleteInbox}, byHeader...) {
		if strings.Contains(cql, " IF ") == slices.Contains(byHeader, cql) {
			t.Errorf("condition: %s", cql)
		}
		if strings.Contains(cql, "USING") {
			t.Errorf("TTL or timestamp: %s", cql)
		}
	}
	if !strings.HasSuffix(updateShardHeader, " IF fence = ? AND tick = ? AND nonce = ?") {
		t.Errorf("the header's condition names less than the stamp: %s", updateShardHeader)
	}
	tables := 0
	for _, ddl := range statements(Schema()) {
		for table, compaction := range map[string]string{"queues": "Leveled", "shards": "SizeTiered", "inbox": "Leveled"} {
			if strings.HasPrefix(ddl, "CREATE TABLE IF NOT EXISTS "+table+" ") {
				tables++
				if strings.Contains(strings.ToLower(ddl), "static") || strings.Contains(ddl, "gc_grace") || !strings.Contains(ddl, compaction) {
					t.Errorf("table %s: %s", table, ddl)
				}
			}
		}
	}
	if tables != 3 {
		t.Errorf("%d tables", tables)
	}
}

func TestCheckBatch(t *testing.T) {
	t.Parallel()
	many := func(n int) (ops []store.Op) {
		for i := range n {
			ops = append(ops, op(store.Put, store.Key{Kind: store.KindPending, At: int64(i + 1), ID: "j"}))
		}
		return ops
	}
	sized := func(n int) store.Op {
		return store.Op{Kind: store.Put, Row: store.Row{Key: pending, Body: make([]byte, n)}}
	}
	between := func(after, before string) store.Op {
		return store.Op{Kind: store.DeleteBetween, Row: store.Row{Key: store.Key{Kind: store.KindPending, At: 10, ID: after}}, Before: before}
	}
	upTo := func(at int64) store.Op {
		return op(store.DeleteUpTo, store.Key{Kind: store.KindPending, At: at})
	}
	for name, c := range map[string]struct {
		ops  []store.Op
		want string // part of the error; "" for none
	}{
		"empty":                         {nil, ""},
		"as many as allowed":            {many(store.MaxOps), ""},
		"one too many":                  {many(store.MaxOps + 1), "129 operations"},
		"as large as allowed":           {[]store.Op{sized(store.MaxBytes - store.RowBytes - 1)}, ""},
		"too large":                     {[]store.Op{sized(store.MaxBytes)}, "bytes"},
		"too large together":            {[]store.Op{sized(store.MaxBytes / 2), {Kind: store.Put, Row: store.Row{Key: jobRow, Note: strings.Repeat("x", store.MaxBytes/2)}}}, "bytes"},
		"deletion and insertion":        {[]store.Op{op(store.Delete, pending), op(store.Put, pending)}, "occurs twice"},
		"twice the same":                {[]store.Op{op(store.PutNew, jobRow), op(store.Put, jobRow)}, "occurs twice"},
		"one id, two kinds":             {[]store.Op{op(store.Delete, pending), op(store.Put, jobRow)}, ""},
		"put into a deleted range":      {[]store.Op{op(store.Put, pending), upTo(10)}, "in the range"},
		"put-new into one":              {[]store.Op{upTo(10), upTo(4), op(store.PutNew, pending)}, "in the range"},
		"put between two":               {[]store.Op{between("i", "k"), op(store.Put, pending)}, "in the range"},
		"put at the end of a range":     {[]store.Op{between("i", "j"), between("j", "k"), op(store.Put, pending)}, ""},
		"put after a range":             {[]store.Op{upTo(9), op(store.Put, pending)}, ""},
		"deletion in a range":           {[]store.Op{upTo(10), op(store.Delete, pending)}, ""},
		"a range of another kind":       {[]store.Op{op(store.DeleteUpTo, store.Key{Kind: store.KindRunning, At: 99}), op(store.Put, pending)}, ""},
		"the header":                    {[]store.Op{op(store.Delete, store.Key{})}, "header"},
		"a range that takes the header": {[]store.Op{op(store.DeleteUpTo, store.Key{})}, "header"},
		"no operation":                  {[]store.Op{op(0, pending)}, "unknown operation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeShards()
			_, err := (&Shards{db: f}).Commit(t.Context(), shardA, store.Batch{From: stampA, To: store.Header{Stamp: stampB}, Ops: c.ops}, 0)
			switch {
			case c.want == "" && (err != nil || len(f.last) != 1):
				t.Errorf("%v, %d requests", err, len(f.last))
			case c.want != "" && (store.OutcomeOf(err) != store.Fail || !strings.Contains(err.Error(), c.want) || len(f.last) != 0):
				t.Errorf("%v (%s), %d requests; want fail with %q and none", err, store.OutcomeOf(err), len(f.last), c.want)
			}
		})
	}
	if _, err := (&Shards{db: newFakeShards()}).Commit(t.Context(), shardA, store.Batch{From: stampA, To: store.Header{Stamp: stampA}}, 0); store.OutcomeOf(err) != store.Fail {
		t.Errorf("a batch that leaves the stamp: %v", err)
	}
}

func TestRejection(t *testing.T) {
	t.Parallel()
	header := func(s store.Stamp) map[string]any {
		return map[string]any{"kind": int8(0), "at": int64(0), "id": "", "fence": s.Fence, "tick": s.Tick, "nonce": s.Nonce}
	}
	bare := func(s store.Stamp) map[string]any {
		return map[string]any{"fence": s.Fence, "tick": s.Tick, "nonce": s.Nonce}
	}
	exists := map[string]any{"kind": int8(3), "at": int64(0), "id": "j", "fence": int64(0), "nonce": ""}
	without := func(row map[string]any, name string) map[string]any {
		delete(row, name)
		return row
	}
	putNew := []store.Op{op(store.PutNew, jobRow), op(store.Put, pending)}
	type rows = []map[string]any
	for name, c := range map[string]struct {
		ops    []store.Op
		rows   rows
		ok     bool
		stamp  *store.Stamp
		exists int
	}{
		"another stamp":                {putNew, rows{header(stampB)}, true, &stampB, 0},
		"a row exists":                 {putNew, rows{header(stampA), exists}, true, &stampA, 1},
		"both":                         {putNew, rows{header(stampB), exists}, true, &stampB, 1},
		"no header":                    {putNew, nil, true, nil, 0},
		"no header, a row":             {putNew, rows{exists}, true, nil, 1},
		"single statement":             {nil, rows{bare(stampB)}, true, &stampB, 0},
		"single statement, no row":     {nil, nil, true, nil, 0},
		"first stamp":                  {nil, rows{bare(store.Stamp{Nonce: noNonce})}, true, &store.Stamp{}, 0},
		"every condition held":         {putNew, rows{header(stampA)}, false, nil, 0},
		"a row that nobody named":      {putNew[1:], rows{header(stampA), exists}, false, nil, 0},
		"two headers":                  {putNew, rows{header(stampB), header(stampB)}, false, nil, 0},
		"a batch's header without key": {putNew, rows{bare(stampB)}, false, nil, 0},
		"no fence":                     {putNew, rows{without(header(stampB), "fence")}, false, nil, 0},
		"no nonce":                     {nil, rows{without(bare(stampB), "nonce")}, false, nil, 0},
		"negative tick":                {nil, rows{bare(store.Stamp{Fence: 1, Tick: -1})}, false, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, ok := rejection(c.rows, store.Batch{From: stampA, To: store.Header{Stamp: stampB}, Ops: c.ops})
			if ok != c.ok || ok && (!reflect.DeepEqual(res.Stamp, c.stamp) || len(res.Exists) != c.exists || res.Applied) {
				t.Errorf("%+v, %v", res, ok)
			}
		})
	}
}

// answers is a database with prepared answers.
type answers struct {
	rows   []map[string]any
	err    error
	copies []int
}

func (a *answers) CAS(_ context.Context, n int, _ ...store.Statement) (bool, []map[string]any, error) {
	a.copies = append(a.copies, n)
	return false, a.rows, a.err
}

func (a *answers) QueryBy(_ context.Context, n int, _ bool, _ store.Statement) ([]map[string]any, error) {
	a.copies = append(a.copies, n)
	return a.rows, a.err
}

// calls are all requests of store.Shards.
var calls = map[string]func(context.Context, *Shards) error{
	"queue": func(ctx context.Context, s *Shards) error { _, err := s.EnsureQueue(ctx, "q", 2); return err },
	"look":  func(ctx context.Context, s *Shards) error { _, err := s.Look(ctx, shardA, true); return err },
	"commit": func(ctx context.Context, s *Shards) error {
		_, err := s.Commit(ctx, shardA, store.Batch{From: stampA, To: store.Header{Stamp: stampB}, Ops: []store.Op{op(store.PutNew, jobRow)}}, 2)
		return err
	},
	"scan": func(ctx context.Context, s *Shards) error {
		_, err := s.Scan(ctx, shardA, store.Range{Kind: 1, UpTo: 9, Limit: 9})
		return err
	},
	"row": func(ctx context.Context, s *Shards) error { _, err := s.Row(ctx, shardA, pending); return err },
	"inbox put": func(ctx context.Context, s *Shards) error {
		_, _, err := s.InboxPut(ctx, shardA, store.InboxRow{ID: "j", Nonce: stampA.Nonce}, 2)
		return err
	},
	"inbox delete": func(ctx context.Context, s *Shards) error {
		_, err := s.InboxDelete(ctx, shardA, "j", stampA.Nonce, 2)
		return err
	},
	"inbox scan": func(ctx context.Context, s *Shards) error {
		_, err := s.InboxScan(ctx, shardA, "", store.AboveAll, 9)
		return err
	},
}

// TestMalformedRows: nothing is concluded from rows that lack a column, and an
// error keeps its class.
func TestMalformedRows(t *testing.T) {
	t.Parallel()
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odd := &answers{rows: []map[string]any{{"kind": int8(1), "at": int64(1), "id": "j"}}}
			if err := call(t.Context(), &Shards{db: odd}); err == nil || store.OutcomeOf(err) != store.Unknown {
				t.Errorf("malformed row: %v", err)
			}
			for _, outcome := range []store.Outcome{store.Fail, store.Unknown} {
				cause := &store.Error{Outcome: outcome, Cause: errors.New("test")}
				if err := call(t.Context(), &Shards{db: &answers{err: cause}}); !errors.Is(err, cause) || store.OutcomeOf(err) != outcome {
					t.Errorf("%s: %v", outcome, err)
				}
			}
		})
	}
	// Each column counts.
	f := newFakeShards()
	s := &Shards{db: f}
	if _, err := s.EnsureQueue(t.Context(), "q", 4); err != nil {
		t.Fatal(err)
	}
	b := store.Batch{To: store.Header{Stamp: stampB}, Ops: []store.Op{op(store.Put, pending)}}
	if res, err := s.Commit(t.Context(), shardA, b, 0); err != nil || !res.Applied {
		t.Fatalf("%+v, %v", res, err)
	}
	for k, what := range map[store.Key]string{{}: "look", pending: "row"} {
		row := f.parts[shardA].rows[k]
		if err := calls[what](t.Context(), s); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for name, value := range row {
			if k == (store.Key{}) && (name == "kind" || name == "at" || name == "id") {
				continue
			}
			row[name] = nil
			if older := name == "state" || name == "due" || name == "wait"; older && k == (store.Key{}) {
				if err := calls[what](t.Context(), s); err != nil {
					t.Errorf("a header of an older program, without %s: %v", name, err)
				}
				row[name] = value
				continue
			}
			if err := calls[what](t.Context(), s); err == nil || store.OutcomeOf(err) != store.Unknown {
				t.Errorf("%s without %s: %v", what, name, err)
			}
			row[name] = value
		}
	}
}

// TestCopies: copies go where the caller says; reads move on after a failure.
func TestCopies(t *testing.T) {
	t.Parallel()
	a := &answers{err: &store.Error{Outcome: store.Unknown, Cause: errors.New("test")}}
	s := &Shards{db: a}
	for _, name := range []string{"commit", "inbox put", "inbox delete", "look", "scan", "row", "inbox scan"} {
		_ = calls[name](t.Context(), s)
	}
	if got := fmt.Sprint(a.copies); got != "[2 2 2 0 1 2 3]" {
		t.Errorf("copies %s", got)
	}
}

func TestRefusedArguments(t *testing.T) {
	t.Parallel()
	a := &answers{}
	s := &Shards{db: a}
	put := func(r store.InboxRow) error { _, _, err := s.InboxPut(t.Context(), shardA, r, 0); return err }
	queue := func(name string, n int) error { _, err := s.EnsureQueue(t.Context(), name, n); return err }
	for name, err := range map[string]error{
		"no shards":    queue("q", 0),
		"no name":      queue("", 1),
		"no job":       put(store.InboxRow{Nonce: stampA.Nonce}),
		"no nonce":     put(store.InboxRow{ID: "j"}),
		"a large body": put(store.InboxRow{ID: "j", Nonce: stampA.Nonce, Body: make([]byte, store.MaxBytes)}),
	} {
		if store.OutcomeOf(err) != store.Fail {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rows, err := s.Scan(t.Context(), shardA, store.Range{Kind: 1}); rows != nil || err != nil {
		t.Errorf("a scan of no rows: %v, %v", rows, err)
	}
	if n, err := s.Count(t.Context(), shardA, store.Range{Kind: 1}); n != 0 || err != nil {
		t.Errorf("a count of no rows: %d, %v", n, err)
	}
	if len(a.copies) != 0 {
		t.Errorf("%d requests were sent", len(a.copies))
	}
}
