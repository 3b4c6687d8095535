package checker

import (
	"strings"
	"testing"

	"fencepost/harness/record/history"
)

// withLives adds the notes by which the harness tells how the lives of a history ended:
// killed by a fault, or in order after SIGTERM.
func withLives(h *history.History) *edit {
	e := newEdit(h)
	var lives []history.Event
	for _, n := range append(e.notes(history.NoteCrash), e.notes(history.NoteExit)...) {
		if n.Proc == history.Harness {
			continue
		}
		l := &history.ProcessLife{Kind: history.LifeWorker, Name: n.Proc, PID: 40, Asked: "SIGTERM", By: history.Runner, Code: new(int), TookMS: 900, BoundMS: 25_000}
		if n.Op == history.NoteCrash {
			l.Asked, l.By, l.Code, l.Signal = "SIGKILL", "f1", nil, "SIGKILL"
		}
		lives = append(lives, history.Event{TS: n.TS + 1, Proc: history.Harness, Type: history.Note, Op: history.NoteLife, Details: &history.Details{Life: l}})
	}
	end := h.Events[len(h.Events)-1].TS
	for _, l := range []history.ProcessLife{
		{Kind: history.LifeSink, Name: "sink", Asked: "SIGTERM", By: history.Runner, Code: new(int)},
		{Kind: history.LifeNode, Name: "n1", Running: true},
	} {
		lives = append(lives, history.Event{TS: end, Proc: history.Harness, Type: history.Note, Op: history.NoteLife, Details: &history.Details{Life: &l}})
	}
	e.insert(lives...)
	return e
}

// life is the note of a life that did not crash, of the kind.
func (e *edit) life(kind string) *history.ProcessLife {
	for _, n := range e.notes(history.NoteLife) {
		if n.Life().Kind == kind && n.Life().Signal == "" {
			return n.Life()
		}
	}
	return nil
}

func exit(code int) *int { return &code }

// lifeCases are the ends of one life of a history that is legal otherwise: those that are
// not as planned, and those that only just are.
var lifeCases = map[string]struct {
	kind   string
	change func(l *history.ProcessLife)
	want   string // in the message; "" for a legal history
	named  string // the mechanism
}{
	"as planned":         {history.LifeWorker, func(*history.ProcessLife) {}, "", ""},
	"at the last moment": {history.LifeWorker, func(l *history.ProcessLife) { l.TookMS = l.BoundMS }, "", ""},
	"never ready": {history.LifeWorker, func(l *history.ProcessLife) {
		l.Asked, l.Overdue, l.Code, l.Signal = "SIGKILL", "was not ready within 45s", nil, "SIGKILL"
	}, "was not ready within 45s, and was killed for it", "process-never-ready"},
	"panics": {history.LifeWorker, func(l *history.ProcessLife) {
		l.Asked, l.By, l.Code, l.Log = "", "", exit(2), []string{"INFO at work", "panic: index out of range", "goroutine 9 [running]:"}
	}, "(worker, pid 40) ended by itself (exit status 2): nobody had asked it to; its log: panic: index out of range", "process-panics"},
	"panics at its end": {history.LifeWorker, func(l *history.ProcessLife) {
		l.Code, l.Log = exit(2), []string{"panic: close of closed channel", "", "goroutine 1 [running]:", "main.main()", "\tfencepost/cmd/worker/main.go:20 +0x1d"}
	}, "did so with exit status 2, not with exit status 0", "process-panics-ending"},
	"exits": {history.LifeWorker, func(l *history.ProcessLife) { l.Asked, l.By = "", "" }, "ended by itself (exit status 0)", "process-exits"},
	"hangs": {history.LifeWorker, func(l *history.ProcessLife) {
		l.Overdue, l.Code, l.Signal = "did not end within 25s of SIGTERM", nil, "SIGKILL"
	}, "did not end within 25s of SIGTERM, and was killed for it", "process-never-ends"},
	"late": {history.LifeWorker, func(l *history.ProcessLife) { l.TookMS = l.BoundMS + 1 }, "ended 25.001s after SIGTERM", "process-never-ends"},
	"dies just before it is killed": {history.LifeWorker, func(l *history.ProcessLife) {
		l.Asked, l.By, l.Code = "SIGKILL", "f2", exit(2)
	}, "was to be killed by f2 and ended otherwise (exit status 2)", "process-exits"},
	"a program that ends by SIGTERM": {history.LifeWorker, func(l *history.ProcessLife) {
		l.Kind, l.Code, l.Signal = history.LifeProgram, nil, "SIGTERM"
	}, "", ""},
	"a worker that ends by SIGTERM": {history.LifeWorker, func(l *history.ProcessLife) { l.Code, l.Signal = nil, "SIGTERM" }, "did so with SIGTERM", "process-killed-elsewhere"},
	"the sink dies":                 {history.LifeSink, func(l *history.ProcessLife) { l.Asked, l.By, l.Code = "", "", exit(2) }, "sink (sink) ended by itself", "process-exits"},
	"a node dies":                   {history.LifeNode, func(l *history.ProcessLife) { l.Running, l.Code = false, exit(3) }, "n1 (node) ended by itself (exit status 3)", "process-exits"},
	"a node is restarted":           {history.LifeNode, func(l *history.ProcessLife) { l.Running, l.Asked, l.By, l.Code = false, "SIGTERM", "f1", exit(143) }, "", ""},
	"the seal fails":                {history.LifeSink, func(l *history.ProcessLife) { l.Kind, l.Name, l.Asked, l.Code = history.LifeTask, "seal", "", exit(1) }, "seal (task) ended with exit status 1", "process-exits"},
}

// Each end of a life that is not as planned is a violation, and is explained.
func TestLivesThatEndOtherwise(t *testing.T) {
	t.Parallel()
	for name, c := range lifeCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := withLives(simulate(small(3)))
			l := e.life(c.kind)
			if l == nil {
				t.Fatalf("no %s", c.kind)
			}
			c.change(l)
			r := Check(t.Context(), e.h, Options{})
			p := propertyOf(r, "P18")
			if c.want == "" {
				if r.Verdict != Pass || p.Status != StatusPass || p.Checked < 4 {
					t.Errorf("%s: %s; %+v", r.Verdict, r.Summary, p)
				}
				return
			}
			if r.Verdict != Fail || p.Count != 1 || !strings.Contains(p.Violations[0].Message, c.want) {
				t.Errorf("%s: %s; %+v, want %q", r.Verdict, r.Summary, p, c.want)
			}
			for _, q := range r.Properties {
				if q.ID != "P18" && q.Status == StatusFail {
					t.Errorf("%s fails too: %s", q.ID, q.Violations[0].Message)
				}
			}
			x := Explain(e.h, r, Options{})
			if best := x.Best(); len(best) != 1 || best[0] != c.named {
				t.Errorf("explained by %v, want %s", best, c.named)
			}
			checkChains(t, e.h, x)
			if so := SoFar(t.Context(), e.h, Options{}); len(so) != 1 || so[0].ID != "P18" {
				t.Errorf("while it ran: %+v", so)
			}
		})
	}
}

// A history without life notes is judged by its crash notes: who panicked is told from who
// was killed by a fault.
func TestLivesByCrashNotes(t *testing.T) {
	t.Parallel()
	for crash, want := range map[string]string{
		"":                              "",
		"SIGKILL":                       "",
		"SIGKILL by f3":                 "",
		"SIGKILL by the fault f3":       "",
		"exit status 2: panic: nil map": "ended by itself: exit status 2: panic: nil map",
		"signal: segmentation fault":    "ended by itself: signal",
		"SIGKILL by runner: did not stop in time": "had to be killed: SIGKILL by runner",
	} {
		judged := 0
		for seed := range uint64(6) {
			e := newEdit(simulate(small(seed)))
			for _, n := range e.notes(history.NoteExit) {
				if n.Proc == history.Harness {
					continue
				}
				n.Op, n.Error = history.NoteCrash, crash
				judged++
				break
			}
			r := Check(t.Context(), e.h, Options{})
			p := propertyOf(r, "P18")
			if want == "" && r.Verdict != Pass || want != "" && (r.Verdict != Fail || p.Count != 1 || !strings.Contains(p.Violations[0].Message, want)) {
				t.Errorf("seed %d, %q: %s: %s; %+v", seed, crash, r.Verdict, r.Summary, p)
			}
		}
		if judged < 6 {
			t.Errorf("%q: only %d of 6 histories have a life that ends in order", crash, judged)
		}
	}
}

// P18 always counts, whatever a system promises; what nobody can tell is not passed.
func TestLivesAlwaysCount(t *testing.T) {
	t.Parallel()
	e := withLives(simulate(small(3)))
	for i := range e.h.Headers {
		e.h.Headers[i].Promises = []string{"P1"}
	}
	e.life(history.LifeWorker).Overdue = "was not ready within 45s"
	if r := Check(t.Context(), e.h, Options{}); r.Verdict != Fail {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
	if p := propertyOf(Check(t.Context(), &history.History{Headers: e.h.Headers}, Options{}), "P18"); p.Status != StatusNA {
		t.Errorf("of an empty history: %+v", p)
	}
	// Only the harness can tell.
	for _, n := range e.notes(history.NoteLife) {
		n.Proc = "w1.1"
	}
	if p := propertyOf(Check(t.Context(), e.h, Options{}), "P18"); p.Status != StatusPass || !strings.Contains(p.Detail, "by crash and exit notes") {
		t.Errorf("by a worker's word: %+v", p)
	}
}

// A life whose end was not noted, though others' were, makes the run INVALID.
func TestUnnotedLife(t *testing.T) {
	t.Parallel()
	e := withLives(simulate(small(3)))
	name := e.life(history.LifeWorker).Name
	e.life(history.LifeWorker).Name = "w9.1"
	r := Check(t.Context(), e.h, Options{})
	if r.Verdict != Invalid || !strings.Contains(r.Summary, "how "+name+" ended was not noted") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}
