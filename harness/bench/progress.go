package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Progress shows a benchmark while it runs: a line a round, and on a terminal
// one more below it that is redrawn after every arm.
type Progress struct {
	out      io.Writer
	terminal bool
	start    time.Time
	drawn    bool
}

// NewProgress shows it on out; nil: nowhere.
func NewProgress(out io.Writer) *Progress {
	if out == nil {
		out = io.Discard
	}
	p := &Progress{out: out, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// Line prints an event above the live line.
func (p *Progress) Line(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// Status redraws the live line.
func (p *Progress) Status(format string, args ...any) {
	if !p.terminal {
		return
	}
	p.clear()
	fmt.Fprintf(p.out, "%6.1fs  %s", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
	p.drawn = true
}

func (p *Progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[2K")
		p.drawn = false
	}
}

func (p *Progress) sample(plan *Plan, a Arm, s Sample) {
	p.Status("round %d/%d  %s, %d threads: %.0f/s, %d failed, %d unknown", s.Round, plan.Rounds, a.Name, a.Threads, s.Rate(), s.Fail, s.Unknown)
}
