package bench

import (
	"fmt"

	"fencepost/reports/stat"
)

// controlMargin is how far from 1 the whole interval of a control's ratio may
// lie before the machine is too unsteady to compare anything.
const controlMargin = 0.15

// judge adds what speaks against the numbers. It never changes one.
func (r *Result) judge() error {
	numbers, err := r.Numbers()
	if err != nil {
		return err
	}
	for i, n := range numbers {
		a := r.Plan.Arms[i]
		if n.OK == 0 {
			r.Problem("%s: not one operation ended ok within %d windows of %s (%d failed, %d unknown)%s", a.ID, n.Rate.N, r.Plan.Window, n.Fail, n.Unknown, because(r.firstError(a)))
		} else if n.Rate.Min == 0 {
			r.Note("%s: in at least one round no operation ended within the window%s", a.ID, because(r.firstError(a)))
		}
		if n.Rate.N < MinRounds {
			r.Problem("%s: %d complete rounds, %d are needed", a.ID, n.Rate.N, MinRounds)
		}
		if starved := r.starved(a); starved > 0 {
			r.Note("%s: in %d of %d windows a thread got nothing through from beginning to end; such waits are in no percentile", a.ID, starved, n.Rate.N)
		}
		if a.Control == "" {
			continue
		}
		e := n.ToCopied.Estimate
		text := fmt.Sprintf("A/A control with %d threads: %.2f of the arm that it copies, 95 %% CI [%.2f, %.2f], range %.2f to %.2f", a.Threads, e.Median, e.Low, e.High, e.Min, e.Max)
		if e.Excludes(controlMargin) {
			r.Problem("%s: two equal things differ by more than %.0f %%, so the machine was too unsteady to compare different ones", text, 100*controlMargin)
		} else {
			r.Note("%s: %s", text, resolves(e))
		}
	}
	r.judgeWeather()
	if r.Targets != nil {
		r.Met, err = r.Targets(r)
	}
	return err
}

// starved counts the windows in which a thread ended no operation at all.
func (r *Result) starved(a Arm) (n int) {
	for _, s := range r.samples(a.ID) {
		if s.Oldest >= r.Plan.Window*99/100 {
			n++
		}
	}
	return n
}

// resolves says what a control's interval means for other comparisons.
func resolves(e stat.Estimate) string {
	if e.Low <= 0 || e.High <= 0 {
		return "nothing can be told at this number of threads"
	}
	factor := max(e.High, 1/e.Low)
	text := fmt.Sprintf("differences between arms of less than %.0f %% are noise", 100*(factor-1))
	if factor > 1+2*controlMargin {
		text += "; repeat it on a quieter machine or with more rounds"
	}
	return text
}

// otherCores is how many cores others may keep busy before a reader is told to
// close them.
const otherCores = 0.2

// judgeWeather says what others did on the machine meanwhile.
func (r *Result) judgeWeather() {
	var other, stolen []float64
	for _, s := range r.Samples {
		if s.Load.Known {
			other, stolen = append(other, s.Load.Other), append(stolen, s.Load.Stolen)
		}
	}
	if len(other) == 0 {
		return
	}
	o, t := stat.SpreadOf(other), stat.SpreadOf(stolen)
	text := fmt.Sprintf("cores kept busy by other programs: median %.2f, most %.2f; taken by the machine below: median %.2f, most %.2f", o.Median, o.Max, t.Median, t.Max)
	if o.Median > otherCores || t.Median > otherCores {
		text += ": for steadier numbers run it alone"
	}
	r.Note("%s", text)
}

// firstError is one of those that the arm met.
func (r *Result) firstError(a Arm) string {
	for _, s := range r.samples(a.ID) {
		if s.Error != "" {
			return s.Error
		}
	}
	return ""
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return "; one error: " + err
}

// Exit codes of a benchmark.
const (
	ExitOK        = 0
	ExitViolation = 1 // what is measured broke a promise
	ExitInvalid   = 3 // the numbers are not to be quoted
)

// ExitCode is the process's exit code for the result.
func (r *Result) ExitCode() int {
	switch {
	case len(r.Violations) > 0:
		return ExitViolation
	case len(r.Problems) > 0:
		return ExitInvalid
	}
	return ExitOK
}
