package run

import (
	"testing"

	"fencepost/harness/record/history"
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
