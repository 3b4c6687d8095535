package checker

import (
	"context"
	"time"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
	"fencepost/harness/record/verdict"
)

// Defaults of Options.
const (
	DefaultSearch = 60 * time.Second
	DefaultLimit  = 10 * time.Minute
	DefaultMemory = 4 << 30
	maxViolations = 20 // a property lists at most so many
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
	return newJudgement(h, false, o).check(ctx)
}

// judgement is one check of a history: what happened, and what the properties have found
// so far that others report.
type judgement struct {
	*past.Past
	opts      Options
	begin     time.Time
	searchEnd time.Duration // of all Porcupine searches, as cpuTime; set by the first
	counts    *Counts       // see count
	open      int           // jobs that have not come to an end, by P5
	lateness  *past.Spread  // of jobs, by P12
	recovered *Recovery     // see recovery
	progress  []Progress    // by P11
	bounds    []Bound       // by P15
	vacuous   []Property    // see shown
}

func newJudgement(h *history.History, soFar bool, o Options) *judgement {
	begin := time.Now()
	return &judgement{Past: past.New(h, soFar), opts: o.withDefaults(), begin: begin}
}

func (a *judgement) check(ctx context.Context) *Result {
	r := &Result{Version: 1}
	if heads := a.History.Headers; len(heads) > 0 {
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
	r.Thresholds, r.Progress = a.bounds, a.progress
	r.HostBusy, _ = a.Busy()
	r.Cold, _ = a.Cold()
	r.Verdict = overall(r.Properties)
	r.Summary = summarize(r, a)
	r.Millis = millis(a.begin)
	return r
}

const notPromised = "not promised by the system under test"

func (a *judgement) judge(ctx context.Context, c check) Property {
	begin := time.Now()
	p := Property{ID: c.id, Title: c.title}
	if !c.always && !a.Promised(c.id) {
		p.Status, p.Detail = StatusNA, notPromised
		return p
	}
	c.run(ctx, a, &p)
	switch {
	case p.Count == 0 || p.Status == StatusInvalid:
	case c.whole && a.Incomplete() && !p.certain:
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
			ref.File = phrase.File(a.opts.Dir, ref.File)
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
func (a *judgement) shown(p *Property) {
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
	a.vacuous = append(a.vacuous, *p)
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
