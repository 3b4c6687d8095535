package broken

import (
	"slices"
	"testing"
	"testing/synctest"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/target/workload"
)

// What each decorator makes of the batches of a job's life.
func TestRowVariants(t *testing.T) {
	t.Parallel()
	dead := []store.Op{state(job.DLQ, "a"), put(store.KindDLQ, 9, "a"), remove(store.KindRunning, 7, "a")}
	retried := put(store.KindPending, 105, "a")
	retried.Row.Due = 8
	retry := []store.Op{remove(store.KindRunning, 7, "a"), retried, state(job.Pending, "a")}
	trim := []store.Op{{Kind: store.DeleteUpTo, Row: store.Row{Key: store.Key{Kind: store.KindPending, At: 100}}}}
	life := [][]store.Op{enqueue("a", 101, 5), claim("a", 101, 7)}
	for name, c := range map[string]struct {
		make func(workload.Config, store.Shards) store.Shards
		life [][]store.Op
		want string
	}{
		"dlq-lost loses":                    {dlqLost, append(slices.Clone(life), dead), "job/0/a=running"},
		"dlq-lost completes":                {dlqLost, append(slices.Clone(life), complete("a", 7, 9)), "job/0/a=completed ended/9/a"},
		"claimed-twice claims":              {claimedTwice, life, "pending/101/a running/7/a job/0/a=running"},
		"claimed-twice cancels":             {claimedTwice, [][]store.Op{life[0], {state(job.Cancelled, "a"), remove(store.KindPending, 101, "a")}}, "job/0/a=cancelled"},
		"behind-the-mark inserts":           {behindTheMark, life[:1], "pending/5/a job/0/a=pending"},
		"behind-the-mark claims":            {behindTheMark, life, "running/7/a job/0/a=running"},
		"behind-the-mark retries":           {behindTheMark, append(slices.Clone(life), retry, trim), "pending/8/a job/0/a=pending"},
		"behind-the-mark claims again":      {behindTheMark, append(slices.Clone(life), retry, claim("a", 105, 8)), "running/8/a job/0/a=running"},
		"retries-in-memory changes no rows": {retriesInMemory, life, "running/7/a job/0/a=running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := c.make(config, w.Session)
				for _, ops := range c.life {
					w.apply(s, shard0, w.batch(shard0, 1, ops...))
				}
				if got := w.rows(shard0); got != c.want {
					t.Errorf("the rows are %s", got)
				}
			})
		})
	}
}

// A duplicate that is rejected does not move what is there.
func TestBehindTheMarkRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := behindTheMark(config, w.Session)
		w.apply(s, shard0, w.batch(shard0, 1, enqueue("a", 101, 5)...))
		if res, err := w.send(s, shard0, w.batch(shard0, 1, enqueue("a", 101, 6)...), 0); err != nil || res.Applied {
			t.Fatalf("a duplicate: %+v, %v", res, err)
		}
		w.apply(s, shard0, w.batch(shard0, 1, claim("a", 101, 7)...))
		if got := w.rows(shard0); got != "running/7/a job/0/a=running" {
			t.Errorf("the rows are %s", got)
		}
	})
}

func TestScans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		run := int64(job.NewRunID(1, 1))
		pending, running := put(store.KindPending, 5, "p"), put(store.KindRunning, run, "r")
		for _, op := range []*store.Op{&pending, &running} {
			op.Row.Attempt, op.Row.Run = 3, run
		}
		first := w.batch(shard0, 1, pending, running)
		first.To.Owner = "w2.1"
		w.apply(w.Session, shard0, first)
		scan := func(s store.Shards, kind store.Kind) []store.Row {
			rows, err := s.Scan(t.Context(), shard0, store.Range{Kind: kind, UpTo: 1 << 60, Limit: 9})
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		told := formatUnsaid(config, w.Session)
		body := put(store.KindPending, 6, "b")
		body.Row.Body = []byte("{}")
		w.apply(told, shard1, w.batch(shard1, 1, body))
		for want, s := range map[string]store.Shards{"{}": told, "\x02{}": w.Session} {
			rows, err := s.Scan(t.Context(), shard1, store.Range{Kind: store.KindPending, UpTo: 1 << 60, Limit: 9})
			if err != nil || len(rows) != 1 || string(rows[0].Body) != want {
				t.Errorf("format-unsaid shows %+v, %v, want %q", rows, err, want)
			}
		}
		for _, kind := range []store.Kind{store.KindPending, store.KindRunning} {
			if rows := scan(retriesInMemory(config, w.Session), kind); len(rows) != 1 || rows[0].Attempt != 0 || rows[0].Run != run {
				t.Errorf("retries-in-memory shows %+v", rows)
			}
		}

		s := rescueDeadOnly(config, w.Session)
		look := func(owner string, id store.ShardID, fence int64) {
			b := w.batch(id, fence)
			b.To.Owner = owner
			w.apply(w.Session, id, b)
			if _, err := s.Look(t.Context(), id, false); err != nil {
				t.Fatal(err)
			}
		}
		if rows := scan(s, store.KindRunning); len(rows) != 1 {
			t.Errorf("a run of somebody unknown is left alone: %+v", rows)
		}
		look("w2.1", shard0, 1)
		look("w3.1", shard0, 2)
		if rows := scan(s, store.KindRunning); len(rows) != 0 {
			t.Errorf("a run of somebody who may be alive is rescued: %+v", rows)
		}
		if rows := scan(s, store.KindPending); len(rows) != 1 {
			t.Errorf("a job that does not run is left alone: %+v", rows)
		}
		look("w2.2", shard1, 2)
		if rows := scan(s, store.KindRunning); len(rows) != 1 {
			t.Errorf("a run of a dead process is left alone: %+v", rows)
		}
	})
}
