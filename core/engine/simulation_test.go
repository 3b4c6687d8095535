package engine_test

import (
	"flag"
	"fmt"
	"sort"
	"sync"
	"testing"
	"time"

	"fencepost/core/engine/enginetest"
	"fencepost/internal/race"
	"fencepost/internal/score"
)

var (
	simSeeds   = flag.Uint64("sim.seeds", 150, "number of simulated runs")
	simFirst   = flag.Uint64("sim.first", 1, "first seed: -sim.first N -sim.seeds 1 replays run N")
	simReplays = flag.Uint64("sim.replays", 2, "seeds that are run ten times each, to the same history")
	simShrink  = flag.Int("sim.shrink", 100, "runs to spend on making a red run smaller")
	simLanes   = flag.Int("sim.lanes", 2, "runs at once")
	simScores  = flag.String("sim.scores", "", "add the score to this file")
	simMade    = flag.String("sim.made", "", "of which code the score is: COMMIT DIGEST")

	simCalendars = flag.Uint64("sim.calendars", 1, "number of simulated runs of 24 days of schedules")
	calendarLog  = flag.Bool("sim.calendar-log", false, "say of each run what it met")
	mutantSeeds  = flag.Uint64("sim.mutant-seeds", 300, "seeds within which each known-broken variant must be found")
)

// runs counts those that broke no rule.
type runs score.Share

func (r *runs) add(violations map[string]string) {
	r.Of++
	if len(violations) == 0 {
		r.Good++
	}
}

// keep adds the score to the file that -sim.scores names, if any. Runs that broke no rule and did not
// meet what the rules are about have none.
func (r *runs) keep(t *testing.T, name string, begun time.Time) {
	t.Helper()
	if *simScores == "" || t.Failed() && r.Good == r.Of {
		return
	}
	versions, err := score.Made(*simMade)
	if err == nil {
		err = score.Score{
			Kind: score.Simulation, Name: name, Share: score.Share(*r), About: fmt.Sprintf("from seed %d", *simFirst),
			Took: time.Since(begun), Ended: time.Now().UTC(), Versions: versions,
		}.Append(*simScores)
	}
	if err != nil {
		t.Error(err)
	}
}

// sweepSeeds runs f for many seeds, some at once, and returns when all are done or
// f reports that enough was seen.
func sweepSeeds(first, n uint64, lanes int, f func(seed uint64) (enough bool)) {
	var mu sync.Mutex
	next, stop := first, false
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				over := stop || seed >= first+n
				mu.Unlock()
				if over {
					return
				}
				if f(seed) {
					mu.Lock()
					stop = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
}

// TestSimulation: no seed may break a rule, and all together must have met
// every situation that the rules are about.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := *simSeeds
	if testing.Short() || race.Enabled {
		seeds = min(seeds, 20)
	}
	var mu sync.Mutex
	total := map[string]int{}
	var done runs
	begun := time.Now()
	sweepSeeds(*simFirst, seeds, *simLanes, func(seed uint64) bool {
		cfg := enginetest.Draw(seed)
		r := enginetest.Run(t, cfg)
		for rule, what := range r.Violations {
			t.Errorf("seed %d: %s: %s (replay: -run 'TestSimulation$' -sim.first %d -sim.seeds 1)\nsmallest run found: %s",
				seed, rule, what, seed, enginetest.Shrink(t, cfg, rule, *simShrink))
		}
		mu.Lock()
		defer mu.Unlock()
		for k, v := range r.Counts {
			total[k] += v
		}
		done.add(r.Violations)
		return t.Failed()
	})
	defer done.keep(t, "clusters", begun)
	if t.Failed() {
		return
	}
	t.Logf("%d runs, %.1f a second: %s", seeds, float64(seeds)/time.Since(begun).Seconds(), inOrder(total))
	if seeds < 1000 { // the rarest is met once in some hundred runs
		return
	}
	for _, must := range enginetest.Situations {
		if total[must] == 0 {
			t.Errorf("no run met %q: the simulation does not test it", must)
		}
	}
}

// TestSeedsThatFoundSomething: each of them broke a rule once.
func TestSeedsThatFoundSomething(t *testing.T) {
	t.Parallel()
	if race.Enabled {
		t.Skip("it runs without the race detector, for which TestSimulation has seeds enough")
	}
	for seed, what := range map[uint64]string{
		3973: "a backlog in one shard had all slots of the process",
		492:  "claims that the store refuses lost their slots to other shards before they were tried alone",
		6960: "what waited behind an occurrence whose job existed was fired a step later than it could be",
		9157: "a page that came between the setting back of a clock and the next plan was read by the old reckoning",
		576:  "a run whose row was moved while its shard was paused was taken for claimed",
		1637: "a command was told what had been looked up for one that had gone, before the job came",
		9821: "a run ended in the future, as the clock was set back before that was settled",
	} {
		for rule, violation := range enginetest.Run(t, enginetest.DrawPlain(seed)).Violations {
			t.Errorf("seed %d, where once %s: %s: %s", seed, what, rule, violation)
		}
	}
	for seed, what := range map[uint64]string{
		5867: "a pause of a shard that was new to a process was called invalid",
		6663: "a command was told what had been looked up before another job's end, or a schedule, had its job inserted",
	} {
		for rule, violation := range enginetest.Run(t, enginetest.Draw(seed)).Violations {
			t.Errorf("seed %d, where once %s: %s: %s", seed, what, rule, violation)
		}
	}
}

// TestSeedsThatWereJudgedWrongly: what these runs did was right, and a rule had said that it was not.
func TestSeedsThatWereJudgedWrongly(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for what, cfg := range map[string]enginetest.Config{
		"a second copy did what had been refused":                                                           enginetest.Draw(7272),
		"a wall clock was set ahead, a retry's row read, and the clock set back while its rest was counted": enginetest.Draw(9452),
		"a late retirement named a job that was forgotten and enqueued again, and removed nothing":          enginetest.Draw(3150),
		"an owner fired what another one, whose clock was ahead, had queued":                                enginetest.DrawDays(9, enginetest.Span),
	} {
		for rule, violation := range enginetest.Run(t, cfg).Violations {
			t.Errorf("where once %s: %s: %s", what, rule, violation)
		}
	}
}

func inOrder(counts map[string]int) string {
	var out []string
	for k, v := range counts {
		out = append(out, fmt.Sprintf("%s %d", k, v))
	}
	sort.Strings(out)
	return fmt.Sprint(out)
}

// TestReplay: a seed's runs are the same to the nanosecond.
func TestReplay(t *testing.T) {
	t.Parallel()
	hashes, seeds := map[string]bool{}, *simReplays
	if race.Enabled {
		seeds = 1
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		first := enginetest.Run(t, enginetest.Draw(seed)).Hash
		for n := range 9 {
			if again := enginetest.Run(t, enginetest.Draw(seed)).Hash; again != first {
				t.Fatalf("seed %d: run %d has history %s, the first one %s", seed, n+2, again, first)
			}
		}
		hashes[first] = true
	}
	if len(hashes) != int(seeds) {
		t.Error("two seeds have the same history")
	}
}

// TestCalendar: 24 days of schedules in many zones, over changes of clocks and under
// crashes, pauses, cuts, outages and clocks that are set. Each nominal time has one job, or was passed
// over as its schedule's policies say.
func TestCalendar(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	seeds := *simCalendars
	if testing.Short() {
		seeds = min(seeds, 1)
	}
	var mu sync.Mutex
	total := map[string]int{}
	var done runs
	begun := time.Now()
	sweepSeeds(*simFirst, seeds, *simLanes, func(seed uint64) bool {
		r := enginetest.Run(t, enginetest.DrawDays(seed, enginetest.Span))
		for rule, what := range r.Violations {
			t.Errorf("seed %d: %s: %s (replay: -run 'TestCalendar$' -sim.first %d -sim.calendars 1)", seed, rule, what, seed)
		}
		if *calendarLog {
			t.Logf("seed %d: %s", seed, inOrder(r.Counts))
		}
		mu.Lock()
		defer mu.Unlock()
		for k, v := range r.Counts {
			total[k] += v
		}
		done.add(r.Violations)
		return t.Failed()
	})
	defer done.keep(t, "calendars", begun)
	if t.Failed() {
		return
	}
	t.Logf("%d runs of 24 days, %.1f s each: %s", seeds, time.Since(begun).Seconds()/float64(seeds), inOrder(total))
	for _, must := range []string{"nominal-fired", "nominal-missed", "nominal-skipped", "clocks-changed", "takeover-ok", "outage",
		"crash", "pause", "suspend", "cut", "clock", "queued", "misfire", "followed-completed",
		"judged-trigger", "judged-enable", "judged-disable", "judged-remove-schedule"} {
		if total[must] == 0 && seeds >= uint64(len(enginetest.CalendarFrom)) {
			t.Errorf("no run met %q: the simulation does not test it", must)
		}
	}
}
