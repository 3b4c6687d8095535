package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

// ended checks the notes of how a life ended: what is wrong with it, and the crash note.
func (r *rig) ended(t *testing.T, life, wrong, crash string) {
	t.Helper()
	f, err := os.Open(filepath.Join(r.dir, "harness.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := history.Read(f, f.Name())
	if err != nil {
		t.Fatal(err)
	}
	var end *history.ProcessLife
	died := ""
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.Op == history.NoteLife && e.Life().Name == life:
			end = e.Life()
		case e.Op == history.NoteCrash && e.Proc == life:
			died = e.Error
		}
	}
	if end == nil {
		t.Fatalf("nobody noted how %s ended: %+v", life, h.Events)
	}
	if got := end.Unplanned(); got != wrong || !strings.Contains(died, crash) || (died == "") != (crash == "") {
		t.Errorf("%s %q, want %q; its crash note is %q, want %q", life, got, wrong, died, crash)
	}
	if wrong != "" && len(end.Log) == 0 && end.Kind == history.LifeWorker {
		t.Errorf("%s has no last words: %+v", life, end)
	}
	if end.File != life+".jsonl" || end.SHA256 == "" || end.LogFile != life+".log" {
		t.Errorf("%+v", end)
	}
}

// A worker that dies before the harness kills it is not killed by it, and stopping one that
// has died is no error: its life tells.
func TestDeadBeforeItIsAskedTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, "")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, end := range []func(*Worker) error{
		func(w *Worker) error { return w.Kill(osproc.As(t.Context(), "f1")) },
		func(w *Worker) error { return w.Stop(t.Context()) },
	} {
		w := r.Workers()[i]
		if err := syscall.Kill(w.PID(), syscall.SIGABRT); err != nil { // its stack, and exit status 2
			t.Fatal(err)
		}
		got := <-r.unexpected // only then is it certain to be dead
		for _, want := range []string{w.Life() + ": ended by itself (exit status 2)", "SIGABRT: abort", "goroutine "} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
		if err := end(w); (err != nil) != (i == 0) {
			t.Errorf("%d: %v", i, err)
		}
		r.ended(t, w.Life(), "ended by itself (exit status 2): nobody had asked it to", "exit status 2")
	}
}

// A client that waits in vain at its point goes on, and says so.
func TestLateGo(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "impatient")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	hits := r.arm(t)
	for hit := <-hits; !hit.Late(); {
		time.Sleep(time.Millisecond)
	}
}

// A worker that cannot record says why before it ends.
func TestUnrecordedIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, "cannot record")
	r.cfg.Unexpected = nil
	if err := r.Start(t.Context()); err == nil {
		t.Fatal("it started")
	}
	if got := <-r.unexpected; !strings.Contains(got, "it cannot record what it does: no space left on device") {
		t.Error(got)
	}
}
