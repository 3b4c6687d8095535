package bench

import (
	"fmt"
	"io"

	"fencepost/harness/record/progress"
	"fencepost/reports"
)

// Print writes the summary for a terminal; report is the result's.
func Print(out io.Writer, r *Result, report reports.BenchResult) error {
	fmt.Fprintf(out, "\n%s, seed %d\n", r.setting(), r.Plan.Seed)
	if len(report.Arms) > 0 {
		fmt.Fprint(out, "median (least–greatest) over rounds; latencies of all rounds together; ratio to ceiling: row changes/s (jobs/s) by those of the bare LWT in the same round [95 % CI]; † fewer than 1000 samples\n\n")
	}
	if err := report.PrintArms(out); err != nil {
		return err
	}
	for _, s := range r.Steady {
		fmt.Fprintln(out, "  "+s.Text())
	}
	for _, t := range r.Met {
		fmt.Fprintln(out, "  "+t.Text())
	}
	for _, n := range append(r.Suite.Headlines(r), r.Notes...) {
		fmt.Fprintln(out, "  "+n)
	}
	fmt.Fprintf(out, "  %s\n", r.Warmed)
	for _, p := range r.Problems {
		fmt.Fprintln(out, "INVALID  "+p)
	}
	for _, v := range r.Violations {
		fmt.Fprintln(out, "VIOLATION  "+v)
	}
	return nil
}

// setting says what was measured, and how often.
func (r *Result) setting() string {
	s := r.Setting
	if len(r.Plan.Arms) > 0 {
		s += fmt.Sprintf(", %d rounds of %s an arm", r.Plan.Rounds, r.Plan.Window)
	}
	return s
}

// Plural chooses a word by a number.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Progress tells how a benchmark goes on: a step a round, and each arm's window as
// it is over.
type Progress struct{ log *progress.Log }

// NewProgress tells it to a log; nil: to nobody.
func NewProgress(log *progress.Log) *Progress {
	if log == nil {
		log = progress.New(nil)
	}
	return &Progress{log}
}

// Line tells what was done, or is done next.
func (p *Progress) Line(format string, args ...any) { p.log.Step(format, args...) }

// window tells of one that is over.
func (p *Progress) window(w progress.Window) {
	p.log.Emit(progress.Event{Kind: progress.KindWindow, Window: &w})
}

func (p *Progress) sample(plan *Plan, a Arm, s Sample) {
	p.window(progress.Window{
		Round: s.Round, Rounds: plan.Rounds, Arm: a.Name, Threads: a.Threads, PerSecond: s.Rate(), Failed: int64(s.Fail), Unknown: int64(s.Unknown),
		Text: fmt.Sprintf("round %d/%d  %s, %d threads: %.0f/s, %d failed, %d unknown", s.Round, plan.Rounds, a.Name, a.Threads, s.Rate(), s.Fail, s.Unknown),
	})
}
