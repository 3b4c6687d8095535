package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"fencepost/harness/record/history"
	"fencepost/harness/record/progress"
)

// Live is what a run's progress.jsonl has said so far.
type Live struct {
	Alive bool // its writer is there: more follows
	Over  bool // it has told its end
	// Error is why the run could not be carried out, checked or reported.
	Error string
	// Last is the number of the last event, T its time in seconds of the run.
	Last int64
	T    float64

	Run        progress.Run
	Phases     []progress.Event
	Rates      progress.Rates   // the last
	Seen       []progress.Event // of rates
	Faults     []LiveFault
	Problems   []LiveText
	Violations []progress.Violation
	Checking   bool
	Verdict    *progress.Verdict
	Log        []LiveText // what a person would want to read, in order
}

// LiveFault is one injection; To is 0 while it is in force.
type LiveFault struct {
	history.Fault
	From, To float64
	Judged   bool // whether it took effect is known
}

// LiveText is a line of the log.
type LiveText struct {
	T           float64
	Class, Text string
}

// readLive reads a whole progress.jsonl. A last line that is not whole yet is not there.
func readLive(path string) (*Live, error) {
	// In this order: what a writer wrote before it ended is read after that.
	alive := held(path)
	events, err := progress.Read(path, 0)
	l := &Live{Alive: alive}
	for _, e := range events {
		l.add(e)
	}
	return l, err
}

// held says that the process that writes the file is there. A file that cannot be
// asked is nobody's.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	written, err := progress.Written(f)
	return err == nil && !written
}

func (l *Live) add(e progress.Event) {
	l.Last, l.T = e.Seq, e.T
	l.Over = e.Last()
	switch e.Kind {
	case progress.KindRun:
		if e.Run != nil {
			l.Run = *e.Run
		}
	case progress.KindPhase:
		l.Phases = append(l.Phases, e)
	case progress.KindRates:
		if e.Rates != nil {
			l.Rates = *e.Rates
			l.Seen = append(l.Seen, e)
		}
	case progress.KindFault:
		if e.Fault != nil {
			l.fault(e.T, *e.Fault)
		}
	case progress.KindProblem:
		l.Problems = append(l.Problems, LiveText{e.T, "problem", e.Text})
	case progress.KindViolation:
		if e.Violation != nil {
			l.Violations = append(l.Violations, *e.Violation)
		}
	case progress.KindChecking:
		l.Checking = true
	case progress.KindVerdict:
		l.Verdict = e.Verdict
	case progress.KindError:
		l.Error = e.Text
	}
	if class, text := lineOf(e); text != "" {
		l.Log = append(l.Log, LiveText{e.T, class, text})
	}
}

func (l *Live) fault(t float64, f history.Fault) {
	i := slices.IndexFunc(l.Faults, func(have LiveFault) bool { return have.ID == f.ID })
	switch {
	case f.Action == history.ActionInject:
		l.Faults = append(l.Faults, LiveFault{Fault: f, From: t})
	case i < 0: // evidence of what was not injected: the history judges
	case f.Action == history.ActionHeal:
		l.Faults[i].To = t
	default:
		// A fault is proven if none of its proofs failed.
		l.Faults[i].Proven = f.Proven && (!l.Faults[i].Judged || l.Faults[i].Proven)
		l.Faults[i].Judged = true
		l.Faults[i].Text = strings.TrimPrefix(l.Faults[i].Text+"; "+f.Text, "; ")
	}
}

// Phase is the one that the run is in, or what it does after the last.
func (l *Live) Phase() string {
	switch {
	case l.Over:
		return "over"
	case l.Checking:
		return "checking"
	case len(l.Phases) == 0:
		return "setting up"
	}
	return l.Phases[len(l.Phases)-1].Phase
}

// Proven is how many of the faults are proven.
func (l *Live) Proven() (n int) {
	for _, f := range l.Faults {
		if f.Proven {
			n++
		}
	}
	return n
}

// lineOf is the event as a line of the log, with its class; "" for what has another
// place on the page. live.js writes the same lines.
func lineOf(e progress.Event) (class, text string) {
	switch e.Kind {
	case progress.KindStep:
		return "step", e.Text
	case progress.KindPhase:
		return "phase", e.Phase
	case progress.KindProblem:
		return "problem", e.Text
	case progress.KindChecking:
		return "phase", "checking the history"
	case progress.KindError:
		return "error", e.Text
	case progress.KindViolation:
		if v := e.Violation; v != nil {
			return "violation", fmt.Sprintf("%s: %s", v.Property, v.Text)
		}
	case progress.KindFault:
		if f := e.Fault; f != nil {
			return faultLine(*f)
		}
	case progress.KindVerdict:
		if v := e.Verdict; v != nil {
			return "phase", v.Verdict + "  " + v.Summary
		}
	}
	return "", ""
}

func faultLine(f history.Fault) (class, text string) {
	label := strings.TrimSpace(f.Name + " " + strings.Join(f.Targets, ", "))
	switch f.Action {
	case history.ActionInject:
		text = fmt.Sprintf("%s injected: %s", f.ID, label)
		if f.Trigger != "" {
			text += " (" + f.Trigger + ")"
		}
		return "inject", text
	case history.ActionHeal:
		return "heal", fmt.Sprintf("%s healed: %s", f.ID, label)
	}
	if f.Proven {
		return "proven", fmt.Sprintf("%s proven: %s", f.ID, f.Text)
	}
	return "problem", fmt.Sprintf("%s not proven: %s", f.ID, f.Text)
}

// missing says that a file is not there, which is no error of most files.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
