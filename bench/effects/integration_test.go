//go:build integration

package effects

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/bench"
)

// TestWholeBenchmark measures on a real server. All is counted in the end, and one row too few is found.
func TestWholeBenchmark(t *testing.T) {
	for name, c := range map[string]struct {
		lose string
		want int
	}{
		"sound":                {"", 0},
		"a key is lost":        {"DELETE FROM fencepost_sink_keys WHERE key = (SELECT min(key) FROM fencepost_sink_keys)", 1},
		"an entry is lost":     {"DELETE FROM fencepost_sink_ledger WHERE (resource, seq) = (SELECT resource, max(seq) FROM fencepost_sink_ledger GROUP BY resource LIMIT 1)", 1},
		"an update is lost":    {"UPDATE fencepost_sink SET last_seq = last_seq - 1 WHERE resource = 'r0'", 1},
		"a key is there twice": {"INSERT INTO fencepost_sink_keys SELECT resource, key || '+', token, seq, fingerprint, attempt, at FROM fencepost_sink_keys LIMIT 1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Config: bench.Config{Rounds: bench.MinRounds, Window: 100 * time.Millisecond}, Threads: []int{2}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := bench.Measure(t.Context(), &losing{s, c.lose}, &bench.Env{Seed: 3, Dir: t.TempDir()}, bench.NewProgress(nil))
			if err != nil {
				t.Fatal(err)
			}
			noise := func(p string) bool { return strings.HasPrefix(p, "A/A copies") } // of so short a run
			if len(r.Violations) != c.want || slices.ContainsFunc(r.Problems, func(p string) bool { return !noise(p) }) {
				t.Errorf("%v, %v", r.Violations, r.Problems)
			}
			numbers, err := r.Numbers()
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range numbers {
				if n.Rate.N != bench.MinRounds || n.Rate.Median == 0 || n.Cost("store_cpu_s_per_1000").N == 0 {
					t.Errorf("%s: %+v, %+v", n.Arm.ID, n.Rate, n.Costs)
				}
			}
			if h := s.Headlines(r); len(h) != 1 || !strings.Contains(h[0], "times those of plain transactions") {
				t.Error(h)
			}
			if targets, err := s.targets(r); err != nil || len(targets) != 2 || targets[0].Got == "not measured" || targets[1].Got == "not measured" {
				t.Errorf("%+v, %v", targets, err)
			}
		})
	}
}

// losing changes the database before it is counted.
type losing struct {
	*Suite
	sql string
}

func (l *losing) Finish(ctx context.Context, r *bench.Result) error {
	if l.sql != "" {
		if _, err := l.arms["T/2"].pool.Exec(ctx, l.sql); err != nil {
			return err
		}
	}
	return l.Suite.Finish(ctx, r)
}
