package checker

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/internal/race"
)

// until is what a look at a history saw at an instant of it: part 0 to 1.
func until(h *history.History, part float64) *history.History {
	first, last := h.Events[0].TS, h.Events[len(h.Events)-1].TS
	cut := first + int64(part*float64(last-first))
	out := &history.History{Headers: h.Headers}
	for _, e := range h.Events {
		if e.TS <= cut {
			out.Events = append(out.Events, e)
		}
	}
	return out
}

// seenBefore looks at a history at five instants and returns what was found, by
// property.
func seenBefore(h *history.History) map[string]string {
	out := map[string]string{}
	for i := range 5 {
		for _, p := range SoFar(context.Background(), until(h, float64(i+1)/5.2), Options{}) {
			out[p.ID] = p.Violations[0].Message
		}
	}
	return out
}

// TestWhatIsSeenBeforeTheEndIsTheVerdictsToo: with a rule switched off, what is found
// in the history so far is found in the whole of it; and some of it is found so.
func TestWhatIsSeenBeforeTheEndIsTheVerdictsToo(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, tc := range []struct {
		bug  bug
		seen string // "": nothing need be
	}{
		{"", ""},
		{bugFenceKept, "P1"}, {bugNoToken, "P3"}, {bugForget, "P3"}, {bugNoRaise, "P4"},
		{bugBlindRelease, "P9"}, {bugRenewAttempt, "P9"},
		// Applied twice by a resend: the operation has one answer, the ledger tells.
		{bugNoDedupe, ""},
		{bugUnknownFail, ""}, {bugRevive, ""}, {bugAnchorReply, ""}, {bugNoWait, ""}, {bugRefuseEqual, ""},
	} {
		t.Run(string(tc.bug), func(t *testing.T) {
			t.Parallel()
			seen := false
			for seed := uint64(0); seed < 40 && !(seed >= 3 && (seen || tc.seen == "")); seed++ {
				cfg := small(seed)
				cfg.bug = tc.bug
				h := simulate(cfg)
				live := seenBefore(h)
				if len(live) == 0 {
					continue
				}
				ids := failing(Check(context.Background(), h, Options{}))
				for id, message := range live {
					seen = seen || id == tc.seen
					if !slices.Contains(ids, id) {
						t.Errorf("seed %d: %s was seen before the end, and the verdict has %v: %s", seed, id, ids, message)
					}
				}
			}
			if tc.seen != "" && !seen {
				t.Errorf("%s was never seen before the end", tc.seen)
			}
		})
	}
}

// TestNothingIsSeenInTheMidstOfLegalRuns: no prefix of a legal history looks wrong,
// of locks or of jobs.
func TestNothingIsSeenInTheMidstOfLegalRuns(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for seed := range uint64(3) {
		for _, cfg := range []simConfig{small(seed), smallJobs(seed)} {
			h := simulate(cfg)
			for id, message := range seenBefore(h) {
				t.Errorf("seed %d: %s: %s", seed, id, message)
			}
		}
	}
}

// TestWhatIsSeenBeforeTheEndIsNeverAPass is the same for a history with one planted
// defect: some are lies of the record, which the end may lay at another door.
func TestWhatIsSeenBeforeTheEndIsNeverAPass(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, m := range mutations() {
		e := newEdit(simulate(small(7)))
		e.draw = rand.New(rand.NewPCG(7, 2)).IntN
		if !m.do(e) {
			continue
		}
		seen := seenBefore(e.h)
		if len(seen) > 0 && Check(context.Background(), e.h, Options{}).Verdict == Pass {
			t.Errorf("%s: seen before the end of a PASS: %v", m.name, seen)
		}
	}
}

// recorded makes the simulated instants ones that are over on this machine's clock.
func recorded(h *history.History) *history.History {
	first := h.Events[0].TS
	for i := range h.Events {
		h.Events[i].TS -= first - 1
	}
	return h
}

// TestWatchTellsOfAViolationBeforeTheEnd: a run that is half over, whose sink does not
// look at tokens.
func TestWatchTellsOfAViolationBeforeTheEnd(t *testing.T) {
	t.Parallel()
	cfg := small(0)
	cfg.bug = bugNoToken
	whole := simulate(cfg)
	for len(SoFar(context.Background(), until(whole, 0.6), Options{})) == 0 {
		cfg.seed++
		whole = simulate(cfg)
	}
	dir := writeRun(t, recorded(until(whole, 0.6)))
	ctx, cancel := context.WithCancel(t.Context())
	var got []Finding
	took, err := childOptions().watch(ctx, os.Args[0], dir, func(f Finding) {
		got = append(got, f)
		cancel()
	})
	if err != nil || len(got) == 0 || took <= 0 {
		t.Fatalf("found %+v in %s, error %v", got, took, err)
	}
	f := got[0]
	if f.Property != "P3" || !strings.HasPrefix(f.Violation.Message, "the sink ") {
		t.Errorf("found %+v", f)
	}
	e := f.Violation.Events[len(f.Violation.Events)-1]
	if !strings.HasPrefix(e.File, rundir.HistoryDir+"/") || e.Line < 2 {
		t.Errorf("its place is %s:%d", e.File, e.Line)
	}
}

// TestWatcherTellsEachOnce: what was told is not told again when the history grows.
func TestWatcherTellsEachOnce(t *testing.T) {
	t.Parallel()
	cfg := small(0)
	cfg.bug = bugNoToken
	dir := writeRun(t, recorded(simulate(cfg)))
	w := newWatcher(dir, Options{})
	first, err := w.poll()
	if err != nil || len(first) == 0 {
		t.Fatalf("found %v, error %v", first, err)
	}
	w.events = 0 // as if there were more
	if again, err := w.poll(); err != nil || len(again) != 0 {
		t.Errorf("told again: %v, %v", again, err)
	}
}

// TestWatchSaysWhyItCannotGoOn: a malformed history is no finding and no silence.
func TestWatchSaysWhyItCannotGoOn(t *testing.T) {
	t.Parallel()
	dir := writeRun(t, recorded(simulate(small(1))))
	bad := filepath.Join(dir, rundir.HistoryDir, "z.jsonl")
	if err := os.WriteFile(bad, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := childOptions().watch(t.Context(), os.Args[0], dir, func(f Finding) { t.Errorf("found %+v", f) })
	if err == nil || !strings.Contains(err.Error(), "z.jsonl:1") {
		t.Errorf("error %v", err)
	}
}
