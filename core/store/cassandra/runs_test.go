package cassandra

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/storetest"
)

// TestRunStatements: run rows are written plainly, and what only the worker knows is
// not written by another.
func TestRunStatements(t *testing.T) {
	t.Parallel()
	for cql, markers := range map[string]int{insertRun: 11, insertRunEnd: 7, readRunsOf: 4, readRunsOn: 6} {
		if strings.Contains(cql, " IF ") || strings.Contains(cql, "USING") || strings.Contains(cql, "FILTERING") || strings.Count(cql, "?") != markers {
			t.Errorf("%d markers: %s", strings.Count(cql, "?"), cql)
		}
	}
	for _, name := range []string{"worker", "started", "ended", "error"} {
		if strings.Contains(insertRunEnd, name) {
			t.Errorf("%s is written: %s", name, insertRunEnd)
		}
	}
	for _, s := range []store.Statement{onDay(store.RunsDay{}, readRunsOf, "a"), onDay(store.RunsDay{}, readRunsOn, "a", int64(1), 2)} {
		if len(s.Args) != strings.Count(s.CQL, "?") || len(s.Partition) != 3 {
			t.Errorf("%+v", s)
		}
	}
}

// fakeRuns is a table runs that understands the statements of this package only.
type fakeRuns map[string]map[string]any

func (f fakeRuns) Write(ctx context.Context, stmts ...store.Statement) error {
	if ctx.Err() != nil {
		return &store.Error{Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	for _, s := range stmts {
		if s.CQL != insertRun && s.CQL != insertRunEnd || len(s.Args) != strings.Count(s.CQL, "?") || !slices.Equal(s.Partition, stmts[0].Partition) {
			return fmt.Errorf("unknown statement %+v", s)
		}
		k := fmt.Sprint(s.Args[:5])
		if f[k] == nil {
			f[k] = map[string]any{"day": fmt.Sprint(s.Args[:3])}
		}
		columns, _, _ := strings.Cut(strings.TrimPrefix(s.CQL, "INSERT INTO runs ("), ")")
		for i, name := range strings.Split(columns, ", ")[3:] {
			f[k][name] = s.Args[3+i]
		}
	}
	return nil
}

func (f fakeRuns) QueryBy(ctx context.Context, _ int, _ bool, s store.Statement) (out []map[string]any, err error) {
	if ctx.Err() != nil {
		return nil, &store.Error{Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	limit := 1 << 20
	for _, row := range f {
		job, run := row["job"].(string), row["run"].(int64)
		fits := false
		switch s.CQL {
		case readRunsOf:
			fits = job == s.Args[3]
		case readRunsOn:
			fits = cmp.Or(cmp.Compare(job, s.Args[3].(string)), cmp.Compare(run, s.Args[4].(int64))) > 0
			limit = s.Args[5].(int)
		default:
			return nil, fmt.Errorf("unknown statement %q", s.CQL)
		}
		if fits && row["day"] == fmt.Sprint(s.Args[:3]) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b map[string]any) int {
		return cmp.Or(cmp.Compare(a["job"].(string), b["job"].(string)), cmp.Compare(a["run"].(int64), b["run"].(int64)))
	})
	return out[:min(limit, len(out))], nil
}

func TestRunsConformance(t *testing.T) {
	t.Parallel()
	r := &Runs{fakeRuns{}}
	storetest.RunRuns(t, r, "fake", func(name string, f func(storetest.T)) { t.Run(name, func(t *testing.T) { f(t) }) })
	broken := fakeRuns{"x": {"day": fmt.Sprint([]any{"q", 0, 1}), "job": "a", "run": int64(1)}}
	if rows, err := (&Runs{broken}).RunsOf(t.Context(), store.RunsDay{Shard: store.ShardID{Queue: "q"}, Day: 1}, "a"); err != nil || len(rows) != 1 || !rows[0].Ended.IsZero() {
		t.Errorf("a row without its other columns: %v, %v", rows, err)
	}
	row := store.RunRow{Job: "a", Run: 1, Worker: "w", Ended: time.UnixMilli(5), Error: "cut \xc3"}
	if err := r.PutRuns(t.Context(), store.RunsDay{}, []store.RunRow{row}); err != nil {
		t.Fatal(err)
	}
	if rows, _ := r.RunsOf(t.Context(), store.RunsDay{}, "a"); len(rows) != 1 || rows[0].Error != "cut \uFFFD" {
		t.Errorf("an error that is not text: %+v", rows)
	}
}
