package checker

import (
	"testing"

	"fencepost/harness/record/history"
)

// TestOnce: P12 passes a schedule that fires once, at once or at an instant, and says what is wrong
// with one that fires again, early or not at all.
func TestOnce(t *testing.T) {
	t.Parallel()
	type changes = []history.Change
	at := func(instant int64) func(*history.Schedule) {
		return func(s *history.Schedule) { s.Kind, s.AtMS, s.Overlap = "at", storyWall(instant), "allow" }
	}
	now := func(s *history.Schedule) { s.Kind, s.Overlap = "now", "allow" }
	late := func(misfire string) func(*history.Schedule) {
		return func(s *history.Schedule) {
			at(-5000)(s)
			s.Misfire, s.GraceMS, s.WindowMS = misfire, 1000, 0
		}
	}
	put := func(last int64, form string) changes {
		return changes{{Do: history.DoPut, Schedule: storyKey, LastMS: storyWall(last), Form: form}}
	}
	fires := func(at int64) changes {
		return changes{{Job: "0-0", Do: history.DoEnqueue, DueMS: storyWall(at), Schedule: storyKey, NominalMS: storyWall(at)},
			{Do: history.DoFire, Schedule: storyKey, LastMS: storyWall(at)}}
	}
	missed := changes{{Do: history.DoFire, Schedule: storyKey, LastMS: storyWall(-5000), Missed: 1}}
	off := func(last int64) changes {
		return changes{{Do: history.DoDisable, Schedule: storyKey, LastMS: storyWall(last)}}
	}
	// The batches at 1025, 2022, 4100 and 5030 do nothing unless they are said to.
	for name, c := range map[string]struct {
		asked func(*history.Schedule)
		does  map[int64]changes
		says  string // "": all is well
		named string
	}{
		"at an instant":               {at(20), map[int64]changes{5510: off(20)}, "", ""},
		"at once":                     {now, map[int64]changes{5510: off(20)}, "", ""},
		"at an instant to come":       {at(1020), map[int64]changes{60: nil, 1025: fire(1), 5510: off(1020)}, "", ""},
		"by the next owner, late":     {at(3020), map[int64]changes{60: nil, 4100: fire(3), 5510: off(3020)}, "", ""},
		"at a past instant":           {late("once"), map[int64]changes{storyFirst: put(-5001, ""), 60: fires(-5000), 5510: off(-5000)}, "", ""},
		"missed, as it is past":       {late("skip"), map[int64]changes{storyFirst: put(-5001, ""), 60: missed, 5510: off(-5000)}, "", ""},
		"fired, too late for that":    {late("skip"), map[int64]changes{storyFirst: put(-5001, ""), 60: fires(-5000), 5510: off(-5000)}, "more than 1000 are to be missed", ""},
		"past, and counted from now":  {late("once"), map[int64]changes{60: nil, 5510: off(19)}, "to begin at", ""},
		"again, by its owner":         {at(20), map[int64]changes{2022: fire(0), 5510: off(20)}, "again, which had job 0-0", "once-fires-again"},
		"again, by the next owner":    {at(20), map[int64]changes{4100: fire(0), 5510: off(20)}, "again, which had job 0-0", "once-fires-again"},
		"at once, and again":          {now, map[int64]changes{4100: fire(0), 5510: off(20)}, "again, which had job 0-0", "once-fires-again"},
		"at once, and a second later": {now, map[int64]changes{1025: fire(1), 5510: off(1020)}, "has 0 nominal times", ""},
		"before its instant":          {at(1020), map[int64]changes{5510: off(20)}, "has 0 nominal times", ""},
		"never":                       {at(1020), map[int64]changes{60: nil, 5510: off(19)}, "was never fired", ""},
		"at once, and never":          {now, map[int64]changes{60: nil, 5510: off(19)}, "was never fired", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newStory()
			y.form = func(_ int, s *history.Schedule) { c.asked(s) }
			y.expect(history.Expect{RecoveryBoundMS: 10})
			for _, at := range []int64{1025, 2022, 4100, 5030} {
				if _, does := c.does[at]; !does {
					c.does[at] = nil
				}
			}
			y.does(c.does)
			y.judged(t, c.says, c.named)
		})
	}
	t.Run("put for another instant", func(t *testing.T) {
		t.Parallel()
		for second, want := range map[int64]string{1019: "", 1025: "begins again at"} {
			y := newStory()
			y.form = func(n int, s *history.Schedule) {
				at([]int64{20, 1020}[n])(s)
				s.Form = []string{"a", "b"}[n]
			}
			y.does(map[int64]changes{storyFirst: put(19, "a"), 1025: put(second, "b"), 2022: fire(1), 4100: nil, 5030: nil, 5510: off(1020)})
			y.judged(t, want, "")
		}
	})
}

// TestBounds: P12 passes a schedule that begins and ends at an instant, and says what is wrong with
// one that fires before or after.
func TestBounds(t *testing.T) {
	t.Parallel()
	type changes = []history.Change
	off := func(last int64) changes {
		return changes{{Do: history.DoDisable, Schedule: storyKey, LastMS: storyWall(last)}}
	}
	for name, c := range map[string]struct {
		at, until int64 // 0: none
		does      map[int64]changes
		says      string // "": all is well
		named     string
	}{
		"ends":                       {0, 2500, map[int64]changes{4100: nil, 5030: nil, 5510: off(2020)}, "", ""},
		"ends a moment later":        {0, 5021, nil, "", ""},
		"ends at a nominal time":     {0, 5020, map[int64]changes{5030: nil, 5510: off(4020)}, "", ""},
		"fires at its end":           {0, 5020, nil, "ends before", "bounds-ignored"},
		"the next owner goes on":     {0, 2500, nil, "ends before", "bounds-ignored"},
		"ends too early":             {0, 3500, map[int64]changes{4100: nil, 5030: nil, 5510: off(2020)}, "was never fired", ""},
		"begins":                     {1020, 0, map[int64]changes{60: nil}, "", ""},
		"began before it was put":    {-2980, 0, nil, "", ""},
		"fires before it begins":     {1020, 0, nil, "it begins at", "bounds-ignored"},
		"keeps not to its beginning": {-2680, 0, nil, "the next one is", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newStory()
			y.form = func(_ int, s *history.Schedule) {
				if c.at != 0 {
					s.AtMS = storyWall(c.at)
				}
				if c.until != 0 {
					s.UntilMS = storyWall(c.until)
				}
			}
			y.expect(history.Expect{RecoveryBoundMS: 10})
			y.does(c.does)
			y.judged(t, c.says, c.named)
		})
	}
}
