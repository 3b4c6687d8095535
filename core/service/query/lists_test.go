package query_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/query"
	"fencepost/core/service/query/querytest"
	"fencepost/core/store"
)

// TestLists: each job is in the list of its state, once, whatever the pages; what lies
// below the marks is not read.
func TestLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := map[job.State][]job.ID{}
		states := []job.State{job.Pending, job.Running, job.DLQ, job.Completed, job.Cancelled, job.Abandoned}
		shared := map[store.ShardID]store.Row{} // rows of the index with room for more jobs
		for n := range 180 {
			j, s := aJob(n)
			state := states[n%len(states)]
			all := rows(t, j, state, int64(1000+n))
			for i, row := range all {
				if row.Kind != store.KindEnded {
					continue
				}
				if open, ok := shared[s]; ok {
					open.Body = append(slices.Clone(open.Body), row.ID+" "...)
					all[i] = open
				}
				if shared[s] = all[i]; len(all[i].Indexed()) == 1+n%store.MaxIndexed {
					delete(shared, s)
				}
			}
			w.put(s, nil, all...)
			want[state] = append(want[state], j.ID)
		}
		for _, state := range states {
			for _, limit := range []int{1, 7, 0, query.MaxLimit} {
				var got []job.ID
				pages := 0
				for after := ""; ; {
					jobs, next, err := w.reader.Jobs(t.Context(), "q", state, query.Page{Limit: limit, After: after})
					if err != nil || pages > 500 {
						t.Fatal(pages, err)
					}
					pages++
					for _, j := range jobs {
						if j.State != state || j.Body != (kinds[state] != store.KindEnded) {
							t.Errorf("%+v in the list of %s", j, state)
						}
						got = append(got, j.ID)
					}
					if after = next; next == "" {
						break
					}
				}
				slices.Sort(got)
				slices.Sort(want[state])
				if !slices.Equal(got, want[state]) || pages < 2 {
					t.Errorf("%s by %d: %d jobs on %d pages, want %d", state, limit, len(got), pages, len(want[state]))
				}
			}
		}
		for id := range w.ticks {
			w.put(id, func(h *store.Header) { h.LowPending = 1 << 40 })
		}
		if jobs, _, err := w.reader.Jobs(t.Context(), "q", job.Pending, query.Page{}); err != nil || len(jobs) != 0 {
			t.Errorf("below the mark: %v, %v", jobs, err)
		}
	})
}

func TestPagesThatCannotBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 3 {
			j, s := aJob(n)
			w.put(s, nil, rows(t, j, job.Pending, 1000)...)
		}
		_, next, err := w.reader.Jobs(t.Context(), "q", job.Pending, query.Page{Limit: 1})
		if err != nil || next == "" {
			t.Fatal(next, err)
		}
		for name, c := range map[string]struct {
			state job.State
			page  query.Page
			field string
		}{
			"less than none":       {job.Pending, query.Page{Limit: -1}, "limit"},
			"too many":             {job.Pending, query.Page{Limit: query.MaxLimit + 1}, "limit"},
			"no cursor":            {job.Pending, query.Page{After: "x"}, "after"},
			"another list's":       {job.Running, query.Page{After: next}, "after"},
			"of no shard":          {job.Pending, query.Page{After: "eyJsIjoicGVuZGluZyIsInMiOjQwfQ"}, "after"},
			"of a shard below all": {job.Pending, query.Page{After: "eyJsIjoicGVuZGluZyIsInMiOi0xfQ"}, "after"},
			"within no row":        {job.Completed, query.Page{After: "eyJsIjoiY29tcGxldGVkIiwicyI6MCwibiI6Mn0"}, "after"},
			"before a row's jobs":  {job.Completed, query.Page{After: "eyJsIjoiY29tcGxldGVkIiwicyI6MCwiaSI6IngiLCJuIjotMX0"}, "after"},
		} {
			var page *query.PageError
			if _, _, err := w.reader.Jobs(t.Context(), "q", c.state, c.page); !errors.As(err, &page) || page.Field != c.field || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%s: %v", name, err)
			}
		}
		var invalid *job.InvalidError
		if _, _, err := w.reader.Jobs(t.Context(), "q", "waiting", query.Page{}); !errors.As(err, &invalid) || invalid.Field != "state" {
			t.Errorf("another state: %v", err)
		}
		if _, _, err := w.reader.Jobs(t.Context(), "other", job.Pending, query.Page{}); !errors.As(err, &invalid) || invalid.Field != "queue" {
			t.Errorf("another queue: %v", err)
		}
	})
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := map[string]bool{}
		for n := range 6 {
			key := fmt.Sprint("s", n)
			id := job.ScheduleID("q", key, shards)
			s, _ := id.Shard()
			sc, err := schedule.New(schedule.Definition{Queue: "q", Key: key, Timing: schedule.Timing{Kind: schedule.Cron, Cron: "@daily"}, Job: job.Job{Kind: "k"}}, shards)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := sc.Encode()
			def := store.Row{Key: store.Key{Kind: store.KindSchedule, At: engine.AtDefinition, ID: string(id)}, Body: body}
			state := store.Row{Key: store.Key{Kind: store.KindSchedule, At: engine.AtState, ID: string(id)}, Body: []byte(`{"last":5}`)}
			if n == 5 {
				state.Body = []byte("{")
			}
			w.put(store.ShardID{Queue: "q", Shard: s}, nil, def, state)
			want[key] = true
			got, err := w.reader.Schedule(t.Context(), "q", id)
			if err != nil || got.Definition.Key != key || (got.Broken != nil) != (n == 5) {
				t.Errorf("%s: %+v, %v", key, got, err)
			}
			if found, err := w.reader.ScheduleID(t.Context(), "q", key); found != id || err != nil {
				t.Errorf("%s has id %s, %v", key, found, err)
			}
		}
		for after := ""; ; {
			list, next, err := w.reader.Schedules(t.Context(), "q", query.Page{Limit: 2, After: after})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				if !want[s.Definition.Key] {
					t.Errorf("%+v", s)
				}
				delete(want, s.Definition.Key)
			}
			if after = next; next == "" {
				break
			}
		}
		if len(want) > 0 {
			t.Errorf("not in the list: %v", want)
		}
		if _, err := w.reader.Schedule(t.Context(), "q", job.ScheduleID("q", "none", shards)); !errors.Is(err, query.ErrNone) {
			t.Errorf("none: %v", err)
		}
	})
}

// TestRuns: the latest first, of so many days.
func TestRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j, s := aJob(1)
		now := time.Now()
		for n := range 4 {
			ended := now.Add(-time.Duration(n) * 24 * time.Hour)
			row := store.RunRow{Job: string(j.ID), Run: int64(100 - n), Attempt: 1, Outcome: "completed", Worker: "w", Started: ended, Ended: ended}
			if err := w.session.PutRuns(t.Context(), store.RunsDay{Shard: s, Day: store.DayOf(ended)}, []store.RunRow{row}); err != nil {
				t.Fatal(err)
			}
		}
		for _, days := range []int{1, 3, query.MaxDays} {
			rows, err := w.reader.Runs(t.Context(), "q", j.ID, now, days)
			if err != nil || len(rows) != min(days, 4) || rows[0].Run != 100 || !slices.IsSortedFunc(rows, func(a, b store.RunRow) int { return int(b.Run - a.Run) }) {
				t.Errorf("%d days: %+v, %v", days, rows, err)
			}
		}
		for _, days := range []int{0, query.MaxDays + 1} {
			var page *query.PageError
			if _, err := w.reader.Runs(t.Context(), "q", j.ID, now, days); !errors.As(err, &page) || page.Field != "days" {
				t.Errorf("%d days: %v", days, err)
			}
		}
		without := query.New(query.Options{Shards: w.session, Queues: querytest.Fixed{{Name: "q", Shards: shards}}})
		if rows, err := without.Runs(t.Context(), "q", j.ID, now, 1); rows != nil || err != nil {
			t.Errorf("without a history: %v, %v", rows, err)
		}
	})
}
