package property

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:     "P14",
		title:  "the run could have shown a violation",
		by:     "the scenario's expectations, completeness of the record",
		run:    checkValidity,
		always: true,
		rules: []rule{
			{find: (*Inquiry).record},
			{find: (*Inquiry).demands},
			{find: (*Inquiry).arrivals},
		},
		ofRecord: true,
		mechanisms: []mechanism{
			{id: "calls-missing", Accounts: []string{"P2", "P4", "P6", "P14"},
				Statement: "recorded calls are missing: the recorder loses operations"},
			{id: "calls-dated-late", Accounts: []string{"P2", "P14"},
				Statement: "calls are dated after their requests had left: the recorder writes them down too late"},
			{id: "unknown-recorded-as-failed", Accounts: []string{"P2", "P4", "P5", "P6"},
				Statement: "the recorder writes down unknown outcomes as failures", Apart: "an operation that is recorded as unknown"},
			{id: "record-cut-off", Statement: "the record of a process ends before the process did"},
			{id: "point-not-kept",
				Statement: "a client says that it stands before a request which has left already, or which it never sends"},
			{id: "worker-missing", Statement: "a worker that the scenario has never took part"},
			{id: "links-not-cut", Statement: "links were reported as disturbed and never were"},
			{id: "process-undisturbed", Statement: "a process was reported as killed or stopped and went on working"},
			{id: "fault-never-came", Statement: "a fault of the plan was never injected: what should set it off did not happen"},
			{id: "fault-did-not-bite", Statement: "a fault was injected and is not proven to have taken effect"},
			{id: "too-little-work", Statement: "too little succeeded, or what must not have succeeded did"},
			{id: "arrivals-dropped", Statement: "workers left out jobs that they were to enqueue: the load was less than the scenario says"},
			{id: "point-not-reached", Statement: "the run did not reach what it was made for"},
			{id: "statement-unknown",
				Statement: "a statement was sent that the harness does not know, so what it needs could not be judged"},
			{id: "end-not-read",
				Statement: "locks, shards or the sink were not sealed and read after the run, so its unknown outcomes stay open"},
			{id: "no-expectation", Statement: "nothing says what the run must contain to count as a test"},
			{id: "check-unfinished", Accounts: []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P15"},
				Statement: "a check did not finish: what it had to find is not known"},
		},
	})
}

// checkValidity is P14: the record is complete, and the run contained what its
// scenario demands. What it finds makes the run INVALID, not failed.
func checkValidity(_ context.Context, a *Judgement, p *Property) {
	counts := a.count()
	p.Checked = counts.Operations
	for _, r := range a.Record.Remarks { // the rules of `fencepost lint`
		p.add(r.Life, r.Events, "%s", r.Message())
	}
	for _, name := range a.unnoted() {
		p.add(name, nil, "how %s ended was not noted, and of other lives it was", name)
	}
	if len(a.Expects) == 0 {
		p.add("", nil, "the history has no expect note: nothing says what it must contain to count as a test")
	}
	for _, e := range a.Expects {
		a.checkExpect(e, counts, p)
	}
	for _, v := range a.unchecked {
		p.add(v.ID, nil,
			"nothing of %s (%s) was checked, so nothing of it was shown: the system must not promise it, or the scenario says why its workload "+
				"cannot exercise it (expect: exempt)", v.ID, v.Title)
	}
	a.checkSealed(p)
	a.checkLedgers(p)
	a.reportLies(p)
	a.checkHits(p)
	for _, f := range a.unknownStatements() {
		p.add(f.table, f.events, "%s", f.message)
	}
	for _, e := range a.Witness.Gaps[history.WitnessAnswers] {
		p.add("", []*history.Event{e}, "what was asked of the sink cannot be compared with what it answered: %s", e.Error)
	}
	a.checkRowsEnd(p)
	if why, notes := a.dropped(); why != "" {
		p.add("", notes, "%s", why)
	}
	for _, s := range a.Unrecorded { // last, as one lost event can leave many
		p.add(s.Key, s.Events, "%s", s.Message)
	}
	if p.Count > 0 {
		p.Status = StatusInvalid
		return
	}
	sealed, cycle := phrase.Plural(counts.Locks, "lock"), "cycle"
	if counts.Jobs != nil {
		sealed, cycle = a.CountRows(counts.Locks, counts.Jobs.Shards), a.CycleNoun()
	}
	p.Detail = fmt.Sprintf("%s, %d of %s proven, %s sealed, no gap in the records of %d process lives",
		phrase.Plural(counts.Cycles, cycle), counts.FaultsProven, phrase.Plural(counts.Faults, "fault"), sealed, counts.Procs)
}

func (a *Judgement) checkSealed(p *Property) {
	promised := map[string]bool{} // shards of jobs that were acknowledged
	for _, j := range a.Jobs.List {
		promised[j.Shard] = promised[j.Shard] || j.Acknowledged() != nil
	}
	for _, l := range a.Rows {
		if l.Sealed == nil && (slices.ContainsFunc(l.Writes, (*past.Write).Possible) || l.Shard && promised[l.Name]) {
			p.add(l.Name, nil, "%s %s was not sealed after the run, so its unknown outcomes cannot be settled", l.Noun(), l.Name)
		}
	}
}

func (a *Judgement) checkLedgers(p *Property) {
	for _, s := range a.Sinks {
		if s.Final == nil && len(s.Raises)+len(s.Effects)+len(s.Ledger) > 0 {
			p.add(s.Name, nil, "the sink's final value of %s was not read after the run", s.Name)
		}
		if s.Missing != "" {
			p.add(s.Name, s.MissingEvents, "the sink's ledger of %s is incomplete: %s", s.Name, s.Missing)
		}
	}
}

// checkExpect compares with the scenario's demands.
func (a *Judgement) checkExpect(e *history.Event, counts Counts, p *Property) {
	want := e.Expect()
	for _, phase := range slices.Sorted(maps.Keys(want.MinCycles)) {
		if got, n := counts.PhaseCycles[phase], want.MinCycles[phase]; got < n {
			p.add("", []*history.Event{e}, "phase %s has %s, the scenario demands %d", phase, phrase.Plural(got, a.CycleNoun()), n)
		}
	}
	faults := map[string]history.FaultWindow{}
	for _, f := range a.Faults {
		faults[f.Fault.ID] = f
	}
	for _, id := range want.Faults {
		f, injected := faults[id]
		switch {
		case !injected:
			p.add(id, []*history.Event{e}, "fault %s was not injected", id)
		case !f.Proven:
			p.add(id, a.FaultEvents(id), "fault %s (%s) is not proven to have taken effect: %s", id, f.Fault.Name, past.Evidence(f))
		}
	}
	a.checkSuccess(e, p)
	a.checkProgressShown(e, p)
	for _, point := range want.Must {
		if counts.Points[point] == 0 {
			p.add(point, []*history.Event{e}, "the scenario must reach %q, and the run did not", point)
		}
	}
	if n := len(a.WorkerNames()); n < want.Workers {
		p.add("", []*history.Event{e}, "%s recorded operations, the scenario has %d", phrase.Plural(n, "worker"), want.Workers)
	}
}

// checkRowsEnd is the part of P14 that says which rows were not read.
func (a *Judgement) checkRowsEnd(p *Property) {
	if !a.NotesRowsEnd() {
		return
	}
	for _, l := range a.Rows {
		if l.Shard && !a.Jobs.Ends[l.Name] {
			p.add(l.Name, nil, "the rows of shard %s were not read to their end after the run (no rows-end note)", l.Name)
		}
	}
	if a.Jobs.Locked > 0 && !a.Jobs.Ends[""] {
		p.add("", nil, "the rows of the jobs were not read to their end after the run (no rows-end note)")
	}
}

// successWindow is a window in which a group of workers is expected to succeed or
// not to.
type successWindow struct {
	from, to int64
	// inside: the whole operation must lie within it, not its end alone. For a
	// fault's window: a release that was under way when the fault came or when it
	// was healed says nothing about it.
	inside bool
	member func(worker string) bool
}

func (w successWindow) has(o *past.Op) bool {
	if !w.member(history.Worker(o.Invoke.Proc)) {
		return false
	}
	if w.inside {
		return o.Invoke.TS > w.from && o.End.TS < w.to
	}
	return o.End.TS >= w.from && o.End.TS < w.to
}

// checkSuccess judges the successes of groups of workers by phase or fault.
func (a *Judgement) checkSuccess(e *history.Event, p *Property) {
	for _, s := range e.Expect().Success {
		where, key := "phase "+s.Phase, s.Phase
		if s.Fault != "" {
			where, key = "the windows of fault "+s.Fault, s.Fault
		}
		bad := func(format string, args ...any) {
			p.add(key, []*history.Event{e}, format, args...)
		}
		if s.Want != history.Some && s.Want != history.None && s.Want != history.Any {
			bad("the expect note wants %q of %s; known are some, none and any", s.Want, where)
			continue
		}
		windows, err := a.windows(s)
		if err != nil {
			bad("%v", err)
			continue
		}
		found, n := a.succeeded(windows)
		switch {
		case s.Want == history.Some && n == 0:
			bad("in %s no %s of %s succeeded, the scenario demands some", where, a.SuccessNoun(), groupText(s))
		case s.Want == history.None && n > 0:
			p.add(key, append(past.Events(found), e), "in %s %s of %s succeeded, the scenario demands none: the fault did not cut them off",
				where, phrase.Plural(n, a.SuccessNoun()), groupText(s))
		}
	}
}

func groupText(s history.Success) string {
	switch {
	case len(s.Workers) > 0:
		return strings.Join(s.Workers, ", ")
	case s.Group == history.GroupTargets:
		return "the workers that it is aimed at"
	case s.Group == history.GroupOthers:
		return "the other workers"
	}
	return "all workers"
}

// succeeded counts the successes in the windows, and returns one.
func (a *Judgement) succeeded(windows []successWindow) (found *past.Op, n int) {
	for _, s := range a.Successes {
		if slices.ContainsFunc(windows, func(w successWindow) bool { return w.has(s.Op) }) {
			found, n = s.Op, n+s.Count
		}
	}
	return found, n
}

// windows are what an expectation is about, or why it is about nothing.
func (a *Judgement) windows(s history.Success) ([]successWindow, error) {
	if (s.Phase == "") == (s.Fault == "") {
		return nil, fmt.Errorf("an expectation of success names phase %q and fault %q: it must name one of them", s.Phase, s.Fault)
	}
	if len(s.Workers) > 0 && s.Group != "" {
		return nil, fmt.Errorf("an expectation of success names workers and the group %q: only one of them may be named", s.Group)
	}
	switch s.Group {
	case "", history.GroupTargets, history.GroupOthers:
	default:
		return nil, fmt.Errorf("an expectation of success is about the group %q; known are %s and %s",
			s.Group, history.GroupTargets, history.GroupOthers)
	}
	known := a.WorkerNames()
	for _, w := range s.Workers {
		if !known[w] {
			return nil, fmt.Errorf("the scenario expects something of worker %s, which recorded nothing", w)
		}
	}
	if s.Fault != "" {
		return a.faultWindows(s)
	}
	return a.phaseWindows(s)
}

func (a *Judgement) phaseWindows(s history.Success) ([]successWindow, error) {
	var aimed []string
	for _, f := range a.Faults {
		aimed = append(aimed, past.WorkersIn(f.Fault.Targets)...)
	}
	if s.Group != "" && len(aimed) == 0 {
		return nil, fmt.Errorf("the scenario expects something of the group %q in phase %s, but no fault was aimed at a worker", s.Group, s.Phase)
	}
	var out []successWindow
	for _, ph := range a.History.Phases() {
		if ph.Name == s.Phase {
			out = append(out, successWindow{from: ph.From, to: ph.To, member: members(s, aimed)})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the scenario expects something of phase %s, which the run did not have", s.Phase)
	}
	return out, nil
}

func (a *Judgement) faultWindows(s history.Success) ([]successWindow, error) {
	var out []successWindow
	for _, f := range a.Faults {
		if f.Fault.ID != s.Fault && f.Fault.Name != s.Fault {
			continue
		}
		aimed := past.WorkersIn(f.Fault.Targets)
		if s.Group != "" && len(aimed) == 0 {
			return nil, fmt.Errorf("the scenario expects something of the group %q of fault %s, which was aimed at %s: at no worker",
				s.Group, s.Fault, strings.Join(f.Fault.Targets, ", "))
		}
		w := successWindow{from: f.From, to: f.To, inside: true, member: members(s, aimed)}
		if until, ok := f.Until(); ok && s.Want == history.None {
			w.to = until
		}
		out = append(out, w)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the scenario expects something of fault %s, which was not injected", s.Fault)
	}
	return out, nil
}

// members says who belongs to the group, given whom the faults are aimed at.
func members(s history.Success, aimed []string) func(string) bool {
	switch {
	case len(s.Workers) > 0:
		return func(w string) bool { return slices.Contains(s.Workers, w) }
	case s.Group == history.GroupTargets:
		return func(w string) bool { return slices.Contains(aimed, w) }
	case s.Group == history.GroupOthers:
		return func(w string) bool { return w != history.Harness && !slices.Contains(aimed, w) }
	}
	return func(string) bool { return true }
}

// checkHits: a point before a request stands before that request.
func (a *Judgement) checkHits(p *Property) {
	for _, e := range a.Witness.Hits {
		if what, o := a.missedPoint(e); what != "" {
			events := []*history.Event{e}
			if o != nil {
				events = append(events, past.Events(o)...)
			}
			p.add(e.Key, events, "%s", what)
		}
	}
}

// missedPoint says why a client did not stand where it said, "" if it did: its links tell whether
// the request had left when it asked, and whether it left at all.
func (a *Judgement) missedPoint(e *history.Event) (what string, o *past.Op) {
	h := e.Hit()
	at := fmt.Sprintf("the point %s of %s", e.Point(), e.Key)
	switch o = a.Operation(h.Proc, h.ID); {
	case o == nil:
		return fmt.Sprintf("%s asked at %s and had recorded no operation that was about to be sent", h.Proc, at), nil
	case h.Sent > 0 && h.Sent < e.TS:
		return fmt.Sprintf("%s asked at %s %s after its request had left: the fault came too late", h.Proc, at, phrase.MS(e.TS-h.Sent)), o
	case h.Sent > 0 && (h.Go == 0 || h.Sent < h.Go):
		return fmt.Sprintf("%s stood at %s, and its request left before it was let go", h.Proc, at), o
	case h.Sent == 0 && answered(o):
		return fmt.Sprintf("%s asked at %s and says that its %s was answered; its links carried no such request", h.Proc, at, o.Invoke.Op), o
	}
	return "", o
}

// answered says whether an operation's end claims an answer.
func answered(o *past.Op) bool {
	return o.End != nil && (o.Outcome == history.OK || o.End.Result != "" || o.End.Row != nil)
}
