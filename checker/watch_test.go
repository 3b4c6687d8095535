package checker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

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
