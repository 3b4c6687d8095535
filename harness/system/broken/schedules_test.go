package broken

import (
	"testing"
	"testing/synctest"

	"fencepost/core/job"
	"fencepost/core/store"
)

// What becomes of a job that a schedule fires, by the batches that its owner sends.
func TestMarkFirst(t *testing.T) {
	t.Parallel()
	body := func(o job.Occurrence) []byte {
		b, err := job.Job{ID: "a", Queue: "q", Kind: "k", Occurrence: o}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	fire := func(o job.Occurrence) []store.Op {
		ops := enqueue("a", 101, 5)
		ops[1].Row.Body = body(o)
		return append(ops, put(store.KindSchedule, 1, "s"))
	}
	occurrence := job.Occurrence{Schedule: "s", Nominal: 5}
	retried := put(store.KindPending, 105, "a")
	retried.Row.Body = body(occurrence)
	retry := []store.Op{remove(store.KindRunning, 7, "a"), retried, state(job.Pending, "a")}
	for name, c := range map[string]struct {
		life [][]store.Op
		want string
	}{
		"fired":             {[][]store.Op{fire(occurrence)}, "schedule/1/s"},
		"and the next tick": {[][]store.Op{fire(occurrence), nil}, "pending/101/a job/0/a=pending schedule/1/s"},
		"that claims it":    {[][]store.Op{fire(occurrence), claim("a", 101, 7)}, "running/7/a job/0/a=running schedule/1/s"},
		"and ends it":       {[][]store.Op{fire(occurrence), claim("a", 101, 7), complete("a", 7, 9)}, "job/0/a=completed ended/9/a schedule/1/s"},
		"or retries it":     {[][]store.Op{fire(occurrence), claim("a", 101, 7), retry}, "pending/105/a job/0/a=pending schedule/1/s"},
		"another job":       {[][]store.Op{fire(job.Occurrence{})}, "pending/101/a job/0/a=pending schedule/1/s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := markFirst(config, w.Session)
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

// The next owner does not do what the one before has left.
func TestMarkFirstIsKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ops := enqueue("a", 101, 5)
		b, err := job.Job{ID: "a", Queue: "q", Kind: "k", Occurrence: job.Occurrence{Schedule: "s", Nominal: 5}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		ops[1].Row.Body = b
		s := markFirst(config, w.Session)
		w.apply(s, shard0, w.batch(shard0, 1, ops...))
		w.apply(s, shard0, w.batch(shard0, 2))
		w.apply(s, shard0, w.batch(shard0, 2))
		if got := w.rows(shard0); got != "" {
			t.Errorf("the rows are %s", got)
		}
	})
}
