package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"fencepost/harness/bench/stat"
)

// progress shows a benchmark while it runs: a line a round, and on a terminal
// one more below it that is redrawn after every arm.
type progress struct {
	out      io.Writer
	terminal bool
	start    time.Time
	drawn    bool
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	p := &progress{out: out, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// line prints an event above the live line.
func (p *progress) line(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// status redraws the live line.
func (p *progress) status(format string, args ...any) {
	if !p.terminal {
		return
	}
	p.clear()
	fmt.Fprintf(p.out, "%6.1fs  %s", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
	p.drawn = true
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[2K")
		p.drawn = false
	}
}

func (p *progress) sample(plan *Plan, a Arm, s Sample) {
	p.status("round %d/%d  %s, %d threads: %.0f/s, %d failed, %d unknown", s.Round, plan.Rounds, a.Name(), a.Threads, s.Rate(), s.Fail, s.Unknown)
}

// round prints what the locks did beside the bare updates in this round, at the
// greatest number of threads.
func (p *progress) round(plan *Plan, round int, samples []Sample) {
	if round == 0 {
		p.line("rehearsal done, %d rounds of about %.0f s follow", plan.Rounds, plan.Estimate().Seconds()/float64(plan.Rounds+1))
		return
	}
	threads := plan.Threads[len(plan.Threads)-1]
	var bare, lock []float64
	var fail, unknown int64
	for _, s := range samples {
		if s.Round != round {
			continue
		}
		fail, unknown = fail+s.Fail, unknown+s.Unknown
		switch a, err := plan.Arm(s.Arm); {
		case err != nil || a.Threads != threads:
		case a.Kind == KindCAS:
			bare = append(bare, s.Rate())
		case a.Kind == KindLock:
			lock = append(lock, s.Rate())
		}
	}
	p.line("round %d/%d  with %d threads: bare LWT %.0f updates/s, lock %.0f cycles/s; all arms: %d failed, %d unknown", round, plan.Rounds, threads, stat.Median(bare), stat.Median(lock), fail, unknown)
}
