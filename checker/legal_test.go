package checker

import (
	"context"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

func TestMain(m *testing.M) {
	if os.Getenv(ChildEnv) != "" { // started by CheckInChild or Watch
		if slices.Contains(os.Args, WatchArgs[1]) {
			os.Exit(WatchMain(os.Stdout))
		}
		os.Exit(ChildMain(os.Stdout))
	}
	if race.Enabled {
		// It makes everything ten times as slow and has little to find here; make
		// test-unit runs this package in full without it as well.
		if err := flag.Set("rapid.checks", "12"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func small(seed uint64) simConfig {
	return simConfig{
		seed: seed, workers: 3, clients: 2, locks: 2, ttl: 600 * time.Millisecond, length: 20 * time.Second,
		noise: 0.1, pause: 0.1, crash: 0.7,
	}
}

func smallJobs(seed uint64) simConfig {
	return simConfig{
		seed: seed, workers: 3, clients: 1, shards: 2, ttl: 600 * time.Millisecond, length: 10 * time.Second,
		noise: 0.1, pause: 0.05, crash: 0.7, pauses: seed%3 == 2,
	}
}

// shortJobs is enough where many runs are made.
func shortJobs(seed uint64) simConfig {
	cfg := smallJobs(seed)
	cfg.length /= 3
	return cfg
}

// TestLegalHistoriesPass is the false-alarm test: histories of the correct
// protocols pass, whatever happened to them, and they show what there is to show.
func TestLegalHistoriesPass(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if race.Enabled {
		seeds = 10
	}
	ofLocks := []string{
		property.PointTakeover, property.PointStale, property.PointSettled, property.PointLost, property.PointResend, property.PointDuplicate,
	}
	for name, c := range map[string]struct {
		seeds  uint64
		world  func(seed uint64) simConfig
		points []string
	}{
		"locks": {seeds, func(seed uint64) simConfig {
			cfg := small(seed)
			cfg.witnessed = seed%2 == 0
			return cfg
		}, slices.Concat(ofLocks, []string{"late send"})},
		"jobs": {8, func(seed uint64) simConfig {
			cfg := smallJobs(seed)
			cfg.apart = time.Duration(seed%2) * 700 * time.Millisecond
			return cfg
		}, append(ofLocks,
			property.PointRetry, property.PointRescue, property.PointDLQ, property.PointCancel, property.PointAbandon, property.PointRedrive,
			property.PointHasten, property.PointPause, property.PointSweep, property.PointHandOver, property.PointInbox, property.PointOverlap)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points := map[string]int{}
			for seed := range c.seeds {
				r := Check(context.Background(), simulate(c.world(seed)), Options{})
				if r.Verdict != Pass {
					logFindings(t, r)
					t.Fatalf("seed %d: %s: %s", seed, r.Verdict, r.Summary)
				}
				for point, n := range r.Counts.Points {
					points[point] += n
				}
				points["late send"] += r.Counts.LateSends
			}
			t.Log(points)
			for _, point := range c.points {
				if points[point] == 0 {
					t.Errorf("the simulation never reached %q", point)
				}
			}
		})
	}
}

func logFindings(t *testing.T, r *Result) {
	t.Helper()
	for _, p := range r.Properties {
		for _, v := range p.Violations {
			t.Logf("%s: %s", p.ID, v.Message)
		}
		if p.Status == StatusUnknown {
			t.Log(p.ID, p.Detail)
		}
	}
}

func drawConfig(t *rapid.T) simConfig {
	return simConfig{
		seed:    rapid.Uint64Range(0, 1<<32).Draw(t, "seed"),
		workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		clients: rapid.IntRange(1, 4).Draw(t, "clients"),
		locks:   rapid.IntRange(1, 3).Draw(t, "locks"),
		ttl:     time.Duration(rapid.IntRange(200, 2000).Draw(t, "ttl ms")) * time.Millisecond,
		length:  time.Duration(rapid.IntRange(2, 15).Draw(t, "length s")) * time.Second,
		noise:   rapid.Float64Range(0, 0.7).Draw(t, "noise"),
		pause:   rapid.Float64Range(0, 0.5).Draw(t, "pause"),
		crash:   rapid.Float64Range(0, 1).Draw(t, "crash"),

		witnessed: rapid.Bool().Draw(t, "witnessed"),
	}
}

func drawJobConfig(t *rapid.T) simConfig {
	cfg := simConfig{
		seed:    rapid.Uint64Range(0, 1<<32).Draw(t, "seed"),
		workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		clients: rapid.IntRange(1, 2).Draw(t, "clients"),
		shards:  rapid.IntRange(1, 3).Draw(t, "shards"),
		ttl:     time.Duration(rapid.IntRange(200, 1000).Draw(t, "ttl ms")) * time.Millisecond,
		length:  time.Duration(rapid.IntRange(500, 3000).Draw(t, "length ms")) * time.Millisecond,
		noise:   rapid.Float64Range(0, 0.6).Draw(t, "noise"),
		pause:   rapid.Float64Range(0, 0.4).Draw(t, "pause"),
		crash:   rapid.Float64Range(0, 1).Draw(t, "crash"),
		apart:   time.Duration(rapid.IntRange(0, 1000).Draw(t, "apart ms")) * time.Millisecond,
	}
	// A stand of one owner is no process's, and excuses nobody: an owner that lost its shard
	// meanwhile, and contends again for a ttl, must come in time, with a request of ttl/2.
	cfg.pauseMax = min(2*cfg.ttl, recoveryBound-cfg.ttl/2)
	return cfg
}

// TestNoFalseAlarm: no history of the correct protocols fails or stays unknown,
// whatever the network, the clients and the processes do. (It may be INVALID: a
// short run can miss what its expect note demands.)
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	for name, world := range map[string]func(*rapid.T) simConfig{"locks": drawConfig, "jobs": drawJobConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				r := Check(context.Background(), simulate(world(t)), Options{})
				if r.Verdict == Fail || r.Verdict == Unknown {
					t.Fatalf("%s: %s", r.Verdict, r.Summary)
				}
				for _, p := range r.Properties {
					for _, v := range p.Violations {
						if !tooLittle.MatchString(v.Message) {
							t.Fatalf("%s: %s", p.ID, v.Message)
						}
					}
				}
			})
		})
	}
}

// tooLittle is what P14 says of a run that was too short.
var tooLittle = regexp.MustCompile(`^(phase|in phase|no lock|no job|nothing of)`)

// TestMangledHistoriesAreJudged: events of any shape that the reader lets
// through give a verdict, never a panic, and the page is drawn.
func TestMangledHistoriesAreJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		world simConfig
		most  int // changes
		do    func(*rapid.T, *history.History, *history.Event)
	}{
		"locks": {simConfig{clients: 2, locks: 2, length: 2 * time.Second}, 30, mangle},
		"jobs":  {simConfig{clients: 1, shards: 2, length: time.Second}, 40, mangleJobs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := c.world
				cfg.seed, cfg.workers, cfg.ttl = rapid.Uint64Range(0, 1000).Draw(t, "seed"), 2, 300*time.Millisecond
				cfg.noise, cfg.pause, cfg.crash = 0.3, 0.2, 0.5
				h := simulate(cfg)
				for range rapid.IntRange(1, c.most).Draw(t, "changes") {
					c.do(t, h, &h.Events[rapid.IntRange(0, len(h.Events)-1).Draw(t, "event")])
				}
				dir, err := os.MkdirTemp("", "mangled")
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(dir)
				r := Check(context.Background(), newEdit(h).h, Options{Dir: dir, Search: time.Second})
				if r.Verdict == "" || r.Summary == "" || len(r.Properties) != len(property.All) {
					t.Fatalf("%+v", r)
				}
			})
		})
	}
}

func mangle(t *rapid.T, h *history.History, e *history.Event) {
	other := h.Events[rapid.IntRange(0, len(h.Events)-1).Draw(t, "other")]
	switch rapid.IntRange(0, 11).Draw(t, "change") {
	case 0:
		e.Row = nil
	case 1:
		e.Row = other.To
	case 2:
		e.Value = nil
	case 3:
		e.Token, e.Issuer = other.Token, other.Issuer
	case 4:
		e.Sends = nil
	case 5:
		e.Seq, e.Seen = other.Seq, other.Seen
	case 6:
		d := e.OwnDetails()
		d.Fault, d.Ledger, d.Expect = other.Fault(), other.Ledger(), other.Expect()
	case 7:
		if e.From != nil && other.From != nil {
			e.From = other.From
		}
	case 8:
		if e.To != nil && other.To != nil {
			e.To = other.To
		}
	case 9:
		if e.Type == history.OK || e.Type == history.Fail || e.Type == history.Unknown {
			e.Type = rapid.SampledFrom([]history.Type{history.OK, history.Fail, history.Unknown}).Draw(t, "type")
		}
	case 10:
		e.Result, e.EffectKey = other.Result, other.EffectKey
	case 11:
		e.DecidedAt, e.OwnDetails().Phase = other.DecidedAt, other.Phase()
	}
}

func mangleJobs(t *rapid.T, h *history.History, e *history.Event) {
	other := h.Events[rapid.IntRange(0, len(h.Events)-1).Draw(t, "other")]
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0:
		e.OwnDetails().Changes = other.Changes()
	case 1:
		e.Issuer = other.Issuer
	case 2:
		e.OwnDetails().JobRow = other.JobRow()
	case 3:
		if other.Job() != nil && e.Job() != nil {
			e.OwnDetails().Job = other.Job()
		}
	case 4:
		d := e.OwnDetails()
		d.Attempt, d.DueMS, d.WallMS = other.Attempt(), other.DueMS(), other.WallMS()
	case 5:
		e.OwnDetails().TTLMS, e.DecidedAt = other.TTLMS(), other.DecidedAt
	case 6:
		e.Token = other.Token
	case 7:
		for i := range e.Changes() {
			e.Changes()[i].Do = rapid.SampledFrom([]string{history.DoClaim, history.DoSweep, history.DoDLQ, history.DoRescue, "dance"}).Draw(t, "do")
		}
	case 8:
		e.OwnDetails().Phase, e.Error = other.Phase(), other.Error
	case 9:
		mangle(t, h, e)
	}
}
