package broken

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
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

// A job of a sequence ends with one batch, and the next one comes with the one after it.
func TestFollowLater(t *testing.T) {
	t.Parallel()
	body, err := job.Job{ID: "b", Queue: "q", Kind: "k", After: "a"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	follower := enqueue("b", 102, 5)
	follower[1].Row.Body = body
	for name, c := range map[string]struct {
		killed bool
		want   string
	}{
		"by the same owner": {false, "pending/102/b job/0/a=completed job/0/b=pending ended/9/a"},
		"it is killed":      {true, "job/0/a=completed ended/9/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := followLater(config, w.Session)
				w.apply(s, shard0, w.batch(shard0, 1, enqueue("a", 101, 5)...))
				w.apply(s, shard0, w.batch(shard0, 1, claim("a", 101, 7)...))
				w.apply(s, shard0, w.batch(shard0, 1, append(complete("a", 7, 9), follower...)...))
				if got := w.rows(shard0); got != "job/0/a=completed ended/9/a" {
					t.Errorf("when the first has ended the rows are %s", got)
				}
				fence := int64(1)
				if c.killed {
					fence = 2
				}
				w.apply(s, shard0, w.batch(shard0, fence))
				w.apply(s, shard0, w.batch(shard0, fence))
				if got := w.rows(shard0); got != c.want {
					t.Errorf("the rows are %s", got)
				}
			})
		})
	}
}

// The state of a schedule that an owner reads stands at the present; other rows are as
// they are.
func TestCountsFromStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		was := schedule.State{Created: 5, Last: 1000, Fired: 3}
		body, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		row := put(store.KindSchedule, engine.AtState, "s")
		row.Row.Body = body
		definition := put(store.KindSchedule, engine.AtDefinition, "s")
		definition.Row.Body = []byte("{}")
		s := countsFromStart(config, w.Session)
		w.apply(s, shard0, w.batch(shard0, 1, definition, row))
		rows, err := s.Scan(t.Context(), shard0, store.Range{Kind: store.KindSchedule, AfterAt: -1, UpTo: engine.AtState, Limit: 10})
		if err != nil || len(rows) != 2 || string(rows[0].Body) != "{}" {
			t.Fatalf("%+v, %v", rows, err)
		}
		var st schedule.State
		if err := json.Unmarshal(rows[1].Body, &st); err != nil || st.Last != time.Now().UnixMilli() || st.Fired != 3 || st.Created != 5 {
			t.Errorf("it reads %+v, %v", st, err)
		}
	})
}

// The clock goes on as it was when it was read, whatever becomes of it.
func TestClockReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		offset := time.Duration(0)
		o := engine.Options{World: engine.World{Clock: clock.Go(), Wall: func() time.Time { return time.Now().Add(offset) }}}
		clockReadOnce(config, &o)
		offset = -10 * time.Second
		time.Sleep(3 * time.Second)
		if got := time.Until(o.Wall()); got != 0 {
			t.Errorf("its clock is off by %s", got)
		}
	})
}
