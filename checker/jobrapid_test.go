package checker

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

func drawJobConfig(t *rapid.T) simConfig {
	return simConfig{
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
}

// TestNoFalseAlarmWithJobs: no history of the correct engine fails or stays unknown.
// (It may be INVALID: a short run can miss what its expect note demands.)
func TestNoFalseAlarmWithJobs(t *testing.T) {
	t.Parallel()
	noFalseAlarm(t, drawJobConfig)
}

// TestMangledJobHistoriesAreJudged: events of any shape that the reader lets through
// give a verdict, never a panic.
func TestMangledJobHistoriesAreJudged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := simulate(simConfig{
			seed: rapid.Uint64Range(0, 1000).Draw(t, "seed"), workers: 2, clients: 1, shards: 2,
			ttl: 300 * time.Millisecond, length: time.Second, noise: 0.3, pause: 0.2, crash: 0.5,
		})
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			mangleJobs(t, h, &h.Events[rapid.IntRange(0, len(h.Events)-1).Draw(t, "event")])
		}
		r := Check(context.Background(), newEdit(h).h, Options{Search: time.Second})
		if r.Verdict == "" || r.Summary == "" || len(r.Properties) != len(property.All) {
			t.Fatalf("%+v", r)
		}
	})
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

// TestLostLinesOfJobsAreNoticed is TestLostLinesAreNoticed for jobs: an enqueue's end
// is a main line's, and what a row note said is missed by the replay.
func TestLostLinesOfJobsAreNoticed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := smallJobs(rapid.Uint64Range(0, 60).Draw(t, "seed"))
		cfg.length = 2 * time.Second
		base := newEdit(simulate(cfg))
		files := toLines(base.h)
		// Not of a life that did nothing: what it loses nobody misses.
		busy := slices.DeleteFunc(slices.Clone(files), func(f *linesFile) bool { return len(f.lines) < 3 })
		f := rapid.SampledFrom(busy).Draw(t, "file")
		at := rapid.IntRange(1, len(f.lines)-1).Draw(t, "line")
		gone := f.lines[at]
		f.lines = slices.Delete(slices.Clone(f.lines), at, at+1)
		r, err := judgeLines(t, files)
		if err != nil {
			return // refused with file and line
		}
		var e history.Event
		if err := json.Unmarshal(gone, &e); err != nil {
			t.Fatal(err)
		}
		killed := slices.ContainsFunc(base.notes(history.NoteCrash), func(n *history.Event) bool { return n.Proc == history.Life(e.Proc) })
		must := mustBeNoticed(e, killed) || e.Op == history.NoteRow || e.Op == history.OpEnqueue && e.Type != history.Invoke && !killed
		if r.Verdict != Fail && r.Verdict != Invalid && must {
			t.Fatalf("line %d of %s was lost (%s), and the verdict is %s", at+1, f.name, gone, r.Verdict)
		}
	})
}
