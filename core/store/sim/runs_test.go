package sim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/store/storetest"
)

func TestRunConformance(t *testing.T) {
	t.Parallel()
	s := sim.New().Connect("p", 1)
	storetest.RunRuns(t, s, "conformance", func(name string, f func(storetest.T)) {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
	})
}

// brokenRuns changes what is written to, or asked of, a store.
type brokenRuns struct {
	store.Runs
	row   func(*store.RunRow)
	day   func(*store.RunsDay)
	limit int
	order func([]store.RunRow)
	lax   bool
}

func (b brokenRuns) PutRuns(ctx context.Context, d store.RunsDay, rows []store.RunRow) error {
	rows = slices.Clone(rows)
	for i := range rows {
		if b.row != nil {
			b.row(&rows[i])
		}
	}
	if b.lax {
		ctx, rows = context.WithoutCancel(ctx), rows[:min(len(rows), store.MaxOps)]
	}
	if b.day != nil {
		b.day(&d)
	}
	return b.Runs.PutRuns(ctx, d, rows)
}

func (b brokenRuns) RunsOf(ctx context.Context, d store.RunsDay, job string) ([]store.RunRow, error) {
	if b.day != nil {
		b.day(&d)
	}
	rows, err := b.Runs.RunsOf(ctx, d, job)
	if b.order != nil {
		b.order(rows)
	}
	return rows, err
}

func (b brokenRuns) RunsOn(ctx context.Context, d store.RunsDay, job string, run int64, limit int) ([]store.RunRow, error) {
	if b.day != nil {
		b.day(&d)
	}
	return b.Runs.RunsOn(ctx, d, job, run, limit+b.limit)
}

// TestRunConformanceFindsBrokenStores: the suite must fail on stores that do not do
// what is asked of them.
func TestRunConformanceFindsBrokenStores(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]brokenRuns{
		"errors are lost":             {row: func(r *store.RunRow) { r.Error = "" }},
		"seconds instead of ms":       {row: func(r *store.RunRow) { r.Started = r.Started.Truncate(time.Second) }},
		"unknown is written":          {row: func(r *store.RunRow) { r.Worker += " " }},
		"attempts are lost":           {row: func(r *store.RunRow) { r.Attempt = 1 }},
		"one day for all":             {day: func(d *store.RunsDay) { d.Day = 7 }},
		"one shard for all":           {day: func(d *store.RunsDay) { d.Shard.Shard = 0 }},
		"one queue for all":           {day: func(d *store.RunsDay) { d.Shard.Queue = "q" }},
		"pages are too long":          {limit: 1},
		"the last run comes first":    {order: slices.Reverse[[]store.RunRow]},
		"contexts and limits are air": {lax: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.Runs = sim.New().Connect("p", 1)
			var f failures
			storetest.RunRuns(&f, b, "broken", func(_ string, run func(storetest.T)) { run(&f) })
			if f.n.Load() == 0 {
				t.Error("the conformance suite passes")
			}
		})
	}
}

func TestMembersConformance(t *testing.T) {
	t.Parallel()
	storetest.RunMembers(t, sim.New().Connect("p", 1), "conformance")
}
