package fault

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"fencepost/harness/target/fleet"
)

// ticksAt makes ticks each 20 ms of a clock that runs fast by ppm, late as late says.
func ticksAt(n int, ppm float64, late func(i int) time.Duration) []fleet.Tick {
	start := time.Unix(1000, 0)
	var out []fleet.Tick
	for i := 1; i <= n; i++ {
		true20 := float64(i) * float64(rateTick) / (1 + ppm/1e6)
		out = append(out, fleet.Tick{N: i, At: start.Add(time.Duration(true20) + late(i))})
	}
	return out
}

// The rate of a clock is told from its ticks though most of them are late, and some missing.
func TestRateByTicks(t *testing.T) {
	t.Parallel()
	busy := func(i int) time.Duration { return time.Duration(i*i%17) * 7 * time.Millisecond }
	for _, ppm := range []float64{9000, -9000, 8000, -8000, 100, 0, 900_000, -500_000} {
		for name, late := range map[string]func(int) time.Duration{
			"on time": func(int) time.Duration { return 0 }, "busy": busy,
			"late as a whole": func(i int) time.Duration { return 40*time.Millisecond + busy(i) },
		} {
			all := ticksAt(150, ppm, late) // three seconds
			all = append(all[:20:20], all[40:]...)
			got, ok := ratePPM(all, rateTick)
			if !ok || math.Abs(got-ppm) > max(100, math.Abs(ppm)/100) {
				t.Errorf("%s: %.0f ppm, %t, want %.0f", name, got, ok, ppm)
			}
		}
	}
	if _, ok := ratePPM(ticksAt(8, 0, busy), rateTick); ok {
		t.Error("a handful of ticks told a rate")
	}
}

// A wall clock is told by what its worker wrote, as far as it is meant to be wrong.
func TestOffsetByStamps(t *testing.T) {
	t.Parallel()
	const minutes = 10 * time.Minute
	for name, c := range map[string]struct {
		meant  time.Duration
		stamps []time.Duration // wrong by, in rows of w1.1
		other  []time.Duration // in rows of w2.1
		early  bool            // they were written before the fault
		proven bool
		text   string
	}{
		"ahead":                 {meant: minutes, stamps: []time.Duration{minutes - 20*time.Millisecond}, proven: true, text: "off by 9m59.98s"},
		"behind, and late":      {meant: -minutes, stamps: []time.Duration{-minutes - 3*time.Second, -minutes - 400*time.Millisecond}, proven: true, text: "by 2 rows"},
		"half a second is more": {meant: -minutes, stamps: []time.Duration{-minutes - 501*time.Millisecond}, text: "off by -10m0.501s"},
		"right all the same":    {meant: 5 * time.Second, stamps: []time.Duration{0, -time.Second}, text: "off by 0s"},
		"a second, and not":     {meant: time.Second, stamps: []time.Duration{0}, text: "off by 0s"},
		"a second, and half":    {meant: time.Second, stamps: []time.Duration{time.Second / 2}, proven: true, text: "off by 500ms"},
		"another's":             {meant: minutes, other: []time.Duration{minutes}, text: "has written no row"},
		"of before":             {meant: minutes, stamps: []time.Duration{minutes}, early: true, text: "has written no row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := &Env{}
			written := time.Now().Add(time.Minute)
			if c.early {
				written = time.Now().Add(-time.Minute)
			}
			env.Stamps = func(context.Context) (out []Stamp, err error) {
				for life, all := range map[string][]time.Duration{"w1.1": c.stamps, "w2.1": c.other} {
					for i, by := range all {
						at := written.Add(time.Duration(i) * time.Second)
						out = append(out, Stamp{Life: life, Wall: at.Add(by), Written: at})
					}
				}
				return out, nil
			}
			a := &activeClock{env: env, stamps: watchStamps(env)}
			defer a.stamps.stop()
			a.to.OffsetMS = c.meant.Milliseconds()
			ctx, cancel := context.WithTimeout(t.Context(), 2*stampsEvery)
			defer cancel()
			if c.proven {
				ctx = t.Context()
			}
			ev := Evidence{Proven: true}
			a.offset(ctx, &ev, "w1.1")
			shows(t, ev, c.proven, c.text)
		})
	}
	env := &Env{Stamps: func(context.Context) ([]Stamp, error) { return nil, errors.New("no node") }}
	a := &activeClock{env: env, stamps: watchStamps(env)}
	defer a.stamps.stop()
	a.to.OffsetMS = 1000
	ctx, cancel := context.WithTimeout(t.Context(), 2*stampsEvery)
	defer cancel()
	ev := Evidence{Proven: true}
	if a.offset(ctx, &ev, "w1.1"); ev.Proven || !strings.Contains(ev.Text, "cannot be read (no node)") {
		t.Errorf("%+v", ev)
	}
}

// A wall clock is set to shortly before a zone's clocks change, at whatever date.
func TestClockBeforeChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone         string
		change       int64
		now, becomes string
	}{
		{"Europe/Berlin", 0, "2026-11-23T12:00:00Z", "2027-03-28T00:59:54Z"},
		{"Europe/Berlin", 2, "2026-11-23T12:00:00Z", "2027-10-31T00:59:54Z"},
		{"Europe/Berlin", 1, "2027-03-28T00:59:57Z", "2027-10-31T00:59:54Z"}, // never set back
		{"Australia/Lord_Howe", 1, "2026-11-23T12:00:00Z", "2027-04-03T14:59:54Z"},
	} {
		f, err := newClockFault(Spec{Zone: c.zone, Change: c.change})
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		to, ok := f.(clockFault).at(now)
		if got := now.Add(time.Duration(to.OffsetMS) * time.Millisecond).UTC().Format(time.RFC3339); !ok || got != c.becomes {
			t.Errorf("%s, change %d, from %s: %s, want %s", c.zone, c.change, c.now, got, c.becomes)
		}
	}
	for name, s := range map[string]Spec{"no zone": {Zone: "Nowhere/Town"}, "none that changes": {Zone: "Asia/Ho_Chi_Minh"},
		"two settings": {Zone: "Europe/Berlin", Offset: time.Second}, "a change of nothing": {Offset: time.Second, Change: 1}} {
		if _, err := newClockFault(s); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
