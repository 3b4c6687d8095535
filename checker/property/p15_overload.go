package property

import (
	"fmt"
	"math"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// Faults that are loads.
const (
	faultSaturate = "saturate"
	faultOverload = "overload"
)

const (
	// rampUp is how long a load is in force until what it does is counted: the jobs that end
	// before came before.
	rampUp = int64(2e9)
	// leastSaturated is how long a saturated time must be then to say what can be done.
	leastSaturated = int64(5e9)
	// mostApart is how far apart the capacities before and after may be, as a part of the
	// greater one: else the machine, or the system, was another one in between.
	mostApart = 0.25
	// leastOffered is the part of what an overload is to offer that must have come.
	leastOffered = 0.85
	// certainly is how many times the greater of two capacities must have come to be too much whatever
	// can be done; refusals are too late then if they take farBeyond times what they may, which no
	// neighbour of the machine's explains.
	certainly = 2
	farBeyond = 4
	// leastJudged is how long an overload must be beside other faults.
	leastJudged = int64(3e9)
	// otherFaults is how long another fault under the overload counts after its end, and a ttl.
	otherFaults = int64(2e9)
	// usualBatch is how long the batches of a shard may take, in ms and in the middle, where the scenarios' times
	// under overload hold. Whatever waits then waits for batches. Where these take as many times as long, as on a
	// slow machine, so may it; where they take more than mostSlower times as long, nothing is said of it.
	usualBatch = 125.
	mostSlower = 2.
	// normallyLate is how long after its request a job may start in normal times.
	normallyLate = int64(1e9)
)

// Overload is what a run shows of a time in which more jobs came than can be done.
type Overload struct {
	// CapacityPerS is how many jobs a second ended while as much was asked for as can be done:
	// the middle of that before and after.
	CapacityPerS float64 `json:"capacity_per_s"`
	BeforePerS   float64 `json:"before_per_s"`
	AfterPerS    float64 `json:"after_per_s"`
	// OfferedPerS came under the overload, and GoodputRatio is the part of the capacity that ended.
	OfferedPerS  float64 `json:"offered_per_s"`
	GoodputRatio float64 `json:"goodput_ratio"`
	// Accepted and Refused are enqueues of that time, and those without an answer.
	Accepted   int `json:"accepted"`
	Refused    int `json:"refused"`
	Unanswered int `json:"unanswered"`
	// RefusedP99MS is of the answers that refuse a job, RefusedHereP99MS of those by the process
	// that owns its shard, RefusedHere of them; 0 without any.
	RefusedP99MS     float64 `json:"refused_any_p99_ms"`
	RefusedHereP99MS float64 `json:"refused_p99_ms"`
	RefusedHere      int     `json:"refused_by_owner"`
	// AcceptedLatenessP99MS is how long after their requests Started jobs started that were taken
	// then and due at once.
	AcceptedLatenessP99MS float64 `json:"accepted_lateness_p99_ms"`
	Started               int     `json:"started"`
	// CommandsP95MS is the p95 of the answers to Commands on jobs: those that the owners of the jobs' shards
	// were given then. CommandsFailed of them were not answered and count as longer than any; nil if the p95 is
	// one of them.
	CommandsP95MS  *float64 `json:"commands_p95_ms,omitempty"`
	Commands       int      `json:"commands"`
	CommandsFailed int      `json:"commands_failed"`
	// BatchP50MS is how long the batches of shards took, in the middle: while the workers were saturated, before or
	// after, or under the overload, whichever is least; 0 without any.
	BatchP50MS float64 `json:"batch_p50_ms,omitempty"`
	// NormalAfterMS is how long after it jobs were still refused, or started more than a second
	// after they were asked for; watched for WatchedMS.
	NormalAfterMS float64 `json:"normal_after_ms"`
	WatchedMS     float64 `json:"watched_ms"`
	// Why says that it cannot be judged; "" if it can.
	Why string `json:"why,omitempty"`

	// ofSmaller is the part of the smaller capacity that ended, where Why is nothing but that there
	// are two; nil: Why is something else, or nothing.
	ofSmaller *float64
}

// underOverload measures the run's overload; nil if it has none.
func (a *Judgement) underOverload() *Overload {
	i := slices.IndexFunc(a.Faults, isOverload)
	if i < 0 {
		return nil
	}
	if a.overload == nil {
		a.overload = a.measureOverload(a.Faults[i])
	}
	return a.overload
}

func isOverload(f history.FaultWindow) bool { return f.Fault.Name == faultOverload }

func isLoad(f history.FaultWindow) bool { return isOverload(f) || f.Fault.Name == faultSaturate }

func (a *Judgement) measureOverload(f history.FaultWindow) *Overload {
	out := &Overload{}
	over := history.Span{From: f.From + rampUp, To: f.To}
	saturated := a.injections(faultSaturate)
	before, after := -1, -1 // the last one before, and the last one
	end := a.EndOfWork()
	for n, s := range saturated {
		switch {
		case s.To <= f.From:
			before = n
		case s.From >= f.To:
			after, end = n, min(end, s.From)
		}
	}
	switch {
	case len(a.injections(faultOverload)) > 1:
		out.Why = "there are two overloads"
		return out
	case before < 0 || after < 0:
		out.Why = "what can be done is not known: no saturate before, or none afterwards"
		return out
	case over.To-over.From < leastSaturated:
		out.Why = "the overload is too short"
		return out
	}
	ends := a.ends()
	for _, s := range []history.FaultWindow{saturated[before], saturated[after]} {
		if s.To-s.From-rampUp < leastSaturated {
			out.Why = fmt.Sprintf("%s (saturate) is too short", s.Fault.ID)
			return out
		}
	}
	capacity := func(s history.FaultWindow) float64 {
		return perSecond(ends, []history.Span{{From: s.From + rampUp, To: s.To}})
	}
	out.BeforePerS, out.AfterPerS = capacity(saturated[before]), capacity(saturated[after])
	out.BatchP50MS = min(a.batchesIn(saturated[before]), a.batchesIn(f), a.batchesIn(saturated[after]))
	out.CapacityPerS = (out.BeforePerS + out.AfterPerS) / 2
	others := a.othersUnder(f)
	judged := past.Without([]history.Span{over}, spansOf(others))
	goodput := perSecond(ends, judged)
	if out.CapacityPerS > 0 {
		out.GoodputRatio = goodput / out.CapacityPerS
	}
	a.askedUnder(out, f, others, end)
	a.startedUnder(out, f, others, end)
	a.commandedUnder(out, f, others)
	out.WatchedMS = float64(end-f.To) / 1e6
	out.Why = out.why(f)
	switch short := lengthOf(judged) < leastJudged; {
	case short && out.Why == "":
		out.Why = fmt.Sprintf("other faults leave %s of the overload", phrase.MS(lengthOf(judged)))
	case !short && out.apart() && out.offered(f):
		part := goodput / min(out.BeforePerS, out.AfterPerS)
		out.ofSmaller = &part
	}
	return out
}

// apart says that there is not one capacity.
func (o *Overload) apart() bool {
	return math.Abs(o.BeforePerS-o.AfterPerS)/max(o.BeforePerS, o.AfterPerS, 1) > mostApart && min(o.BeforePerS, o.AfterPerS) > 0
}

// certain says that there are two capacities, and too much came for both.
func (o *Overload) certain() bool {
	return o.ofSmaller != nil && o.OfferedPerS >= certainly*max(o.BeforePerS, o.AfterPerS)
}

// offered says that as much came as was to come.
func (o *Overload) offered(f history.FaultWindow) bool {
	return o.OfferedPerS >= leastOffered*f.Fault.Times*o.BeforePerS
}

// why says what is wrong with the numbers, "" if nothing is.
func (o *Overload) why(f history.FaultWindow) string {
	switch {
	case o.BeforePerS == 0 || o.AfterPerS == 0:
		return "no job ended while the workers were saturated"
	case o.apart():
		return fmt.Sprintf("what can be done was %.0f jobs a second before and %.0f afterwards: that is not one capacity", o.BeforePerS, o.AfterPerS)
	case !o.offered(f):
		return fmt.Sprintf("%.0f jobs a second came, and %g times the capacity is %.0f", o.OfferedPerS, f.Fault.Times, f.Fault.Times*o.BeforePerS)
	}
	return ""
}

// disturbance is a time in which another fault under an overload may be noticed. One of workers
// concerns the shards that these own when it comes, from then until a ttl and 2 s after it. One of nodes or
// links concerns all shards for that long when it comes and when it goes: in between a quorum is left.
type disturbance struct {
	history.Span
	workers []string
}

// othersUnder are the other faults under an overload.
func (a *Judgement) othersUnder(f history.FaultWindow) (out []disturbance) {
	ttl := int64(0)
	for _, l := range a.Rows {
		for _, g := range l.Grants {
			ttl = max(ttl, g.Acquire.TTL())
		}
	}
	for _, o := range a.Faults {
		if isLoad(o) || o.From >= f.To || o.To <= f.From {
			continue
		}
		from, end, workers := o.From, o.To+ttl+otherFaults, past.WorkersIn(o.Fault.Targets)
		if last, ok := o.Until(); ok && len(workers) == 0 && last > from+ttl+otherFaults {
			out = append(out, disturbance{history.Span{From: from, To: from + ttl + otherFaults}, nil})
			from = last
		}
		out = append(out, disturbance{history.Span{From: from, To: end}, workers})
	}
	return out
}

func spansOf(others []disturbance) (out []history.Span) {
	for _, d := range others {
		out = append(out, d.Span)
	}
	return past.Merge(out, 0)
}

// disturbed says that another fault concerns a shard between two instants.
func (a *Judgement) disturbed(others []disturbance, shard string, from, to int64) bool {
	return slices.ContainsFunc(others, func(d disturbance) bool {
		if d.From > to || d.To < from {
			return false
		}
		owner := a.ownerAt(shard, d.From)
		return len(d.workers) == 0 || owner == nil || slices.Contains(d.workers, history.Worker(owner.Acquire.Invoke.Proc))
	})
}

// batchesIn is the median time, in ms, of the batches of shards that were begun under a load, without its first 2 s.
func (a *Judgement) batchesIn(load history.FaultWindow) float64 {
	var took []float64
	for o := range past.Each(a.Ops) {
		if o.Invoke.Op == history.OpTick && o.Outcome == history.OK && o.Invoke.TS >= load.From+rampUp && o.Invoke.TS < load.To {
			took = append(took, float64(o.End.TS-o.Invoke.TS)/1e6)
		}
	}
	if s := spreadOf(took); s != nil {
		return s.P50
	}
	return 0
}

// slower is how many times as long things may take as a scenario says.
func (o *Overload) slower() float64 { return min(max(1, o.BatchP50MS/usualBatch), mostSlower) }

// ends are when jobs were completed, in order.
func (a *Judgement) ends() (out []int64) {
	for _, s := range a.Successes {
		for range s.Count {
			out = append(out, s.Op.End.TS)
		}
	}
	slices.Sort(out)
	return out
}

func perSecond(ends []int64, in []history.Span) float64 {
	n := 0
	for _, s := range in {
		from, _ := slices.BinarySearch(ends, s.From)
		to, _ := slices.BinarySearch(ends, s.To)
		n += to - from
	}
	return float64(n) * 1e9 / float64(max(lengthOf(in), 1))
}

func lengthOf(spans []history.Span) (sum int64) {
	for _, s := range spans {
		sum += s.To - s.From
	}
	return sum
}

// askedUnder counts the enqueues of an overload, and times those that were refused.
func (a *Judgement) askedUnder(out *Overload, f history.FaultWindow, others []disturbance, end int64) {
	asked := 0
	var refused, here []float64
	for o := range past.Each(a.Ops) {
		if o.Invoke.Op != history.OpEnqueue || o.Invoke.Proc == history.Harness {
			continue
		}
		if no := o.End != nil && o.Outcome == history.Fail; no && o.Invoke.TS >= f.To && o.End.TS < end {
			out.NormalAfterMS = max(out.NormalAfterMS, float64(o.End.TS-f.To)/1e6)
		}
		if o.Invoke.TS < f.From+rampUp || o.Invoke.TS >= f.To {
			continue
		}
		asked++
		switch {
		case o.Outcome == history.OK:
			out.Accepted++
		case o.End == nil || o.Outcome == history.Unknown:
			out.Unanswered++
		default:
			out.Refused++
			j := o.Invoke.Job()
			if j == nil || a.disturbed(others, j.Shard, o.Invoke.TS, o.End.TS) {
				continue
			}
			took := float64(o.End.TS-o.Invoke.TS) / 1e6
			refused = append(refused, took)
			if owner := a.ownerAt(j.Shard, o.Invoke.TS); owner != nil && owner.OwnedBy(o.Invoke.Proc) {
				here = append(here, took)
			}
		}
	}
	out.OfferedPerS = float64(asked) * 1e9 / float64(f.To-f.From-rampUp)
	if s := spreadOf(refused); s != nil {
		out.RefusedP99MS = s.P99
	}
	if s := spreadOf(here); s != nil {
		out.RefusedHere, out.RefusedHereP99MS = s.N, s.P99
	}
}

// ownerAt is who owned a shard then; nil: nobody is known to.
func (a *Judgement) ownerAt(shard string, ts int64) (owner *past.Grant) {
	l := a.RowOf[shard]
	if l == nil {
		return nil
	}
	for _, g := range l.Grants {
		if g.TookEffect() && g.Confirmed <= ts && (owner == nil || g.Token > owner.Token) {
			owner = g
		}
	}
	return owner
}

// startedUnder is how long after their requests jobs started that were taken under an overload,
// and until when that was long afterwards.
func (a *Judgement) startedUnder(out *Overload, f history.FaultWindow, others []disturbance, end int64) {
	var late []float64
	for _, j := range a.Jobs.List {
		call, start := taken(j)
		if start == nil {
			continue // P5 asks for it
		}
		from, took := call.Invoke.TS, start.TS-call.Invoke.TS
		if took > normallyLate && start.TS >= f.To && start.TS < end {
			out.NormalAfterMS = max(out.NormalAfterMS, float64(start.TS-f.To)/1e6)
		}
		if from < f.From || from >= f.To || a.disturbed(others, j.Shard, from, start.TS) {
			continue
		}
		late = append(late, float64(took)/1e6)
	}
	if s := spreadOf(late); s != nil {
		out.Started, out.AcceptedLatenessP99MS = s.N, s.P99
	}
}

// commandedUnder times the commands on jobs that were given under an overload to the owners of the jobs' shards,
// which stayed their owners. What is told about the job is an answer, also if nothing was done.
func (a *Judgement) commandedUnder(out *Overload, f history.FaultWindow, others []disturbance) {
	var took []float64
	for o := range past.Each(a.Ops) {
		c := o.Invoke.Command()
		if o.Invoke.Op != history.OpCommand || c == nil || c.Shard == o.Invoke.Key || o.Invoke.TS < f.From+rampUp || o.Invoke.TS >= f.To {
			continue
		}
		owner := a.ownerAt(c.Shard, o.Invoke.TS)
		if o.End == nil || owner == nil || !owner.OwnedBy(o.Invoke.Proc) || // a process that died is no answer at all
			a.ownerAt(c.Shard, o.End.TS) != owner || a.disturbed(others, c.Shard, o.Invoke.TS, o.End.TS) {
			continue
		}
		out.Commands++
		if o.Outcome != history.OK && (o.Outcome != history.Fail || o.End.Told() == "") {
			out.CommandsFailed++
			took = append(took, math.Inf(1))
			continue
		}
		took = append(took, float64(o.End.TS-o.Invoke.TS)/1e6)
	}
	if slices.Sort(took); len(took) > 0 {
		if p95 := percentile(took, 95); !math.IsInf(p95, 1) {
			out.CommandsP95MS = &p95
		}
	}
}

// taken is the first request by which a job that is due at once was acknowledged, and its first start.
func taken(j *past.Job) (call *past.Op, start *history.Event) {
	if j.Spec == nil || j.Spec.DueMS != 0 {
		return nil, nil
	}
	for _, o := range j.Calls {
		if o.Outcome == history.OK && o.End.Result != past.ResultDuplicate && (call == nil || o.Invoke.TS < call.Invoke.TS) {
			call = o
		}
	}
	if call == nil {
		return nil, nil
	}
	for _, e := range j.Starts {
		if start == nil || e.TS < start.TS {
			start = e
		}
	}
	return call, start
}

// readOverload is a threshold's number of the overload.
func (a *Judgement) readOverload(t history.Threshold) reading {
	o := a.underOverload()
	r := a.readOf(o, t)
	if o != nil && t.Overload != history.OverloadNormal { // that is over when the load is
		r.times = o.slower()
	}
	return r
}

func (a *Judgement) readOf(o *Overload, t history.Threshold) reading {
	need, fewer := shares["p99"].need, shares["p95"].need
	if o == nil {
		return reading{why: "there was no overload"}
	}
	events := []*history.Event{}
	for _, f := range a.injections(faultOverload) {
		events = append(events, a.FaultEvents(f.Fault.ID)...)
	}
	switch {
	case t.Overload == history.OverloadGoodput && o.ofSmaller != nil && *o.ofSmaller < t.Least:
		// A system that an overload leaves slower has two capacities. What is too little of the smaller one is too
		// little of each.
		return reading{part: *o.ofSmaller, of: fmt.Sprintf("of the smaller capacity, with %.0f jobs a second; %s", o.OfferedPerS, o.Why), events: events}
	case t.Overload == history.OverloadRefused && o.certain() && o.RefusedHere >= need && o.RefusedHereP99MS > float64(farBeyond*t.MaxMS)*o.slower():
		// How long a refusal takes has nothing to do with how much is done.
		return reading{ms: o.RefusedHereP99MS, of: fmt.Sprintf("of %s, with %.0f jobs a second, too much for either capacity; %s",
			phrase.Plural(o.RefusedHere, "refusal"), o.OfferedPerS, o.Why), events: events}
	case o.Why != "":
		return reading{why: o.Why}
	case o.BatchP50MS > mostSlower*usualBatch && t.MaxMS > 0:
		return reading{why: fmt.Sprintf("batches of shards took %.0f ms, and up to %.0f ms say anything about how long things take: "+
			"run it on a faster machine, or with nothing else at work on this one", o.BatchP50MS, mostSlower*usualBatch)}
	}
	of := fmt.Sprintf("with %.0f jobs a second for a capacity of %.0f (%.0f before, %.0f after)", o.OfferedPerS, o.CapacityPerS, o.BeforePerS, o.AfterPerS)
	switch t.Overload {
	case history.OverloadGoodput:
		return reading{part: o.GoodputRatio, of: of, events: events}
	case history.OverloadRefused:
		if o.RefusedHere < need {
			return reading{why: fmt.Sprintf("%s by the owners of their shards, the p99 needs %d", phrase.Plural(o.RefusedHere, "refusal"), need)}
		}
		return reading{ms: o.RefusedHereP99MS, events: events,
			of: fmt.Sprintf("of %s by the owners of their shards; of all %d, forwarded ones too, %.1f ms", phrase.Plural(o.RefusedHere, "refusal"), o.Refused, o.RefusedP99MS)}
	case history.OverloadAccepted:
		if o.Started < need {
			return reading{why: fmt.Sprintf("%s of jobs that were taken then, the p99 needs %d", phrase.Plural(o.Started, "start"), need)}
		}
		return reading{ms: o.AcceptedLatenessP99MS, events: events, of: fmt.Sprintf("of %s; %s", phrase.Plural(o.Started, "start"), of)}
	}
	if t.Overload == history.OverloadCommands {
		if o.Commands < fewer {
			return reading{why: fmt.Sprintf("%s on jobs for the owners of their shards, the p95 needs %d", phrase.Plural(o.Commands, "command"), fewer)}
		}
		ms := math.Inf(1)
		if o.CommandsP95MS != nil {
			ms = *o.CommandsP95MS
		}
		return reading{ms: ms, events: events, of: fmt.Sprintf("of %s on jobs, of which %d failed; %s", phrase.Plural(o.Commands, "command"), o.CommandsFailed, of)}
	}
	if o.WatchedMS < float64(t.MaxMS) {
		return reading{why: fmt.Sprintf("only %s passed after the overload until the next load, or the end", phrase.MS(int64(o.WatchedMS*1e6)))}
	}
	return reading{ms: o.NormalAfterMS, events: events, of: "until the last job that was refused, or started more than a second after it was asked for"}
}
