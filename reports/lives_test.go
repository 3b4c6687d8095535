package reports

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/reporttest"
)

// A process that died is shown with what it printed, from the first line that tells of an
// error, and with its log.
func TestDeadProcessIsShownWithItsStack(t *testing.T) {
	t.Parallel()
	dir, err := reporttest.Write(t.TempDir(), reporttest.Options{Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	if err != nil {
		t.Fatal(err)
	}
	code := 2
	note, err := json.Marshal(history.Event{TS: h.Events[len(h.Events)-1].TS, Proc: history.Harness, Type: history.Note, Op: history.NoteLife, Details: &history.Details{Life: &history.ProcessLife{
		Kind: history.LifeWorker, Name: "w2.1", PID: 41, Code: &code, Log: []string{"panic: index <41> out of range", "goroutine 7 [running]:"}, LogFile: "w2.1.log",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, rundir.HistoryDir, "harness.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append(note, '\n')); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if h, err = history.ReadDir(filepath.Join(dir, rundir.HistoryDir)); err != nil {
		t.Fatal(err)
	}
	res := checker.Check(t.Context(), h, checker.Options{Dir: dir})
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.VerdictFile), res); err != nil {
		t.Fatal(err)
	}
	page, err := WriteRun(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	d := readPage(t, page)
	d.selfContained()
	shown := text(d.byID("violation-P18-1"))
	for _, want := range []string{"ended by itself (exit status 2): nobody had asked it to", "w2.1: exit status 2", "What it printed (w2.1.log)", "panic: index <41> out of range goroutine 7 [running]:"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in: %s", want, shown)
		}
	}
	if cause := text(d.byID("cause")); !strings.Contains(cause, "A process panics while it works") {
		t.Errorf("the cause is %s", cause)
	}
}
