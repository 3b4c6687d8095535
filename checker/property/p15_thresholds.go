package property

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P15",
		title:          "the run stayed within the scenario's thresholds",
		by:             "latencies, recoveries and lateness of the record, what was done under overload, and what processes take",
		Of:             "thresholds",
		run:            checkThresholds,
		completeRecord: true,
		always:         true,
		rules:          []rule{{find: (*Inquiry).thresholds}},
		ofRecord:       true,
		mechanisms: []mechanism{
			{id: "process-grows", Statement: "processes take more and more of the machine: what they no longer need is not given back"},
			{id: "threshold-exceeded", Statement: "the run is beyond a threshold of its scenario"},
			{id: "threshold-not-measured", Statement: "a threshold of the scenario could not be measured"},
		},
	})
}

// Bound is one of the scenario's thresholds with what the run showed.
type Bound struct {
	Name   string `json:"name"`   // "p99 of lock in phase fault"
	Status Status `json:"status"` // pass, fail, or invalid: it could not be measured
	// MS is what was measured, MostMS what is allowed; both in ms. 0 if not known,
	// MS also if it is beyond all measure (see Detail).
	MS     float64 `json:"ms,omitempty"`
	MostMS float64 `json:"most_ms,omitempty"`
	// Part is what was measured of a part, LeastPart the least that is allowed.
	Part      float64 `json:"part,omitempty"`
	LeastPart float64 `json:"least_part,omitempty"`
	Detail    string  `json:"detail"` // in words with its numbers
}

// reading is what a threshold's number comes to.
type reading struct {
	ms     float64 // +Inf: longer than anybody waited
	part   float64 // instead, of what has a least part
	times  float64 // as much is allowed as the threshold says, as the machine is slow; 0: once
	why    string  // it cannot be measured; "" if it can
	of     string  // of how many, for people
	events []*history.Event
}

// checkThresholds is P15: no number of the run is beyond what the scenario
// allows. One that cannot be measured is never passed: the run is invalid.
func checkThresholds(_ context.Context, a *Judgement, p *Property) {
	var texts []string
	found := map[Status][]func(){}
	for _, e := range a.Expects {
		for _, t := range e.Expect().Thresholds {
			p.Checked++
			b, events := a.bound(t)
			a.bounds = append(a.bounds, b)
			texts = append(texts, b.Name+": "+b.Detail)
			found[b.Status] = append(found[b.Status], func() { p.add("", append(events, e), "%s: %s", b.Name, b.Detail) })
		}
	}
	for _, add := range slices.Concat(found[StatusFail], found[StatusInvalid]) { // a violation says more
		add()
	}
	switch failed := slices.ContainsFunc(a.bounds, func(b Bound) bool { return b.Status == StatusFail }); {
	case p.Checked == 0:
		p.Status, p.Detail = StatusNA, "the scenario has no thresholds"
		return
	case p.Count > 0 && !failed:
		p.Status = StatusInvalid
	}
	p.Detail = strings.Join(texts, "; ")
}

func (a *Judgement) bound(t history.Threshold) (Bound, []*history.Event) {
	b := Bound{Name: t.String(), Status: StatusInvalid, MostMS: float64(t.MaxMS), LeastPart: t.Least}
	if t.Growth != "" && t.Check() == nil { // a busy machine does not make it grow
		a.boundGrowth(t, &b)
		return b, nil
	}
	var r reading
	busy, note := a.Busy()
	cold, begun := a.Cold()
	switch err := t.Check(); {
	case err != nil:
		r.why = err.Error()
	case busy != "":
		r.why, r.events = busy, []*history.Event{note}
	case cold != "" && t.TimesBefore > 0:
		r.why, r.events = cold, []*history.Event{begun}
	default:
		r = a.read(t)
	}
	if t.TimesBefore > 0 && r.why == "" {
		t.Phase = history.PhaseBefore
		before := a.read(t)
		switch {
		case before.why != "":
			r.why = "what it is compared with, " + before.why
		case math.IsInf(before.ms, 1):
			r.why = "what it is compared with is beyond measure: " + before.of
		}
		b.MostMS = before.ms * t.TimesBefore
	}
	b.MostMS *= max(1, r.times)
	switch {
	case r.why != "":
		b.Detail, b.MostMS = "could not be measured: "+r.why, float64(t.MaxMS)
		return b, r.events
	case t.Least > 0:
		b.Status, b.Part = StatusFail, r.part
		if r.part >= t.Least {
			b.Status = StatusPass
		}
		b.Detail = fmt.Sprintf("%.2f, %s; at least %g are wanted", r.part, r.of, t.Least)
		return b, r.events
	case r.ms <= b.MostMS:
		b.Status = StatusPass
	default:
		b.Status = StatusFail
	}
	most := fmt.Sprintf("%.1f ms", b.MostMS)
	if t.TimesBefore > 0 {
		most += fmt.Sprintf(" (%g times that of phase before)", t.TimesBefore)
	}
	if r.times > 1 {
		most += fmt.Sprintf(" (%.2f times %d ms, as batches of shards take so many times as long as usual)", r.times, t.MaxMS)
	}
	measured := "longer than anybody waited"
	if !math.IsInf(r.ms, 1) {
		b.MS, measured = r.ms, fmt.Sprintf("%.1f ms", r.ms)
	}
	b.Detail = fmt.Sprintf("%s, %s; at most %s are allowed", measured, r.of, most)
	return b, r.events
}

func (a *Judgement) read(t history.Threshold) reading {
	switch {
	case t.Recovery != "":
		return a.readRecovery(t)
	case t.Lateness != "":
		return a.readLateness(t.Lateness)
	case t.Overload != "":
		return a.readOverload(t)
	}
	return a.readLatency(t)
}

// shares are the quantiles, and how many samples each needs not to be the maximum.
var shares = map[string]struct {
	of   float64
	need int
}{"p50": {0.5, 2}, "p95": {0.95, 20}, "p99": {0.99, 100}, "max": {1, 1}}

// readLatency is a quantile over the clients' operations. One that was never
// answered, or a whole call that was given up, is slower than any that was: else a
// fault that turns slow answers into none would look like an improvement.
func (a *Judgement) readLatency(t history.Threshold) reading {
	var done []*past.Op
	never := 0
	stop, phases := a.Stopped, a.History.Phases()
	a.timed(t.Op(), func(o *past.Op) {
		if o.End == nil || o.Invoke.Proc == history.Harness || o.End.TS >= stop || history.PhaseOf(phases, o.Invoke.TS, o.End.TS) != t.Phase {
			return // a process that died, or the end of the run, is no answer at all
		}
		call := t.Op() == history.OpLock || t.Op() == history.OpEnqueue
		switch {
		case o.Outcome == history.OK:
			done = append(done, o)
		case o.Outcome == history.Unknown || call:
			never++
		}
	})
	share := shares[t.Quantile]
	n := len(done) + never
	of := fmt.Sprintf("of %s", phrase.Plural(n, "operation"))
	if never > 0 {
		of += fmt.Sprintf(", %d without success", never)
	}
	if n < share.need {
		return reading{why: fmt.Sprintf("%s of %s in phase %s, the %s needs %d",
			phrase.Plural(n, "operation"), t.Latency, t.Phase, t.Quantile, share.need)}
	}
	slices.SortStableFunc(done, func(x, y *past.Op) int { return cmp.Compare(x.End.TS-x.Invoke.TS, y.End.TS-y.Invoke.TS) })
	i := int(math.Ceil(share.of*float64(n))) - 1
	if i >= len(done) {
		return reading{ms: math.Inf(1), of: of}
	}
	o := done[i]
	return reading{ms: float64(o.End.TS-o.Invoke.TS) / 1e6, of: of, events: past.Events(o)}
}

// timed calls f for every operation, or span of a job, of a kind.
func (a *Judgement) timed(kind history.Op, f func(*past.Op)) {
	if kind == history.SpanStart || kind == history.SpanRun {
		for _, s := range a.History.JobSpans() {
			if s.Invoke.Op == kind {
				f(&past.Op{Invoke: &s.Invoke, End: &s.End, Outcome: s.Outcome})
			}
		}
		return
	}
	for o := range past.Each(a.Ops) {
		if o.Invoke.Op == kind {
			f(o)
		}
	}
}

// readRecovery is the longest time from a heal to the first success, or to that of
// the lock for which it took longest. Who still waited when the next fault came is left
// to that one's heal, unless it was too long by then.
func (a *Judgement) readRecovery(t history.Threshold) reading {
	faults := a.recovery().Faults
	if len(faults) == 0 {
		return reading{why: "no fault was healed"}
	}
	out := reading{of: fmt.Sprintf("the longest of %s", phrase.Plural(len(faults), "heal"))}
	seen := 0
	for _, f := range faults {
		took := f.FirstMS
		if t.Recovery == history.RecoverySlowest {
			took = f.SlowestMS
		}
		seen += f.Locks
		for _, g := range f.Waiting {
			if (g.Demand.Key == "") != (t.Recovery == history.RecoveryFirst) {
				continue
			}
			switch waited := float64(g.Length()) / 1e6; {
			case waited > float64(t.MaxMS):
				took = math.Inf(1)
				out.of = fmt.Sprintf("%s after the heal of %s (%s)", a.NameOf(g.Demand), f.ID, f.Name)
			case f.Until == a.EndOfWork() && (g.Demand.Key == "" || !a.ManyRows()):
				return reading{why: fmt.Sprintf("none followed of %s after %s (%s) was healed %.1f ms before the end",
					a.NameOf(g.Demand), f.ID, f.Name, float64(f.Until-f.Healed)/1e6)}
			}
		}
		if took >= out.ms {
			out.ms, out.events = took, a.FaultEvents(f.ID)
		}
	}
	if seen == 0 && !math.IsInf(out.ms, 1) {
		return reading{why: "no success followed a heal before the next fault or the end"}
	}
	return out
}

// readLateness is over the starts outside of faults, as P12 found them.
func (a *Judgement) readLateness(quantile string) reading {
	s := a.lateness
	if n := shares[quantile].need; s == nil || s.N < n {
		have := 0
		if s != nil {
			have = s.N
		}
		return reading{why: fmt.Sprintf("%s outside of faults, the %s needs %d", phrase.Plural(have, "start"), quantile, n)}
	}
	ms := map[string]float64{"p50": s.P50, "p99": s.P99, "max": s.Max}[quantile]
	return reading{ms: ms, of: fmt.Sprintf("of %s outside of faults", phrase.Plural(s.N, "start"))}
}

// thresholds are those that P15 found exceeded or not measured.
func (x *Inquiry) thresholds() {
	for _, b := range x.Result.Thresholds {
		switch b.Status {
		case StatusFail:
			id := "threshold-exceeded"
			if strings.HasPrefix(b.Name, history.GrowthOf) {
				id = "process-grows"
			}
			s := x.suspect(id, shown, 1, "%s: %s", b.Name, b.Detail)
			var chain []Step
			for _, p := range x.Result.Properties {
				for _, v := range p.Violations {
					if p.ID == "P15" && strings.HasPrefix(v.Message, b.Name+":") && len(v.Events) > 0 {
						for _, ref := range v.Events {
							e := ref.Event
							e.File, e.Line = ref.File, ref.Line
							chain = append(chain, x.mistake(&e, "%s %s %s by %s", e.Op, e.Type, e.Key, e.Proc))
						}
						s.show(b.Name, v.To, nil, chain...)
					}
				}
			}
		case StatusInvalid:
			x.suspect("threshold-not-measured", shown, 1, "%s: %s", b.Name, b.Detail)
		}
	}
}
