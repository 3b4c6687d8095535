package checker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// checkLives is P18: every process ends as its plan says, and in time. The witness is the
// harness, which started them.
func checkLives(_ context.Context, a *analysis, p *Property) {
	kinds := map[string]int{}
	for _, e := range a.ends {
		p.Checked++
		kinds[e.Life().Kind]++
		if wrong := e.Life().Unplanned(); wrong != "" {
			p.add(e.Life().Name, []*history.Event{a.lastOf(e.Life().Name), e}, "%s%s", lifeText(e.Life()), wrong+wordsOf(e.Life()))
		}
	}
	var parts []string
	for _, kind := range sortedKeys(kinds) {
		parts = append(parts, plural(kinds[kind], kind))
	}
	p.Detail = "lives of " + strings.Join(parts, ", ")
	if len(a.ends) == 0 {
		a.checkDeaths(p)
	}
	if p.Checked == 0 {
		p.Status, p.Detail = StatusNA, "nobody noted how processes ended"
	}
}

// lifeText is the subject of a sentence about a life.
func lifeText(l *history.ProcessLife) string {
	if l.PID == 0 {
		return fmt.Sprintf("%s (%s) ", l.Name, l.Kind)
	}
	return fmt.Sprintf("%s (%s, pid %d) ", l.Name, l.Kind, l.PID)
}

// wordsOf are a life's last words, as the end of a sentence.
func wordsOf(l *history.ProcessLife) string {
	if w := l.Words(); w != "" {
		return fmt.Sprintf("; its log: %s", w)
	}
	return ""
}

// lastOf is the last that a life recorded, nil if it recorded nothing.
func (a *analysis) lastOf(life string) *history.Event {
	for i := range slices.Backward(a.h.Events) {
		if e := &a.h.Events[i]; history.Life(e.Proc) == life && e.Op != history.NoteCrash {
			return e
		}
	}
	return nil
}

// sigKill begins the crash note of a life that was killed as planned, killedByRunner that of
// one that did not do in its time what it had to.
const (
	sigKill        = "SIGKILL"
	killedByRunner = sigKill + " by " + history.Runner
)

// checkDeaths judges a history without life notes by its crash notes.
func (a *analysis) checkDeaths(p *Property) {
	p.Detail = "by crash and exit notes: how long lives took to end, and how those ended that are neither of workers nor of programs, is not known"
	for _, l := range a.lives {
		if l.exited && !l.crashed {
			p.Checked++
		}
	}
	for _, e := range a.crashes {
		if e.Error == "" {
			continue // nobody says how
		}
		p.Checked++
		life := history.Life(e.Proc)
		switch {
		case !strings.HasPrefix(e.Error, sigKill):
			p.add(life, []*history.Event{a.lastOf(life), e}, "%s ended by itself: %s", life, e.Error)
		case strings.HasPrefix(e.Error, killedByRunner):
			p.add(life, []*history.Event{a.lastOf(life), e}, "%s had to be killed: %s", life, e.Error)
		}
	}
}

// unnoted are the lives that recorded something and of whose end nobody knows, though it
// is known of others.
func (a *analysis) unnoted() []string {
	if len(a.ends) == 0 {
		return nil
	}
	noted := map[string]bool{harness: true}
	for _, e := range a.ends {
		noted[e.Life().Name] = true
	}
	var out []string
	for _, name := range sortedKeys(a.lives) {
		if a.lives[name].recording && !noted[name] {
			out = append(out, name)
		}
	}
	return out
}
