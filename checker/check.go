package checker

import (
	"context"
	"slices"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/record/verdict"
)

// Defaults of Options.
const (
	DefaultSearch = 60 * time.Second
	DefaultLimit  = 10 * time.Minute
	DefaultMemory = 4 << 30
	maxViolations = 20   // a property lists at most so many
	maxVisualOps  = 1000 // operations in one visualization (about 0.3 MB of HTML)
)

// Options tune a check. The zero value is usable.
type Options struct {
	// Dir is the run's directory: visualizations are written below it, and the
	// files named in violations are relative to it. "" writes none.
	Dir string `json:"dir,omitempty"`
	// Search is the CPU time that all Porcupine searches together may take; what
	// only they can judge is unknown if it is not finished then. Default DefaultSearch.
	Search time.Duration `json:"search_ns,omitempty"`
	// Limit is the time that a child process may take in all, reading included
	// (CheckInChild only). Default DefaultLimit.
	Limit time.Duration `json:"limit_ns,omitempty"`
	// Memory is the memory that a child process may use, in bytes (CheckInChild
	// only). Default DefaultMemory; negative: no limit.
	Memory int64 `json:"memory_bytes,omitempty"`

	// soFar: the history still grows; the sinks' ledgers are not read yet, and what the
	// sinks have answered stands in for them.
	soFar bool
}

func (o Options) withDefaults() Options {
	if o.Search <= 0 {
		o.Search = DefaultSearch
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	return o
}

// Check judges a history. It never panics on a history that the reader accepts;
// a cancelled ctx ends the searches and leaves what they had to find unknown.
func Check(ctx context.Context, h *history.History, o Options) *Result {
	return analyse(h, o.withDefaults()).check(ctx)
}

func (a *analysis) check(ctx context.Context) *Result {
	r := &Result{Version: 1}
	if heads := a.h.Headers; len(heads) > 0 {
		r.Run = heads[0].Run
	}
	r.Properties = make([]Property, len(checks))
	for i, c := range checks {
		if c.id != validity {
			r.Properties[i] = a.judge(ctx, c)
			a.shown(&r.Properties[i])
		}
	}
	for i, c := range checks { // it looks at what the others have checked
		if c.id == validity {
			r.Properties[i] = a.judge(ctx, c)
		}
	}
	r.Counts = a.count()
	r.Recovery = a.recovery()
	r.Thresholds, r.Progress = a.bounds, a.progressed
	r.HostBusy, _ = a.busy()
	r.Cold, _ = a.cold()
	r.Verdict = overall(r.Properties)
	r.Answer = a.answer(r)
	r.Summary = r.Answer.text()
	r.Millis = millis(a.begin)
	return r
}

const notPromised = "not promised by the system under test"

func (a *analysis) judge(ctx context.Context, c check) Property {
	begin := time.Now()
	p := Property{ID: c.id, Title: c.title}
	if !c.always && !a.promised(c.id) {
		p.Status, p.Detail = StatusNA, notPromised
		return p
	}
	c.run(ctx, a, &p)
	switch {
	case p.Count == 0 || p.Status == StatusInvalid:
	case c.whole && a.incomplete() && !p.certain:
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
			ref.File = relative(a.opts.Dir, ref.File)
		}
	}
	p.Millis = millis(begin)
	return p
}

// validity is the property that the run could have shown a violation of any other.
const validity = "P14"

// shown: nothing checked is nothing shown. A property that was judged by nothing has not
// passed, and the run is INVALID for it, unless the scenario says that its workload
// cannot exercise it.
func (a *analysis) shown(p *Property) {
	if p.Status != StatusPass || p.Checked > 0 {
		return
	}
	p.Status, p.Detail = StatusNA, "nothing was checked: "+p.Detail
	for _, e := range a.expects {
		if why := e.Expect().Exempt[p.ID]; why != "" {
			p.Detail += "; exempt: " + why
			return
		}
	}
	a.vacuous = append(a.vacuous, *p)
}

// incomplete says that the record provably lacks events.
func (a *analysis) incomplete() bool { return a.lost+len(a.stray) > 0 }

// promised says whether any header claims the property: what one life promises, the run
// is judged by. One without a list promises all.
func (a *analysis) promised(id string) bool {
	for _, head := range a.h.Headers {
		if len(head.Promises) == 0 || slices.Contains(head.Promises, id) {
			return true
		}
	}
	return len(a.h.Headers) == 0
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

func millis(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
