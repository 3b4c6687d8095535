package run

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/env/osproc"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
)

// TestWarm: latencies that fall are not settled, those that stay are.
func TestWarm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		medians []float64
		want    bool
	}{
		"too few windows": {[]float64{20, 20, 20}, false},
		"steady":          {[]float64{90, 20, 20, 21, 20}, true},
		"cold":            {[]float64{160, 104, 76, 60}, false},
		"slowly falling":  {[]float64{61, 55, 48, 42}, false},
		"no longer":       {[]float64{61, 48, 40, 40, 39, 38}, true},
		"rising":          {[]float64{10, 10, 20, 40}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &warm{sent: map[string]map[int64]int64{}, began: 1}
			id, now, level := int64(0), int64(1), false
			for _, m := range c.medians {
				for range warmLeast {
					id++
					w.add(&history.Event{TS: now, Proc: "w1.1/c1", ID: id, Type: history.Invoke, Op: history.OpRelease})
					w.add(&history.Event{TS: now + int64(m*1e6), Proc: "w1.1/c1", ID: id, Type: history.OK, Op: history.OpRelease})
				}
				if w.over(now + int64(warmWindow) - 1) {
					t.Error("a window is over before its time")
				}
				now += int64(warmWindow)
				if !w.over(now) {
					t.Error("a window is not over in its time")
				}
				level = w.level()
			}
			if level != c.want {
				t.Errorf("settled: %v, want %v", level, c.want)
			}
			w.add(&history.Event{TS: now, Proc: "w1.1/c1", ID: id + 1, Type: history.OK, Op: history.OpRelease}) // sent before anybody looked
			if w.over(now + int64(warmWindow)) {
				t.Error("a window without operations is over")
			}
		})
	}
}

func TestLanesKeepOrder(t *testing.T) {
	t.Parallel()
	steps := []plan.Step{{Step: scenario.Step{Lane: "a", Repeat: 1}}, {Step: scenario.Step{Repeat: 2}}, {Step: scenario.Step{Lane: "b", Repeat: 3}}, {Step: scenario.Step{Lane: "a", Repeat: 4}}, {Step: scenario.Step{Repeat: 5}}}
	var got [][]int
	for _, lane := range lanes(steps) {
		var ids []int
		for _, st := range lane {
			ids = append(ids, st.Repeat)
		}
		got = append(got, ids)
	}
	if want := [][]int{{1, 4}, {2}, {3}, {5}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestKeyspaceOf: Cassandra takes it, and runs that differ at their ends only have two.
func TestKeyspaceOf(t *testing.T) {
	t.Parallel()
	long := "20261123-010203-" + strings.Repeat("my-scenario-", 4)
	for run, want := range map[string]string{
		"20261123-010203-partition-1": "fp_20261123_010203_partition_1",
		"20261123-010203-It's mine-1": "fp_20261123_010203_it_s_mine_1",
		long + "1":                    "",
	} {
		if got := keyspaceOf(run); len(got) > 48 || notIdent.ReplaceAllString(got, "_") != got || want != "" && got != want {
			t.Errorf("keyspaceOf(%s) = %s, want %s", run, got, want)
		}
	}
	if a, b := keyspaceOf(long+"1"), keyspaceOf(long+"2"); a == b {
		t.Errorf("two runs share %s", a)
	}
}

// TestMain doubles as a program of a user's own.
func TestMain(m *testing.M) {
	osproc.Init()
	if os.Getenv("FENCEPOST_TASK") != "" {
		os.Exit(muteProgram())
	}
	goleak.VerifyTestMain(m)
}
