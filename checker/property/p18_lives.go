package property

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:     "P18",
		title:  "no process dies or hangs by itself",
		by:     "what the harness noted of every life; the crash notes of older histories",
		run:    checkLives,
		soFar:  checkLives,
		always: true,
		rules:  []rule{{find: (*Inquiry).fallenLives}},
		mechanisms: []mechanism{
			{id: "process-panics", Statement: "a process panics while it works: an error that nobody handles ends it"},
			{id: "process-panics-ending",
				Statement: "a process panics while it ends: an error that nobody handles cuts off what it has to finish"},
			{id: "process-exits", Statement: "a process ends with an error, or though nobody asked it to"},
			{id: "process-never-ends", Statement: "a process that is asked to end does not: it hangs"},
			{id: "process-never-ready", Statement: "a process is started and does not become ready: it hangs"},
			{id: "process-killed-elsewhere", Statement: "a process is ended by a signal that this harness has not sent"},
		},
	})
}

// checkLives is P18: every process ends as its plan says, and in time. The witness is the
// harness, which started them.
func checkLives(_ context.Context, a *Judgement, p *Property) {
	kinds := map[string]int{}
	for _, e := range a.Ends {
		p.Checked++
		kinds[e.Life().Kind]++
		if wrong := e.Life().Unplanned(); wrong != "" {
			p.add(e.Life().Name, []*history.Event{a.lastOf(e.Life().Name), e}, "%s%s", lifeText(e.Life()), wrong+wordsOf(e.Life()))
		}
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, phrase.Plural(kinds[kind], kind))
	}
	p.Detail = "lives of " + strings.Join(parts, ", ")
	if len(a.Ends) == 0 {
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
func (a *Judgement) lastOf(life string) *history.Event {
	for i := range slices.Backward(a.History.Events) {
		if e := &a.History.Events[i]; history.Life(e.Proc) == life && e.Op != history.NoteCrash {
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
func (a *Judgement) checkDeaths(p *Property) {
	p.Detail = "by crash and exit notes: how long lives took to end, and how those ended that are neither of workers " +
		"nor of programs, is not known"
	for _, l := range a.Lives {
		if l.Exited && !l.Crashed {
			p.Checked++
		}
	}
	for _, e := range a.Crashes {
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
func (a *Judgement) unnoted() []string {
	if len(a.Ends) == 0 {
		return nil
	}
	noted := map[string]bool{history.Harness: true}
	for _, e := range a.Ends {
		noted[e.Life().Name] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.Lives)), func(name string) bool {
		return noted[name] || !a.Lives[name].Recording
	})
}

// fallenLives: processes that ended otherwise than their plan says.
func (x *Inquiry) fallenLives() {
	for _, e := range x.Ends {
		wrong := e.Life().Unplanned()
		if wrong == "" {
			continue
		}
		id := mechanismOf(e.Life())
		s := x.found(id, shown, "%s%s", lifeText(e.Life()), wrong+wordsOf(e.Life()))
		if stack := stackOf(e.Life()); stack != "" {
			x.suspect(id, shown, 0, "its stack: %s", stack)
		}
		var chain []Step
		if last := x.lastOf(e.Life().Name); last != nil {
			chain = append(chain, x.before(last, "the last that %s recorded: %s %s by %s", e.Life().Name, last.Op, last.Type, last.Proc))
		}
		s.show(e.Life().Name, e.TS, []string{e.Life().Name}, append(chain, x.mistake(e, "%s %s", e.Life().Name, wrong))...)
	}
	if len(x.Ends) > 0 {
		return
	}
	p := x.recheck(checkLives) // by crash notes, one of which comes last
	for _, v := range p.Violations {
		ref := v.Events[len(v.Events)-1]
		e := ref.Event
		e.File, e.Line = ref.File, ref.Line
		id := "process-exits"
		switch {
		case strings.HasPrefix(e.Error, killedByRunner):
			id = "process-never-ends"
		case strings.Contains(e.Error, "panic: "):
			id = "process-panics"
		}
		s := x.found(id, WeightFits, "%s", v.Message)
		s.showAt(v.Key, &e, x.mistake(&e, "%s", v.Message))
	}
}

// mechanismOf is what ended a life that did not end as planned.
func mechanismOf(l *history.ProcessLife) string {
	asked := l.Asked != "" && l.Asked != sigKill
	switch {
	case l.Overdue != "" && asked || l.Running || l.BoundMS > 0 && l.TookMS > l.BoundMS:
		return "process-never-ends"
	case l.Overdue != "":
		return "process-never-ready"
	case l.Panicked() && asked:
		return "process-panics-ending"
	case l.Panicked():
		return "process-panics"
	case l.Code != nil:
		return "process-exits"
	}
	return "process-killed-elsewhere"
}

// ofRuntime are frames of Go itself, however the program was built.
var ofRuntime = regexp.MustCompile(`(^|/src/)(runtime|sync)/`)

// stackOf is the top of the stack in a life's last words: the first frames that are not
// of the language's own runtime.
func stackOf(l *history.ProcessLife) string {
	var frames []string
	for _, line := range l.Log {
		f := strings.TrimSpace(line)
		if !strings.Contains(f, ".go:") || ofRuntime.MatchString(f) {
			continue
		}
		f, _, _ = strings.Cut(f, " +0x")
		if frames = append(frames, f); len(frames) == 3 {
			break
		}
	}
	return strings.Join(frames, ", called by ")
}
