package property

import (
	"fmt"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// step is one link of a chain, at an event.
func (x *Inquiry) step(role string, e *history.Event, format string, args ...any) Step {
	s := x.Instant(role, e.TS, format, args...)
	s.File, s.Line = phrase.File(x.Dir, e.File), e.Line
	return s
}

// Instant is a link of a chain that no event shows: an instant alone.
func (x *Inquiry) Instant(role string, ts int64, format string, args ...any) Step {
	return Step{Role: role, TS: ts, At: float64(ts-x.Begin) / 1e9, Text: fmt.Sprintf(format, args...)}
}

// case gives a suspect the case to show, unless it has one: its place, its instant
// and how it came about.
func (s *Suspect) show(key string, at int64, procs []string, chain ...Step) {
	if s.Chain != nil {
		return
	}
	s.Key, s.At, s.Chain = key, at, chain
	for _, p := range procs {
		if life := history.Life(p); life != history.Harness && !slices.Contains(s.Procs, life) {
			s.Procs = append(s.Procs, life)
		}
	}
}

// granted is the step of a grant.
func (x *Inquiry) granted(role string, g *past.Grant) Step {
	e := g.Acquire.End
	if e == nil {
		e = g.Acquire.Invoke
	}
	verb := "was granted"
	if g.Acquire.Invoke.Takeover || g.Row.Shard && g.Acquire.Write.Pos > 0 && g.Row.Chain[g.Acquire.Write.Pos-1].Held() {
		verb = "took over"
	}
	return x.step(role, e, "%s %s %s with token %d", g.Acquire.Invoke.Proc, verb, g.Row.Name, g.Token)
}

// sent says how an operation was sent and answered.
func sent(o *past.Op) string {
	switch {
	case o.End == nil:
		return "never answered"
	case len(o.End.Sends) > 1:
		return fmt.Sprintf("sent %d times in %s, then %s", len(o.End.Sends), phrase.MS(o.End.TS-past.FirstSend(o)), o.End.Type)
	}
	return fmt.Sprintf("%s after %s", o.End.Type, phrase.MS(o.End.TS-past.FirstSend(o)))
}

// slept is for how long a life's machine slept between two instants.
func (a *Judgement) slept(life string, from, to int64) int64 {
	total, since := int64(0), int64(-1)
	for _, e := range a.Clocks[life] {
		switch {
		case e.Clock().Suspended && since < 0:
			since = e.TS
		case !e.Clock().Suspended && since >= 0:
			total += max(0, min(e.TS, to)-max(since, from))
			since = -1
		}
	}
	if since >= 0 {
		total += max(0, to-max(since, from))
	}
	return total
}

// patience is how long clients wait before they send a copy again: the median of the
// gaps between sends, or ttl/6 if nothing was sent twice.
func (a *Judgement) patience(ttl int64) int64 {
	var gaps []int64
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			if c.End == nil {
				continue
			}
			for i := 1; i < len(c.End.Sends); i++ {
				gaps = append(gaps, c.End.Sends[i]-c.End.Sends[i-1])
			}
		}
	}
	if len(gaps) == 0 {
		return ttl / 6
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// plainWrites says whether unconditional writes of fenced rows were noted, or may
// have been made unseen.
func (x *Inquiry) plainWrites() bool {
	noted := slices.ContainsFunc(x.Shapes, func(e *history.Event) bool {
		stmts, err := ParseCQL(e.Statement().CQL)
		return err == nil && slices.ContainsFunc(stmts, func(s statement) bool { return s.verb != "SELECT" })
	})
	return !noted || x.failed("P13")
}
