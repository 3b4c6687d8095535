package checker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:     "P14",
		title:  "the run could have shown a violation",
		by:     "the scenario's expectations, completeness of the record",
		run:    checkValidity,
		always: true,
		rules: []rule{
			{find: (*inquiry).record},
			{find: (*inquiry).demands},
		},
		mechanisms: []mechanism{
			{id: "calls-missing", accounts: []string{"P2", "P4", "P6", "P14"}, ofRecord: true,
				statement: "recorded calls are missing: the recorder loses operations"},
			{id: "calls-dated-late", accounts: []string{"P2", "P14"}, ofRecord: true,
				statement: "calls are dated after their requests had left: the recorder writes them down too late"},
			{id: "unknown-recorded-as-failed", accounts: []string{"P2", "P4", "P5", "P6"}, ofRecord: true,
				statement: "the recorder writes down unknown outcomes as failures",
				apart:     "an operation that is recorded as unknown"},
			{id: "record-cut-off", accounts: []string{"P14"}, ofRecord: true,
				statement: "the record of a process ends before the process did"},
			{id: "point-not-kept", accounts: []string{"P14"}, ofRecord: true,
				statement: "a client says that it stands before a request which has left already, or which it never sends"},
			{id: "worker-missing", accounts: []string{"P14"}, ofRecord: true,
				statement: "a worker that the scenario has never took part"},
			{id: "links-not-cut", accounts: []string{"P14"}, ofRecord: true,
				statement: "links were reported as disturbed and never were"},
			{id: "process-undisturbed", accounts: []string{"P14"}, ofRecord: true,
				statement: "a process was reported as killed or stopped and went on working"},
			{id: "fault-never-came", accounts: []string{"P14"}, ofRecord: true,
				statement: "a fault of the plan was never injected: what should set it off did not happen"},
			{id: "fault-did-not-bite", accounts: []string{"P14"}, ofRecord: true,
				statement: "a fault was injected and is not proven to have bitten"},
			{id: "too-little-work", accounts: []string{"P14"}, ofRecord: true,
				statement: "too little succeeded, or what must not have succeeded did"},
			{id: "point-not-reached", accounts: []string{"P14"}, ofRecord: true,
				statement: "the run did not reach what it was made for"},
			{id: "end-not-read", accounts: []string{"P14"}, ofRecord: true,
				statement: "locks, shards or the sink were not sealed and read after the run, so its unknown outcomes stay open"},
			{id: "no-expectation", accounts: []string{"P14"}, ofRecord: true,
				statement: "nothing says what the run must contain to count as a test"},
			{id: "check-unfinished", accounts: []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P15"}, ofRecord: true,
				statement: "a check did not finish: what it had to find is not known"},
		},
	})
}

// checkValidity is P14: the record is complete, and the run contained what its
// scenario demands. What it finds makes the run INVALID, not failed.
func checkValidity(_ context.Context, a *analysis, p *Property) {
	counts := a.count()
	p.Checked = counts.Operations
	for _, r := range a.record.Remarks { // the rules of `fencepost lint`
		p.add(r.Life, r.Events, "%s", r.Message())
	}
	for _, name := range a.unnoted() {
		p.add(name, nil, "how %s ended was not noted, and of other lives it was", name)
	}
	if len(a.expects) == 0 {
		p.add("", nil, "the history has no expect note: nothing says what it must contain to count as a test")
	}
	for _, e := range a.expects {
		a.checkExpect(e, counts, p)
	}
	for _, v := range a.vacuous {
		p.add(v.ID, nil, "nothing of %s (%s) was checked, so nothing of it was shown: the system must not promise it, or the scenario says why its workload cannot exercise it (expect: exempt)", v.ID, v.Title)
	}
	a.checkSealed(p)
	a.checkLedgers(p)
	a.reportLies(p)
	a.checkHits(p)
	for _, e := range a.told.gaps[history.WitnessAnswers] {
		p.add("", []*history.Event{e}, "what was asked of the sink cannot be compared with what it answered: %s", e.Error)
	}
	a.checkRowsEnd(p)
	for _, s := range a.stray { // last, as one lost event can leave many
		p.add(s.key, s.events, "%s", s.message)
	}
	if p.Count > 0 {
		p.Status = StatusInvalid
		return
	}
	sealed, cycle := plural(counts.Locks, "lock"), "cycle"
	if counts.Jobs != nil {
		sealed, cycle = a.countRows(counts.Locks, counts.Jobs.Shards), a.cycle()
	}
	p.Detail = fmt.Sprintf("%s, %d of %s proven, %s sealed, no gap in the records of %d process lives",
		plural(counts.Cycles, cycle), counts.FaultsProven, plural(counts.Faults, "fault"), sealed, counts.Procs)
}

func (a *analysis) checkSealed(p *Property) {
	for _, l := range a.rows {
		if l.sealed == nil && slices.ContainsFunc(l.writes, (*write).possible) {
			p.add(l.name, nil, "%s %s was not sealed after the run, so its unknown outcomes cannot be settled", l.noun(), l.name)
		}
	}
}

func (a *analysis) checkLedgers(p *Property) {
	for _, s := range a.sinks {
		if s.final == nil && len(s.raises)+len(s.effects)+len(s.ledger) > 0 {
			p.add(s.name, nil, "the sink's final value of %s was not read after the run", s.name)
		}
		if s.hole != "" {
			p.add(s.name, s.holeEvents, "the sink's ledger of %s is incomplete: %s", s.name, s.hole)
		}
	}
}

// checkExpect compares with the scenario's demands.
func (a *analysis) checkExpect(e *history.Event, counts Counts, p *Property) {
	want := e.Expect()
	for _, phase := range sortedKeys(want.MinCycles) {
		if got, n := counts.PhaseCycles[phase], want.MinCycles[phase]; got < n {
			p.add("", []*history.Event{e}, "phase %s has %s, the scenario demands %d", phase, plural(got, a.cycle()), n)
		}
	}
	faults := map[string]history.FaultWindow{}
	for _, f := range a.faults() {
		faults[f.Fault.ID] = f
	}
	for _, id := range want.Faults {
		f, injected := faults[id]
		switch {
		case !injected:
			p.add(id, []*history.Event{e}, "fault %s was not injected", id)
		case !f.Proven:
			p.add(id, a.faultEvents(id), "fault %s (%s) is not proven to have bitten: %s", id, f.Fault.Name, evidence(f))
		}
	}
	a.checkSuccess(e, p)
	a.checkProgressShown(e, p)
	for _, point := range want.Must {
		if counts.Points[point] == 0 {
			p.add(point, []*history.Event{e}, "the scenario must reach %q, and the run did not", point)
		}
	}
	if n := len(a.workerNames()); n < want.Workers {
		p.add("", []*history.Event{e}, "%s recorded operations, the scenario has %d", plural(n, "worker"), want.Workers)
	}
}

func evidence(f history.FaultWindow) string {
	var texts []string
	for _, e := range f.Evidence {
		texts = append(texts, e.Fault().Text)
	}
	if len(texts) == 0 {
		return "there is no evidence at all"
	}
	return strings.Join(texts, "; ")
}

func (a *analysis) faultEvents(id string) []*history.Event {
	var out []*history.Event
	for i := range a.h.Events {
		if e := &a.h.Events[i]; e.Op == history.NoteFault && e.Fault() != nil && e.Fault().ID == id {
			out = append(out, e)
		}
	}
	return out
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
