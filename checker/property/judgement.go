package property

import (
	"context"
	"fmt"
	"sort"
	"time"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
	"fencepost/harness/record/verdict"
)

// Judgement is one check of a history: what happened, and what the properties have found
// so far that others report.
type Judgement struct {
	*past.Past
	Dir       string        // of the run; "": nothing is drawn, and files are named in full
	Search    time.Duration // CPU time that all Porcupine searches together may take
	begin     time.Time
	searchEnd time.Duration      // of all Porcupine searches, as CPUTime; set by the first
	counts    *Counts            // see count
	open      int                // jobs that have not finished, by P5
	lateness  *past.Spread       // of jobs, by P12
	overload  *Overload          // by P15
	growth    []Growth           // see growths
	recovered *Recovery          // see recovery
	progress  []Progress         // by P11
	bounds    []Bound            // by P15
	unchecked []Property         // see requireChecked
	lockCalls map[string][]int64 // see nextCall
}

// New sorts what a history shows; see [past.New].
func New(h *history.History, soFar bool, dir string, search time.Duration) *Judgement {
	begin := time.Now()
	return &Judgement{Past: past.New(h, soFar), Dir: dir, Search: search, begin: begin}
}

// Check judges all properties, those last that look at what the others have checked. The result
// has no answer yet, which takes an explanation (package explain).
func (a *Judgement) Check(ctx context.Context) *Result {
	r := &Result{Version: 1}
	if heads := a.History.Headers; len(heads) > 0 {
		r.Run = heads[0].Run
	}
	r.Properties = make([]Property, len(All))
	for i, c := range All {
		if c.ID != Validity {
			r.Properties[i] = a.Judge(ctx, c)
			a.requireChecked(&r.Properties[i])
		}
	}
	for i, c := range All { // it looks at what the others have checked
		if c.ID == Validity {
			r.Properties[i] = a.Judge(ctx, c)
		}
	}
	r.Counts = a.count()
	r.Recovery = a.recovery()
	r.Thresholds, r.Progress, r.Overload = a.bounds, a.progress, a.underOverload()
	r.Growth = a.growths()
	r.HostBusy, _ = a.Busy()
	r.Cold, _ = a.Cold()
	r.Verdict = overall(r.Properties)
	return r
}

const notPromised = "not promised by the system under test"

func (a *Judgement) Judge(ctx context.Context, c Check) Property {
	begin := time.Now()
	p := Property{ID: c.ID, Title: c.title}
	if !c.always && !a.Promised(c.ID) {
		p.Status, p.Detail = StatusNA, notPromised
		return p
	}
	c.run(ctx, a, &p)
	switch {
	case p.Count == 0 || p.Status == StatusInvalid:
	case c.completeRecord && a.Incomplete() && !p.certain:
		p.Status, p.Detail = StatusUnknown, "not conclusive, as the record has lost events (P14): "+p.Detail
	default:
		p.Status = StatusFail
	}
	if p.Status == "" {
		p.Status = StatusPass
	}
	for i := range p.Violations {
		for j := range p.Violations[i].Events {
			ref := &p.Violations[i].Events[j]
			ref.File = phrase.File(a.Dir, ref.File)
		}
	}
	p.Millis = millis(begin)
	return p
}

// Validity is the property that the run could have shown a violation of any other.
const Validity = "P14"

// requireChecked: nothing checked is nothing shown. A property that was judged by nothing has not
// passed, and the run is INVALID for it, unless the scenario says that its workload
// cannot exercise it.
func (a *Judgement) requireChecked(p *Property) {
	if p.Status != StatusPass || p.Checked > 0 {
		return
	}
	p.Status, p.Detail = StatusNA, "nothing was checked: "+p.Detail
	for _, e := range a.Expects {
		if why := e.Expect().Exempt[p.ID]; why != "" {
			p.Detail += "; exempt: " + why
			return
		}
	}
	a.unchecked = append(a.unchecked, *p)
}

// overall is the worst of the properties'.
func overall(ps []Property) Verdict {
	of := map[Status]Verdict{StatusFail: Fail, StatusInvalid: Invalid, StatusUnknown: Unknown}
	v := Pass
	for _, p := range ps {
		if w, bad := of[p.Status]; bad {
			v = verdict.Worst(v, w)
		}
	}
	return v
}

// Millis is the time since the judgement began.
func (a *Judgement) Millis() float64 { return millis(a.begin) }

func millis(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

// SoFar returns the properties with findings that stay findings whatever comes.
func (a *Judgement) SoFar(ctx context.Context) (out []Property) {
	for _, c := range All {
		if c.soFar == nil {
			continue
		}
		c.run, c.completeRecord = c.soFar, false
		if p := a.Judge(ctx, c); p.Status == StatusFail {
			out = append(out, p)
		}
	}
	return out
}

const (
	MaxWindow     = 12 // events of one violation
	maxViolations = 20 // a property lists at most so many
)

// add records a violation shown by the given events; nil events are skipped.
func (p *Property) add(key string, events []*history.Event, format string, args ...any) {
	p.Count++
	if len(p.Violations) >= maxViolations {
		return
	}
	v := Violation{Key: key, Message: fmt.Sprintf(format, args...), Events: []EventRef{}}
	seen := map[*history.Event]bool{nil: true}
	for _, e := range events {
		if !seen[e] && len(v.Events) < MaxWindow {
			seen[e] = true
			v.Events = append(v.Events, EventRef{File: e.File, Line: e.Line, Event: *e})
		}
	}
	sort.SliceStable(v.Events, func(i, j int) bool { return v.Events[i].Event.TS < v.Events[j].Event.TS })
	if n := len(v.Events); n > 0 {
		v.From, v.To = v.Events[0].Event.TS, v.Events[n-1].Event.TS
	}
	p.Violations = append(p.Violations, v)
}

// invalidate makes what was found invalid: something else than the system may have caused it.
func (p *Property) invalidate(why string, note *history.Event) {
	found, n := p.Violations, p.Count
	p.Violations = nil
	p.add("", []*history.Event{note}, "%s", why)
	p.Violations = append(p.Violations, found[:min(len(found), maxViolations-1)]...)
	p.Status, p.Count, p.Detail = StatusInvalid, n+1, why+"; "+p.Detail
}

// report gives a property what the replay found for it.
func report(x *past.Jobs, property string, p *Property) {
	for _, f := range x.Found[property] {
		p.add(f.Key, f.Events, "%s", f.Message)
	}
}

// Printed bounds the violations of a property that Print shows; verdict.json
// has up to 20.
const Printed = 3
