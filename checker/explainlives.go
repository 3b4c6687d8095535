package checker

import (
	"regexp"
	"strings"

	"fencepost/harness/record/history"
)

// fallenLives: processes that ended otherwise than their plan says.
func (x *inquiry) fallenLives() {
	n := map[string]int{}
	for _, e := range x.a.ends {
		wrong := e.Life().Unplanned()
		if wrong == "" {
			continue
		}
		id := mechanismOf(e.Life())
		n[id]++
		s := x.suspect(id, shown, n[id], "%s%s", lifeText(e.Life()), wrong+wordsOf(e.Life()))
		if stack := stackOf(e.Life()); stack != "" {
			x.suspect(id, shown, n[id], "its stack: %s", stack)
		}
		var chain []Step
		if last := x.a.lastOf(e.Life().Name); last != nil {
			chain = append(chain, x.step(RoleBefore, last, "the last that %s recorded: %s %s by %s", e.Life().Name, last.Op, last.Type, last.Proc))
		}
		s.show(e.Life().Name, e.TS, []string{e.Life().Name}, append(chain, x.step(RoleMistake, e, "%s %s", e.Life().Name, wrong))...)
	}
	if len(x.a.ends) > 0 {
		return
	}
	p := x.scratch(checkLives) // by crash notes, one of which comes last
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
		n[id]++
		s := x.suspect(id, fits, n[id], "%s", v.Message)
		s.show(v.Key, e.TS, []string{e.Proc}, x.step(RoleMistake, &e, "%s", v.Message))
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
