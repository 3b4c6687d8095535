package past

import (
	"testing"

	"fencepost/harness/record/history"
)

// TestHostClock: instants are dated by the host's clock as it was set, and found by what it showed.
func TestHostClock(t *testing.T) {
	t.Parallel()
	const s = int64(1e9)
	set := func(at, ms int64) history.Event {
		return history.Event{TS: at * s, Proc: history.Harness, Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: ms}}}
	}
	a := Dated(&history.History{
		Headers: []history.Header{{Proc: history.Harness, TS: s, WallTime: "1970-01-01T01:00:01Z"}},
		Events:  []history.Event{set(10, 3000), set(20, -2000)},
	})
	const hour = 3_600_000
	for _, c := range []struct{ at, shows int64 }{{0, 0}, {9, 9000}, {10, 13_000}, {19, 22_000}, {20, 18_000}, {30, 28_000}} {
		if got := a.WallAt(c.at * s); got != hour+c.shows {
			t.Errorf("at %d s it shows %d ms, want %d", c.at, got-hour, c.shows)
		}
	}
	for _, c := range []struct{ shows, at int64 }{
		{9000, 9}, {12_000, 10}, {15_000, 12}, {20_000, 17}, // not when it shows it again
		{25_000, 27}, {28_000, 30},
	} {
		if got := a.instantOf(hour + c.shows); got != c.at*s {
			t.Errorf("it shows %d ms at %d ms, want %d s", c.shows, got/1e6, c.at)
		}
	}
}

// TestStepped: what a harness notes of a clock that is slewed is no step.
func TestStepped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		notes [][2]int64 // s, ms
		want  bool
	}{
		"nobody noted anything":     {nil, false},
		"slewed":                    {[][2]int64{{5, 100}, {25, 201}, {45, 305}}, false},
		"slewed to and fro":         {[][2]int64{{5, -100}, {25, 0}}, false},
		"set ahead":                 {[][2]int64{{5, 3300}}, true},
		"set back, and slewed then": {[][2]int64{{5, -151}, {25, -255}}, true},
		"set to and fro":            {[][2]int64{{5, 100}, {14, 0}}, true},
	} {
		var h []*history.Event
		for _, n := range c.notes {
			h = append(h, &history.Event{TS: n[0] * 1e9, Details: &history.Details{Clock: &history.Clock{OffsetMS: n[1]}}})
		}
		if stepped(h) != c.want {
			t.Errorf("%s: %v, want %v", name, !c.want, c.want)
		}
	}
}
