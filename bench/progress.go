package bench

import (
	"fmt"

	"fencepost/harness/record/progress"
)

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
