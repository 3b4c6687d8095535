package scenario

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"fencepost/harness/control"
	"fencepost/harness/history"
)

// progress shows a run while it goes on: on a terminal one line that is redrawn
// twice a second below the events, elsewhere a plain line every 5 s.
type progress struct {
	out      io.Writer
	terminal bool
	start    time.Time

	mu     sync.Mutex
	name   string // phase
	more   string
	active []string
	stats  func() control.Stats
	last   control.Stats
	lastAt time.Time
	drawn  bool
	stop   chan struct{}
	done   chan struct{}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

func (p *progress) step(format string, args ...any) { p.line(format, args...) }

func (p *progress) problem(format string, args ...any) { p.line("!  "+format, args...) }

func (p *progress) phase(name string) {
	p.mu.Lock()
	p.name, p.more = name, ""
	p.mu.Unlock()
	p.line("%-8s", name)
}

func (p *progress) detail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more = fmt.Sprintf(format, args...)
}

func (p *progress) fault(f history.Fault) {
	label := f.Name + " " + strings.Join(f.Targets, ",")
	p.mu.Lock()
	switch f.Action {
	case history.ActionInject:
		p.active = append(p.active, label)
	case history.ActionHeal:
		for i, a := range p.active {
			if a == label {
				p.active = append(p.active[:i:i], p.active[i+1:]...)
				break
			}
		}
	}
	p.mu.Unlock()
	switch f.Action {
	case history.ActionInject:
		p.line("   %s inject  %s (%s)", f.ID, label, f.Trigger)
	case history.ActionHeal:
		p.line("   %s heal    %s", f.ID, label)
	case history.ActionEvidence:
		word := "PROVEN"
		if !f.Proven {
			word = "NOT PROVEN"
		}
		p.line("   %s %s: %s", f.ID, word, f.Text)
	}
}

// watch starts the live line.
func (p *progress) watch(stats func() control.Stats) {
	p.mu.Lock()
	p.stats, p.lastAt = stats, time.Now()
	p.stop, p.done = make(chan struct{}), make(chan struct{})
	p.mu.Unlock()
	every := 5 * time.Second
	if p.terminal {
		every = 500 * time.Millisecond
	}
	go func() {
		defer close(p.done)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-t.C:
				p.draw()
			}
		}
	}()
}

func (p *progress) draw() {
	s := p.stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	rate := float64(s.Cycles-p.last.Cycles) / time.Since(p.lastAt).Seconds()
	p.last, p.lastAt = s, time.Now()
	text := fmt.Sprintf("%6.1fs  %-8s %5d cycles  %5.0f/s  %d leases lost  %d stale refused  %d unknown", time.Since(p.start).Seconds(), p.name, s.Cycles, max(rate, 0), s.LeasesLost, s.Stale, s.Unknown)
	if len(p.active) > 0 {
		text += "  [" + strings.Join(p.active, "; ") + "]"
	}
	if p.more != "" {
		text += "  " + p.more
	}
	if p.terminal {
		p.clear()
		fmt.Fprint(p.out, text)
		p.drawn = true
		return
	}
	fmt.Fprintln(p.out, text)
}

// clear wipes the live line; p.mu is held.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[2K")
		p.drawn = false
	}
}

// unwatch ends the live line.
func (p *progress) unwatch() {
	p.mu.Lock()
	stop := p.stop
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		<-p.done
	}
	p.mu.Lock()
	p.clear()
	p.mu.Unlock()
}

func (p *progress) close() { p.unwatch() }
