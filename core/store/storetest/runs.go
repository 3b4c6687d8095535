package storetest

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"fencepost/core/store"
)

// RunCase is one rule of the suite of store.Runs.
type RunCase struct {
	Name string
	Run  func(r *runRig)
}

// RunCases returns the suite. Each case uses a queue of its own.
func RunCases() []RunCase {
	return []RunCase{
		{"rows come back as they were written", runFields},
		{"a job's rows are in the order of its runs", runOrder},
		{"a row that is written again is replaced", runAgain},
		{"what is not known is left as it was", runUnknown},
		{"queues, shards and days are apart", runDays},
		{"a day is read in pages", runPages},
		{"as many rows as a request may have, and no more", runMany},
		{"a context that is over means not sent, for runs", runNotSent},
	}
}

// RunRuns runs every case on s, with queues whose names begin with prefix.
func RunRuns(t T, s store.Runs, prefix string, run func(name string, f func(t T))) {
	t.Helper()
	for i, c := range RunCases() {
		run(c.Name, func(t T) {
			ctx, cancel := context.WithTimeout(context.Background(), Timeout)
			defer cancel()
			c.Run(&runRig{ctx: ctx, t: t, s: s, d: store.RunsDay{Shard: store.ShardID{Queue: fmt.Sprintf("%s-runs-%d", prefix, i)}, Day: 20_000}})
		})
	}
}

// runRig is a case at work on one day.
type runRig struct {
	ctx context.Context
	t   T
	s   store.Runs
	d   store.RunsDay
}

func (r *runRig) put(d store.RunsDay, rows ...store.RunRow) {
	r.t.Helper()
	if err := r.s.PutRuns(r.ctx, d, rows); err != nil {
		r.t.Errorf("PutRuns: %v", err)
	}
}

func (r *runRig) want(what string, got []store.RunRow, err error, want ...store.RunRow) {
	r.t.Helper()
	if err != nil || len(got) != len(want) {
		r.t.Errorf("%s: %v, %v, want %v", what, got, err, want)
		return
	}
	for i := range want {
		g, w := got[i], want[i]
		if !g.Started.Equal(w.Started) || !g.Ended.Equal(w.Ended) {
			r.t.Errorf("%s: row %d is from %s to %s, want %s to %s", what, i, g.Started, g.Ended, w.Started, w.Ended)
		}
		g.Started, g.Ended, w.Started, w.Ended = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if g != w {
			r.t.Errorf("%s: row %d is %+v, want %+v", what, i, g, w)
		}
	}
}

func (r *runRig) of(job string, want ...store.RunRow) {
	r.t.Helper()
	got, err := r.s.RunsOf(r.ctx, r.d, job)
	r.want("RunsOf "+job, got, err, want...)
}

func aRun(job string, run int64) store.RunRow {
	end := time.UnixMilli(20_000 * 86_400_000)
	return store.RunRow{Job: job, Run: run, Attempt: 2, Outcome: "completed", Worker: "w1", Started: end.Add(-1234 * time.Millisecond), Ended: end}
}

func runFields(r *runRig) {
	a, b, c := aRun("a", 1<<62+7), aRun("b", 1), aRun("c", 1)
	b.Outcome, b.Error = "failed", "wrong: é 語"
	c.Started = time.Time{}
	r.put(r.d, a, b, c)
	r.of("a", a)
	r.of("b", b)
	r.of("c", c)
	r.of("d")
}

func runOrder(r *runRig) {
	var rows []store.RunRow
	for _, n := range []int64{1, 2, 10, 1 << 32, 1<<32 + 1, 1 << 60} {
		rows = append(rows, aRun("a", n))
	}
	r.put(r.d, rows[3], rows[1], rows[5])
	r.put(r.d, rows[4], rows[0], rows[2], aRun("aa", 3))
	r.of("a", rows...)
}

func runAgain(r *runRig) {
	row := aRun("a", 1)
	r.put(r.d, row)
	row.Attempt, row.Outcome, row.Error, row.Worker = 3, "dlq", "x", "w2"
	row.Ended = row.Ended.Add(time.Second)
	r.put(r.d, row)
	r.put(r.d, row)
	r.of("a", row)
}

func runUnknown(r *runRig) {
	row := aRun("a", 1)
	row.Outcome, row.Error = "lost", "x"
	r.put(r.d, row)
	r.put(r.d, store.RunRow{Job: "a", Run: 1, Attempt: 2, Outcome: "rescued"}, store.RunRow{Job: "b", Run: 2, Attempt: 1, Outcome: "rescued"})
	row.Outcome = "rescued"
	r.of("a", row)
	r.of("b", store.RunRow{Job: "b", Run: 2, Attempt: 1, Outcome: "rescued"})
}

func runDays(r *runRig) {
	days := []store.RunsDay{r.d, r.d, r.d, r.d}
	days[1].Day++
	days[2].Shard.Shard++
	days[3].Shard.Queue += "x"
	for i, d := range days {
		r.put(d, aRun("a", int64(i+1)))
	}
	for i, d := range days {
		got, err := r.s.RunsOf(r.ctx, d, "a")
		r.want(fmt.Sprintf("RunsOf %v", d), got, err, aRun("a", int64(i+1)))
		got, err = r.s.RunsOn(r.ctx, d, "", 0, 10)
		r.want(fmt.Sprintf("RunsOn %v", d), got, err, aRun("a", int64(i+1)))
	}
}

func runPages(r *runRig) {
	rows := []store.RunRow{aRun("a", 1), aRun("a", 5), aRun("b", 2), aRun("b", 30), aRun("c", 4)}
	r.put(r.d, rows[2], rows[4], rows[0], rows[3], rows[1])
	job, run := "", int64(0)
	for i := 0; i < len(rows); i += 2 {
		got, err := r.s.RunsOn(r.ctx, r.d, job, run, 2)
		r.want(fmt.Sprintf("page %d", i/2), got, err, rows[i:min(i+2, len(rows))]...)
		last := rows[min(i+1, len(rows)-1)]
		job, run = last.Job, last.Run
	}
	for _, limit := range []int{0, -1} {
		got, err := r.s.RunsOn(r.ctx, r.d, "", 0, limit)
		r.want(fmt.Sprintf("limit %d", limit), got, err)
	}
}

func runMany(r *runRig) {
	var rows []store.RunRow
	for n := range store.MaxOps {
		rows = append(rows, aRun(fmt.Sprintf("%04d", n), 1))
	}
	r.put(r.d)
	r.put(r.d, rows...)
	got, err := r.s.RunsOn(r.ctx, r.d, "", 0, 1000)
	r.want("all", got, err, rows...)
	if err := r.s.PutRuns(r.ctx, r.d, append(rows, aRun("x", 1))); store.OutcomeOf(err) != store.Fail {
		r.t.Errorf("%d rows at once: %v", len(rows)+1, err)
	}
	got, err = r.s.RunsOf(r.ctx, r.d, "x")
	r.want("of what was refused", got, err)
}

func runNotSent(r *runRig) {
	over, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := r.s.PutRuns(over, r.d, []store.RunRow{aRun("a", 1)}); store.OutcomeOf(err) != store.Fail || err == nil {
		r.t.Errorf("PutRuns: %v", err)
	}
	if _, err := r.s.RunsOf(over, r.d, "a"); err == nil {
		r.t.Errorf("RunsOf with a context that is over")
	}
	r.of("a")
}

// RunMembers checks a store of heartbeats, in cells whose names begin with prefix.
func RunMembers(t T, s store.Members, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%v", err)
		}
	}
	cell, other := prefix+"-a", prefix+"-b"
	shows := func(cell string, want map[string]string) {
		t.Helper()
		got, err := s.Members(ctx, cell)
		must(err)
		if !maps.Equal(got, want) {
			t.Errorf("cell %s shows %v, want %v", cell, got, want)
		}
	}
	beat := func(cell, name string) string {
		t.Helper()
		nonce := uuid.NewString()
		must(s.Beat(ctx, cell, name, nonce, time.Hour))
		return nonce
	}
	shows(cell, nil)
	must(s.Leave(ctx, cell, "nobody"))
	beat(cell, "x")
	x, y, z := beat(cell, "x"), beat(cell, "y"), beat(other, "x")
	shows(cell, map[string]string{"x": x, "y": y})
	shows(other, map[string]string{"x": z})
	must(s.Leave(ctx, cell, "x"))
	shows(cell, map[string]string{"y": y})
	shows(other, map[string]string{"x": z})
	// A row that nobody renews vanishes.
	must(s.Beat(ctx, cell, "brief", uuid.NewString(), time.Second))
	for ctx.Err() == nil {
		got, err := s.Members(ctx, cell)
		must(err)
		if got["brief"] == "" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	shows(cell, map[string]string{"y": y})
}
