package progress

import (
	"fmt"
	"io"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/internal/terminal"
)

// plainEvery is how far apart in seconds the lines of rates are where no line can
// be redrawn.
const plainEvery = 5

// Text shows events to people: on a terminal the rates are one line that is redrawn
// below everything else, elsewhere a plain line every 5 s.
//
// Of a verdict it shows nothing: the command prints it from verdict.json, which has
// the tables and the events.
type Text struct {
	out   io.Writer
	style terminal.Style
	drawn bool
	rates float64 // T of the rates that were last printed plainly
}

// NewText shows on out.
func NewText(out io.Writer, s terminal.Style) *Text { return &Text{out: out, style: s} }

// Style is how it prints.
func (t *Text) Style() terminal.Style { return t.style }

// Write prints a text below everything that was shown.
func (t *Text) Write(p []byte) (int, error) {
	t.clear()
	return t.out.Write(p)
}

// Show shows an event.
func (t *Text) Show(e Event) {
	switch e.Kind {
	case KindStep:
		t.line(e, e.Text)
	case KindPhase:
		t.line(e, fmt.Sprintf("%-8s", e.Phase))
	case KindProblem:
		t.line(e, t.style.Yellow("!  "+e.Text))
	case KindFault:
		t.line(e, "   "+faultText(e.Fault, t.style))
	case KindViolation:
		v := e.Violation
		t.line(e, t.style.Red(fmt.Sprintf("VIOLATION so far  %s: %s", v.Property, v.Text)))
		if v.File != "" {
			t.line(e, fmt.Sprintf("   %s:%d", v.File, v.Line))
		}
	case KindRates:
		t.showRates(e)
	case KindWindow:
		if t.style.Live {
			t.redraw(fmt.Sprintf("%6.1fs  %s", e.T, e.Window.Text))
		}
	case KindChecking:
		fmt.Fprintln(t, "checking …")
	case KindResult:
		fmt.Fprintln(t, resultText(e.Result, t.style))
	case KindRun:
		fmt.Fprint(t, runText(e.Run))
	case KindVerdict, KindEnd, KindError: // the command says them
	}
}

// line prints an event above the live line.
func (t *Text) line(e Event, text string) {
	if e.Seq == 0 { // of the command: there is no clock
		fmt.Fprintln(t, text)
		return
	}
	fmt.Fprintf(t, "%6.1fs  %s\n", e.T, text)
}

func (t *Text) showRates(e Event) {
	r := e.Rates
	text := fmt.Sprintf(
		"%6.1fs  %-8s %5d cycles  %4.0f/s  %d leases lost  %d refused  %d unknown",
		e.T, r.Phase, r.Cycles, r.PerSecond, r.LeasesLost, r.Refused, r.Unknown)
	if len(r.Active) > 0 {
		text += "  [" + strings.Join(r.Active, "; ") + "]"
	}
	if r.Detail != "" {
		text += "  " + r.Detail
	}
	if t.style.Live {
		t.redraw(text)
		return
	}
	if e.T-t.rates >= plainEvery {
		t.rates = e.T
		fmt.Fprintln(t.out, text)
	}
}

// redraw shows the live line.
func (t *Text) redraw(text string) {
	fmt.Fprint(t, t.style.Fit(text))
	t.drawn = true
}

// clear wipes the live line.
func (t *Text) clear() {
	if t.drawn {
		fmt.Fprint(t.out, "\r\x1b[2K")
		t.drawn = false
	}
}

// FaultLabel is a fault's name with what it is aimed at.
func FaultLabel(f *history.Fault) string { return f.Name + " " + strings.Join(f.Targets, ",") }

func faultText(f *history.Fault, s terminal.Style) string {
	switch f.Action {
	case history.ActionInject:
		return fmt.Sprintf("%s inject  %s (%s)", f.ID, FaultLabel(f), f.Trigger)
	case history.ActionHeal:
		return fmt.Sprintf("%s heal    %s", f.ID, FaultLabel(f))
	}
	word := s.Green("PROVEN")
	if !f.Proven {
		word = s.Red("NOT PROVEN")
	}
	return fmt.Sprintf("%s %s: %s", f.ID, word, f.Text)
}

func resultText(r *Result, s terminal.Style) string {
	at := fmt.Sprintf("[%d]", r.N)
	if r.Total > 0 {
		at = fmt.Sprintf("[%d/%d]", r.N, r.Total)
	}
	text := fmt.Sprintf("%s %s  %s  %s", at, r.Name, s.Verdict(r.Verdict, r.Verdict), duration(r.Took).Round(time.Second))
	if len(r.Fired) > 0 {
		text += "  by " + strings.Join(r.Fired, ", ")
	}
	if r.Error != "" {
		first, _, _ := strings.Cut(r.Error, "\n")
		text += "  " + first
	}
	if r.Left > 0 {
		text += "  (about " + duration(r.Left).Round(time.Minute).String() + " left)"
	}
	switch {
	case r.Dir != "" && r.File != "":
		text += fmt.Sprintf("\n  %s is kept; stored as %s", r.Dir, r.File)
	case r.Dir != "":
		text += "\n  " + r.Dir
	case r.Verdict != "PASS" && r.File != "":
		text += fmt.Sprintf("\n  no run directory; stored as %s", r.File)
	}
	return text
}

// WorkloadText names a set of workload parameters behind a run's other settings; "" for the
// parameters in the scenario's file.
func WorkloadText(set string) string {
	if set == "" || set == "plain" {
		return ""
	}
	return ", workload " + set
}

func runText(r *Run) string {
	if r.Bench != "" {
		return r.About + "\n"
	}
	setting := "contention " + r.Contention
	setting += WorkloadText(r.Workload)
	if r.Contention == "" {
		setting = "Paxos " + r.Paxos
	}
	if r.Sink != "" {
		setting = "sink " + r.Sink + ", " + setting
	}
	return fmt.Sprintf("scenario %s, seed %d, system %s, %s\n  %s\n", r.Scenario, r.Seed, r.System, setting, r.About)
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
