package property

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// Roles of a Step.
const (
	RoleBefore  = "before"  // what made it possible
	RoleFault   = "fault"   // a fault in force
	RoleMistake = "mistake" // what should not have been done
	RoleHarm    = "harm"    // what came of it
)

// Step is one link of a chain.
type Step struct {
	Role string  `json:"role"`
	TS   int64   `json:"ts"`
	At   float64 `json:"at_s"` // seconds of the run
	Text string  `json:"text"`
	// File and Line are where the event is recorded; "" for what has no single event.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Weight is how specific evidence is.
type Weight int

const (
	symptom    Weight = iota + 1 // a consequence that many mistakes have
	possible                     // nothing contradicts it
	WeightFits                   // a pattern that few mistakes leave
	shown                        // the record shows the mistake itself
	written                      // the text of a statement says it
)

// Suspect is a mechanism that fits, with what it rests on.
type Suspect struct {
	ID       string
	Weight   Weight
	Evidence []string
	Count    int
	Key      string
	Chain    []Step
	At       int64
	Procs    []string
	Group    string // suspects of one group are alternatives for the same findings
}

// Inquiry is what the rules look at, and what they have found.
type Inquiry struct {
	*Judgement
	Result   *Result
	Red      map[string]bool // properties that are not well
	Suspects []*Suspect
	Begin    int64          // of the run, for people
	cases    map[string]int // by mechanism; see found
}

// inquiryOrder is the order in which the properties' rules are asked, and so in which causes of
// one rank are told: the record first, then the statements, the rows, the holders, the sink,
// the jobs. Properties that are not named come last.
var inquiryOrder = []string{"P14", "P15", "P13", "P1", "P9", "P2", "P8", "P11", "P7", "P3", "P10", "P4", "P5", "P12", "P6"}

// checksToInquire are all properties in that order.
func checksToInquire() []Check {
	place := func(c Check) int {
		if i := slices.Index(inquiryOrder, c.ID); i >= 0 {
			return i
		}
		return len(inquiryOrder)
	}
	return slices.SortedStableFunc(slices.Values(All), func(c, d Check) int { return cmp.Compare(place(c), place(d)) })
}

// Inquire asks the rules of all properties for the mechanisms behind a verdict.
func (a *Judgement) Inquire(r *Result) *Inquiry {
	x := &Inquiry{Judgement: a, Result: r, Red: map[string]bool{}, Begin: RunStart(a.History), cases: map[string]int{}}
	want := map[Verdict]Status{Fail: StatusFail, Invalid: StatusInvalid, Unknown: StatusUnknown}[r.Verdict]
	for _, p := range r.Properties {
		if p.Status == want {
			x.Red[p.ID] = true
		}
	}
	for _, c := range checksToInquire() {
		for _, r := range c.rules {
			if r.needs == "" || x.Promised(r.needs) {
				r.find(x)
			}
		}
	}
	x.capWeights()
	return x
}

// RunStart is when a run's first phase began.
func RunStart(h *history.History) int64 {
	if ph := h.Phases(); len(ph) > 0 {
		return ph[0].From
	}
	if len(h.Events) > 0 {
		return h.Events[0].TS
	}
	return 0
}

// failed says whether one of the properties is violated.
func (x *Inquiry) failed(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return x.Red[id] })
}

// recheck runs a check again for what it finds on the way.
func (x *Inquiry) recheck(run func(context.Context, *Judgement, *Property)) *Property {
	p := &Property{}
	run(context.Background(), x.Judgement, p)
	return p
}

// maxEvidence bounds what is said for one mechanism.
const maxEvidence = 3

// suspect files one, or adds to what is filed of the mechanism. nil if it accounts
// for nothing that was found.
func (x *Inquiry) suspect(id string, w Weight, n int, format string, args ...any) *Suspect {
	m, known := MechanismByID[id]
	if !known {
		panic("checker: unknown mechanism " + id)
	}
	if !x.failed(m.Accounts...) {
		return &Suspect{} // filed nowhere
	}
	i := slices.IndexFunc(x.Suspects, func(s *Suspect) bool { return s.ID == id })
	if i < 0 {
		i = len(x.Suspects)
		x.Suspects = append(x.Suspects, &Suspect{ID: id})
	}
	s := x.Suspects[i]
	s.Weight, s.Count = max(s.Weight, w), max(s.Count, n)
	if text := fmt.Sprintf(format, args...); len(s.Evidence) < maxEvidence && !slices.Contains(s.Evidence, text) {
		s.Evidence = append(s.Evidence, text)
	}
	return s
}

// found files one more case of a mechanism.
func (x *Inquiry) found(id string, w Weight, format string, args ...any) *Suspect {
	x.cases[id]++
	return x.suspect(id, w, x.cases[id], format, args...)
}

// capWeights takes from the weight of what an incomplete record can feign.
func (x *Inquiry) capWeights() {
	late := slices.ContainsFunc(x.Record.Remarks, func(r history.Remark) bool { return r.Kind == history.Late })
	if !x.Incomplete() && !late {
		return
	}
	for _, s := range x.Suspects {
		if !MechanismByID[s.ID].OfRecord && s.Weight < written {
			s.Weight = min(s.Weight, possible)
		}
	}
}

// step is one link of a chain, at an event.
func (x *Inquiry) step(role string, e *history.Event, format string, args ...any) Step {
	s := x.Instant(role, e.TS, format, args...)
	s.File, s.Line = phrase.File(x.Dir, e.File), e.Line
	return s
}

// before, mistake and harm are steps by their roles.
func (x *Inquiry) before(e *history.Event, format string, args ...any) Step {
	return x.step(RoleBefore, e, format, args...)
}

func (x *Inquiry) mistake(e *history.Event, format string, args ...any) Step {
	return x.step(RoleMistake, e, format, args...)
}

func (x *Inquiry) harm(e *history.Event, format string, args ...any) Step {
	return x.step(RoleHarm, e, format, args...)
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

// showAt shows a case of one process, at one of its events.
func (s *Suspect) showAt(key string, e *history.Event, chain ...Step) {
	s.show(key, e.TS, []string{e.Proc}, chain...)
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

// sendText says how an operation was sent and answered.
func sendText(o *past.Op) string {
	switch {
	case o.End == nil:
		return "never answered"
	case len(o.End.Sends) > 1:
		return fmt.Sprintf("sent %d times in %s, then %s", len(o.End.Sends), phrase.MS(o.End.TS-past.FirstSend(o)), o.End.Type)
	}
	return fmt.Sprintf("%s after %s", o.End.Type, phrase.MS(o.End.TS-past.FirstSend(o)))
}

// sleepTime is for how long a life's machine slept between two instants.
func (a *Judgement) sleepTime(life string, from, to int64) int64 {
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
	noted := slices.ContainsFunc(x.parsed(), func(s statement) bool { return s.verb != "SELECT" })
	return !noted || x.failed("P13")
}
