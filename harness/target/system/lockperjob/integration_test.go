//go:build integration

package lockperjob

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/sink"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
	"fencepost/core/worker"
)

func TestMain(m *testing.M) { cassandratest.Main(m) }

func openTables(t *testing.T) *cassandra.DB {
	t.Helper()
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range 2 { // it changes nothing that exists
		if err := CreateTables(ctx, db); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// TestLockRows: what the scheduler and the harness need of the conditional statements.
func TestLockRows(t *testing.T) {
	db := openTables(t)
	l, ctx := NewLocks(db, testTTL), t.Context()
	const name = "lock/it/rows"
	now := time.Now()
	a, b := Version("a", 7, now, testTTL), Version("b", 3, now.Add(time.Second), testTTL)
	free := a
	free.Holder = ""
	sealed := Version("", 100, time.UnixMilli(0), testTTL)
	if row, err := l.Read(ctx, name, true); err != nil || row != nil {
		t.Fatalf("absent: %v, %v", row, err)
	}
	for _, c := range []struct {
		what    string
		from    *store.Version
		to      store.Version
		applied bool
		row     store.Version // with a rejection
	}{
		{"update of no row", &a, b, false, store.Version{}},
		{"insert", nil, a, true, store.Version{}},
		{"insert again", nil, b, false, a},
		{"update of another version", &b, b, false, a},
		{"release", &a, free, true, store.Version{}},
		{"taken", &free, b, true, store.Version{}},
		{"update of what is gone", &free, a, false, b},
		{"sealed", &b, sealed, true, store.Version{}},
	} {
		res, err := l.CAS(ctx, name, c.from, c.to, 0)
		if err != nil || res.Applied != c.applied || c.row != (store.Version{}) && (res.Row == nil || *res.Row != c.row) || c.row == (store.Version{}) && res.Row != nil {
			t.Errorf("%s: %+v, %v", c.what, res, err)
		}
	}
	if row, err := l.Read(ctx, name, true); err != nil || row == nil || *row != sealed {
		t.Errorf("%s, %v, want %s", row, err, &sealed)
	}
}

// TestSinkRows: effects are accepted whatever their token, and the core's sink reads
// and seals what was written.
func TestSinkRows(t *testing.T) {
	db := openTables(t)
	s, core, ctx := NewSink(db, time.Second), cassandrasink.New(db, cassandrasink.Options{}), t.Context()
	const res, issuer = "job/it/sink", "lock/it/sink"
	for n, e := range []struct {
		token int64
		key   string
		want  sink.Result
	}{{7, "s1", sink.Applied}, {7, "s2", sink.Applied}, {3, "s1", sink.Applied}, {3, "s1", sink.Applied}} {
		a, err := s.Accept(ctx, res, issuer, e.token, sink.Effect{Key: e.key, Intent: e.key, Value: int64(n + 1)})
		if err != nil || a.Result != e.want || a.Seen != 7 {
			t.Errorf("effect %d: %+v, %v", n+1, a, err)
		}
	}
	st, err := core.Read(ctx, res, "s1", "s2", "s3")
	if err != nil || st.Issuer != issuer || st.Seen != 7 || st.Seq != 4 || st.Value != 4 || len(st.Applied) != 2 || st.Applied["s1"] != 3 || st.Applied["s2"] != 7 {
		t.Errorf("state %+v, %v", st, err)
	}
	if a, err := core.Raise(ctx, res, issuer, 100); err != nil || a.Result != sink.Applied || a.Seq != 5 {
		t.Errorf("seal: %+v, %v", a, err)
	}
	entries, err := core.Ledger(ctx, res)
	if err != nil || len(entries) != 5 || entries[2].Token != 3 || entries[2].Key != "s1" || entries[4].Kind != sink.KindRaise {
		t.Errorf("ledger %+v, %v", entries, err)
	}
}

// TestSchedulers: two schedulers on a real cluster run every job, and what they leave
// is what the harness reads.
func TestSchedulers(t *testing.T) {
	db := openTables(t)
	const queue, n = "it", 40
	handler := func(ctx context.Context, k *worker.Task) error {
		st, err := k.Open(ctx, "s1")
		if err != nil {
			return err
		}
		if _, done := st.Applied["s1"]; !done {
			if _, err := k.Apply(ctx, sink.Effect{Key: "s1", Intent: "s1", Value: st.Value + 1}); err != nil {
				return err
			}
		}
		if k.Run.Attempt == 1 && k.Run.Job.Key[0] == 'f' {
			return errors.New("at first")
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	var all []*Scheduler
	for _, name := range []string{"it-a", "it-b"} {
		s, err := New(Options{DB: db, Name: name, Queue: queue, Buckets: testBuckets, TTL: testTTL, Poll: 50 * time.Millisecond,
			Handlers: map[string]worker.Handler{"k": handler}, Sink: NewSink(db, time.Second), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
		go func() { ended <- s.Run(ctx) }()
	}
	want := map[job.ID]int{} // attempts
	for i := range n {
		key, attempts := fmt.Sprintf("j%d", i), 1
		if i%4 == 0 {
			key, attempts = "f"+key, 2
		}
		j := newJob(key)
		j.ID, j.Queue = job.KeyedID(queue, key, testBuckets), queue
		if rec, err := all[i%2].Submit(ctx, j); err != nil || rec.Duplicate {
			t.Fatalf("submit: %+v, %v", rec, err)
		}
		if rec, err := all[0].Submit(ctx, j); err != nil || !rec.Duplicate {
			t.Errorf("submit again: %+v, %v", rec, err)
		}
		want[j.ID] = attempts
	}
	rows := NewRows(db, queue)
	deadline := time.Now().Add(time.Minute)
	for open := true; open && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		jobs, err := rows.Jobs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		open = len(jobs) < n
		for _, r := range jobs {
			open = open || !r.State.Ended()
		}
	}
	cancel()
	for range all {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	judge(t, db, rows, want)
}

// judge compares what is left with the attempts that each job must have had.
func judge(t *testing.T, db *cassandra.DB, rows *Rows, want map[job.ID]int) {
	t.Helper()
	ctx := t.Context()
	top, err := TopToken(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := rows.Jobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	locks, core := NewLocks(db, testTTL), cassandrasink.New(db, cassandrasink.Options{})
	for _, r := range jobs {
		attempts, mine := want[r.ID]
		if !mine {
			continue
		}
		delete(want, r.ID)
		if r.State != job.Completed || r.Attempt != attempts || r.Run < 1 || int64(r.Run) >= top || r.Ended == 0 {
			t.Errorf("%+v, want %d attempts and a token below %d", r, attempts, top)
		}
		lock, err := locks.Read(ctx, LockName(rows.queue, r.ID), true)
		if err != nil || lock == nil || lock.Holder != "" || lock.Fence != int64(r.Run) {
			t.Errorf("%s: its lock is %s, %v", r.ID, lock, err)
		}
		entries, err := core.Ledger(ctx, worker.Resource(job.Job{Queue: rows.queue, ID: r.ID}))
		if err != nil || len(entries) != 1 || entries[0].Key != "s1" {
			t.Errorf("%s: its ledger is %+v, %v", r.ID, entries, err)
		}
		if full, err := rows.job(ctx, r.ID); err != nil || full == nil || len(full.Body) == 0 || full.Error != "" {
			t.Errorf("%s: its row is %+v, %v", r.ID, full, err)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d jobs have no row", len(want))
	}
	for bucket := range testBuckets {
		if left, err := rows.Pending(ctx, bucket); err != nil || len(left) > 0 {
			t.Errorf("bucket %d: %v, %v", bucket, left, err)
		}
	}
}
