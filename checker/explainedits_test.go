package checker

import (
	"context"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// editedCase is a history that was changed after it was made, and the mechanism that
// must be named for it.
type editedCase struct {
	name, want string
	also       []string
	jobs       bool
	tune       func(*simConfig)
	do         func(*edit) bool // false: the history has nothing to change
}

// planned takes a mutation of the checker's own tests by its name.
func planned(name, want string, also ...string) editedCase {
	i := slices.IndexFunc(mutations(), func(m mutation) bool { return m.name == name })
	if i >= 0 {
		return editedCase{name: name, want: want, also: also, do: mutations()[i].do}
	}
	i = slices.IndexFunc(mutationsOfJobs(), func(m mutation) bool { return m.name == name })
	return editedCase{name: name, want: want, also: also, jobs: true, do: mutationsOfJobs()[i].do}
}

// statement notes a statement of a life, within an operation if there is one.
func (e *edit) statement(at int64, life string, st history.Statement) {
	e.insert(history.Event{TS: at, Proc: history.Harness, Type: history.Note, Op: history.NoteStatement, Key: history.Worker(life), Details: &history.Details{Statement: &st}, File: history.Harness + ".jsonl", Line: 1 << 20})
}

// lint is a legal run with one statement that is not.
func lint(want, cql, consistency, serial string) editedCase {
	return editedCase{name: cql, want: want, do: func(e *edit) bool {
		e.statement(e.h.Events[5].TS, "w1.1", history.Statement{CQL: "UPDATE locks SET a = 1 WHERE k = ? IF a = 0", Consistency: "QUORUM", SerialConsistency: "SERIAL"})
		e.statement(e.h.Events[6].TS, "w1.1", history.Statement{CQL: cql, Consistency: consistency, SerialConsistency: serial})
		return true
	}}
}

func (e *edit) expected(change func(*history.Expect)) bool {
	n := e.notes(history.NoteExpect)[0]
	x := *n.Expect()
	change(&x)
	n.OwnDetails().Expect = &x
	return true
}

// fault changes the notes of the run's one fault.
func (e *edit) fault(change func(*history.Fault)) bool {
	for _, n := range e.notes(history.NoteFault) {
		f := *n.Fault()
		change(&f)
		n.OwnDetails().Fault = &f
	}
	return true
}

var editedCases = []editedCase{
	// What a broken recorder writes.
	{name: "every 25th operation is lost", want: "calls-missing", tune: quiet, do: func(e *edit) bool {
		e.drop(func(ev *history.Event) bool { return ev.ID > 0 && ev.ID%25 == 0 && ev.Proc != history.Harness })
		return true
	}},
	{name: "calls are dated when their answers are there", want: "calls-dated-late", tune: quiet, do: func(e *edit) bool {
		for _, p := range e.ops {
			if p.end != nil && len(p.end.Sends) > 0 && p.inv.Proc != history.Harness {
				p.inv.TS = p.end.TS - 1
			}
		}
		e.index()
		return true
	}},
	{name: "unknown outcomes are recorded as failures", want: "unknown-recorded-as-failed", do: func(e *edit) bool {
		n := 0
		for _, p := range e.ops {
			if p.end != nil && p.end.Type == history.Unknown {
				p.end.Type, p.end.ServerTimeout, p.end.Row = history.Fail, false, nil
				n++
			}
		}
		return n > 0
	}},
	planned("end of a process life missing", "record-cut-off"),
	{name: "a point after the request", want: "point-not-kept", tune: quiet, do: func(e *edit) bool {
		p := e.middle().effect
		e.insert(history.Event{TS: p.end.TS, Proc: history.Harness, Type: history.Note, Op: history.NoteHit, Key: p.inv.Issuer, Details: &history.Details{Point: "effect-sent",
			Hit: &history.Hit{Proc: p.inv.Proc, ID: p.inv.ID, Go: p.end.TS, Sent: p.inv.TS}}, File: "harness.jsonl", Line: 1 << 20})
		return true
	}},
	{name: "a refusal that the sink never gave", want: "answer-made-up", tune: func(c *simConfig) { c.witnessed = true }, do: func(e *edit) bool {
		for _, p := range e.some(history.OpEffect, history.Fail) {
			if p.end.Result == past.ResultStale {
				e.drop(func(ev *history.Event) bool {
					return ev.Op == history.NoteAnswer && ev.EffectKey == p.inv.EffectKey
				})
				return true
			}
		}
		return false
	}},
	{name: "an entry of the ledger with another token", want: "ledger-forged", tune: quiet, do: func(e *edit) bool {
		for i := range e.h.Events {
			if l := e.h.Events[i].Ledger(); l != nil && l.Kind == history.LedgerAccept {
				l.Token++
				return true
			}
		}
		return false
	}},
	{name: "a statement is sent at another consistency than its worker says", want: "statement-misstated", tune: quiet, do: func(e *edit) bool {
		st := history.Statement{CQL: "SELECT a FROM leases WHERE k = ?", Consistency: "QUORUM"}
		at := e.h.Events[5].TS
		e.insert(history.Event{TS: at, Proc: "w1.1", Type: history.Note, Op: history.NoteStatement, Details: &history.Details{Statement: &st}, File: "w1.1.jsonl", Line: 1 << 20})
		st.Consistency = "TWO"
		e.statement(at, "w1.1", st)
		return true
	}},
	{name: "a statement is sent to another data centre", want: "remote-coordinator", tune: quiet, do: func(e *edit) bool {
		e.statement(e.h.Events[5].TS, "w1.1", history.Statement{CQL: "SELECT a FROM leases WHERE k = ?", Consistency: "LOCAL_QUORUM", Datacenter: "dc2"})
		return e.expected(func(x *history.Expect) { x.Agreement = &local })
	}},
	{name: "a statement is decided by all data centres", want: "other-agreement", tune: quiet, do: func(e *edit) bool {
		e.statement(e.h.Events[5].TS, "w1.1", history.Statement{CQL: "UPDATE leases SET a = 1 WHERE k = ? IF a = 0", Consistency: "LOCAL_QUORUM", SerialConsistency: "SERIAL", Datacenter: "dc1"})
		return e.expected(func(x *history.Expect) { x.Agreement = &local })
	}},
	{name: "the sink is read outside of consensus", want: "read-outside-consensus", tune: quiet, do: func(e *edit) bool {
		at := e.h.Events[5].TS
		e.insert(history.Event{TS: at, Proc: history.Harness, Type: history.Note, Op: history.NoteWitness, Key: history.WitnessStatements, File: "harness.jsonl", Line: 1 << 20})
		e.statement(at, "w1.1", history.Statement{CQL: selectSink, Consistency: "QUORUM", SerialConsistency: "SERIAL"})
		return e.expected(func(x *history.Expect) { x.Tables = knowing.Tables })
	}},
	{name: "heartbeats are written to one replica", want: "writes-and-reads-apart", tune: quiet, do: func(e *edit) bool {
		e.statement(e.h.Events[5].TS, "w1.1", history.Statement{CQL: "INSERT INTO members (cell, name, nonce) VALUES (?, ?, ?)", Consistency: "ONE"})
		return e.expected(func(x *history.Expect) { x.Tables = knowing.Tables })
	}},
	{name: "a table that nobody knows", want: "statement-unknown", tune: quiet, do: func(e *edit) bool {
		e.statement(e.h.Events[5].TS, "w1.1", history.Statement{CQL: "SELECT a FROM leases WHERE k = ?", Consistency: "QUORUM"})
		return e.expected(func(x *history.Expect) { x.Tables = knowing.Tables })
	}},
	// What a broken or idle harness does.
	{name: "a worker that is not there", want: "worker-missing", do: func(e *edit) bool {
		return e.expected(func(x *history.Expect) { x.Workers++ })
	}},
	{name: "a cut that was none", want: "links-not-cut", tune: quiet, do: func(e *edit) bool {
		return e.fault(func(f *history.Fault) { f.Proven = false })
	}},
	{name: "a pause that was none", want: "process-undisturbed", tune: quiet, do: func(e *edit) bool {
		return e.fault(func(f *history.Fault) { f.Proven, f.Name, f.Targets = false, "pause-worker", []string{"w1"} })
	}},
	{name: "a pause that nobody saw", want: "fault-did-not-bite", tune: quiet, do: func(e *edit) bool {
		return e.fault(func(f *history.Fault) { f.Proven, f.Name, f.Targets = false, "pause-worker", []string{"w9"} })
	}},
	{name: "a clock that was right", want: "fault-did-not-bite", tune: quiet, do: func(e *edit) bool {
		return e.fault(func(f *history.Fault) { f.Proven, f.Name, f.Targets = false, "clock", []string{"w1"} })
	}},
	{name: "a fault that never came", want: "fault-never-came", do: func(e *edit) bool {
		return e.expected(func(x *history.Expect) { x.Faults = append(slices.Clone(x.Faults), "f9") })
	}},
	{name: "too few cycles", want: "too-little-work", do: func(e *edit) bool {
		return e.expected(func(x *history.Expect) { x.MinCycles = map[string]int{"fault": 1 << 20} })
	}},
	{name: "a point that was not reached", want: "point-not-reached", do: func(e *edit) bool {
		return e.expected(func(x *history.Expect) { x.Must = []string{"nowhere"} })
	}},
	{name: "a threshold that is exceeded", want: "threshold-exceeded", do: func(e *edit) bool {
		return e.expected(func(x *history.Expect) {
			x.Thresholds = []history.Threshold{{Latency: "effect", Quantile: "max", Phase: "before", MaxMS: 1}}
		})
	}},
	{name: "a threshold that is not measured", want: "threshold-not-measured", do: func(e *edit) bool {
		return e.expected(func(x *history.Expect) {
			x.Thresholds = []history.Threshold{{Latency: "effect", Quantile: "max", Phase: "tea", MaxMS: 1}}
		})
	}},
	{name: "a process that grows", want: "process-grows", do: func(e *edit) bool {
		from, to := int64(0), int64(0)
		for _, p := range e.h.Phases() {
			switch p.Name {
			case history.PhaseBefore:
				from = p.From
			case history.PhaseRecover:
				to = p.To
			}
		}
		const looks = 100
		at := e.notes(history.NotePhase)[0]
		for i := range int64(looks) {
			e.insert(history.Event{TS: from + (to-from)*i/looks, Proc: history.Harness, Type: history.Note, Op: history.NoteUsage, Key: "w1.1",
				Details: &history.Details{Usage: &history.Usage{Descriptors: 30 + i}}, File: at.File, Line: at.Line})
		}
		return e.expected(func(x *history.Expect) {
			x.Thresholds = []history.Threshold{{Growth: history.GrowthDescriptors, By: 50}}
		})
	}},
	planned("no expectation", "no-expectation"),
	planned("shard that was not sealed", "end-not-read"),
	{name: "jobs that were left out", want: "arrivals-dropped", jobs: true, do: func(e *edit) bool {
		e.arrivals(1000, 11)
		return true
	}},
	{name: "a ledger that is emptied", want: "ledger-emptied", do: func(e *edit) bool {
		res := "res-lock-0"
		all := e.ledger(res)
		half := all[len(all)/2]
		seq, value := half.Ledger().Seq, int64(0)
		e.drop(func(ev *history.Event) bool {
			return ev.Op == history.NoteLedger && ev.Key == res && ev.Ledger().Seq <= seq
		})
		for _, n := range e.ledger(res) {
			n.Ledger().Seq -= seq
			if n.Ledger().Value != nil {
				value++
				n.Ledger().Value = ptr(value)
			}
		}
		f := e.final(res)
		f.Seq, f.Value = f.Seq-seq, ptr(value)
		return true
	}},
	// Statements.
	lint("rows-expire", "UPDATE locks USING TTL 60 SET a = 1 WHERE k = ? IF a = 0", "QUORUM", "SERIAL"),
	lint("client-timestamps", "UPDATE locks USING TIMESTAMP ? SET a = 1 WHERE k = ? IF a = 0", "QUORUM", "SERIAL"),
	lint("weak-read", "SELECT a FROM locks WHERE k = ?", "ONE", ""),
	lint("mixed-serial", "UPDATE locks SET b = 1 WHERE k = ? IF a = 0", "QUORUM", "LOCAL_SERIAL"),
	lint("weak-condition", "UPDATE locks SET b = 1 WHERE k = ? IF a = 0", "ONE", "SERIAL"),
	lint("statement-unfit", "SELECT a FROM locks ALLOW FILTERING", "QUORUM", ""),
	lint("ledger-emptied", "DELETE FROM sink WHERE resource = ?", "QUORUM", ""),
	lint("unconditional-write", "UPDATE ids SET next = 1 WHERE name = ?", "QUORUM", ""),
	// Rows and answers.
	{name: "tokens from nowhere", want: "tokens-not-from-row", do: func(e *edit) bool {
		n := 0
		for _, p := range e.all(history.OpLock, history.OK) {
			n++
			p.end.Token += int64(n * n * 1000)
		}
		return true
	}},
	{name: "a row that is deleted", want: "row-deleted", tune: quiet, do: inCycle(func(e *edit, h *held) {
		for _, p := range e.ops {
			if p.inv.From != nil && p.inv.Op == history.OpAcquire && *p.inv.From == *h.release.inv.To {
				p.inv.From = &history.Version{Absent: true}
			}
		}
	})},
	{name: "a resend whose refusal is believed", want: "resend-misread", tune: quiet, do: inCycle(func(e *edit, h *held) {
		end := h.release.end
		end.Type, end.Row, end.Sends = history.Fail, h.release.inv.To, []int64{h.release.inv.TS + 1, h.release.inv.TS + 2}
	})},
	planned("released by another client", "foreign-writer", "takeover-without-waiting"),
	planned("refused by a token that nobody raised", "sink-refuses-wrongly"),
	// Jobs.
	planned("job row of an earlier state", "rows-differ"),
	planned("job that never ends", "job-never-ends"),
	planned("job completed before its run finished", "completed-before-finish"),
	planned("job tried too often", "tried-too-often"),
	planned("acknowledged job that is in no shard", "acknowledged-and-lost"),
	planned("one key that has two ids", "key-with-two-ids"),
	planned("claim that was never confirmed", "run-not-settled"),
	planned("cancel acknowledged that no batch does", "command-not-carried-out"),
	planned("dead jobs told to be redriven, of which one never was", "command-not-carried-out"),
	planned("start decided after the deadline", "started-without-look"),
	planned("effect that a completed job lacks", "step-left-out"),
}

func (c editedCase) history(seed uint64) (*history.History, bool) {
	cfg := small(seed)
	if c.jobs {
		cfg = shortJobs(seed)
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	e := newEdit(simulate(cfg))
	e.draw = rand.New(rand.NewPCG(seed, 2)).IntN
	return e.h, c.do(e)
}

// TestEditedHistoriesAreExplained: each change of a legal history is named for what it is.
func TestEditedHistoriesAreExplained(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	var sum score
	t.Run("change", func(t *testing.T) {
		for _, c := range editedCases {
			t.Run(c.want+" "+c.name, func(t *testing.T) {
				t.Parallel()
				var n tally
				for seed := uint64(1); seed < 20 && n.red < 2; seed++ {
					h, ok := c.history(seed)
					if !ok {
						continue
					}
					n.explain(t, seed, h, Check(context.Background(), h, Options{}), c.want, c.also)
				}
				sum.add(t, n)
			})
		}
	})
	sum.check(t)
}

// TestUnfinishedIsExplained: what was not checked is said.
func TestUnfinishedIsExplained(t *testing.T) {
	t.Parallel()
	h := simulate(small(1))
	r := Check(context.Background(), h, Options{Search: time.Nanosecond})
	if e := Explain(h, r, Options{}); r.Verdict != Unknown || !slices.Equal(e.Best(), []string{"check-unfinished"}) {
		t.Errorf("%s: %v", r.Verdict, e.Best())
	}
}

// TestSurfacingWriteIsExplained: of the search alone, with one encoding and not the other.
func TestSurfacingWriteIsExplained(t *testing.T) {
	t.Parallel()
	s := resurrected(true, 50, 60)
	r := s.check(t, "")
	e := Explain(&s.h, r, Options{})
	if r.Verdict != Fail || !slices.Equal(e.Best(), []string{"given-up-write-surfaces"}) {
		t.Errorf("%s: %v", r.Verdict, e.Best())
	}
	checkChains(t, &s.h, e)
}

// TestScheduleAheadOfItsJobIsExplained: the mark of a nominal time is there, its job is not.
func TestScheduleAheadOfItsJobIsExplained(t *testing.T) {
	t.Parallel()
	y := newStory()
	y.skip = func(c history.Change) bool { return c.Job == "0-2" }
	h := y.tell()
	r := Check(context.Background(), h, Options{})
	e := Explain(h, r, Options{})
	if r.Verdict != Fail || !slices.Contains(e.Best(), "schedule-ahead-of-job") {
		t.Errorf("%s: %v", r.Verdict, e.Best())
	}
	checkChains(t, h, e)
}

// TestScheduleCountedAnewIsExplained: the next owner passes over what came before it.
func TestScheduleCountedAnewIsExplained(t *testing.T) {
	t.Parallel()
	y := newStory()
	edited(4100, func(e *history.Event) { e.OwnDetails().Changes = fire(4) })(y)
	h := y.tell()
	r := Check(context.Background(), h, Options{})
	e := Explain(h, r, Options{})
	if r.Verdict != Fail || !slices.Contains(e.Best(), "schedule-counted-anew") {
		t.Errorf("%s: %v", r.Verdict, e.Best())
	}
	checkChains(t, h, e)
}

// namedAlone are the mechanisms with tests of their own, to which a property's test file adds
// its.
var namedAlone = map[string]bool{
	"check-unfinished": true, "given-up-write-surfaces": true, "schedule-ahead-of-job": true, "end-ahead-of-next": true,
	"schedule-counted-anew": true, "paid-before-the-fence": true, "paid-by-run": true, "stock-overwritten": true, "host-too-busy": true,
	"id-without-queue": true, "no-key-is-a-key": true, "queue-paused-in-part": true, // TestFoundInJobs of package broken
	"run-not-ended": true, "backoff-exceeded": true, "delay-of-another-attempt": true, "jitter-ignored": true, // TestBackoffAndLimits
	"schedule-set-back": true, "overlap-not-kept": true, "removal-in-memory": true, // TestPolicies
	"trigger-repeated":       true, // TestTriggers
	"switch-in-memory":       true, // TestSwitches
	"once-fires-again":       true, // TestOnce
	"bounds-ignored":         true, // TestBounds
	"failure-policy-ignored": true, // TestSequences
	"no-token-checked":       true, // TestLostUpdateWithoutToken
	"cut-run-repeated":       true, // TestFoundInJobs of package broken, TestRescues
}

// TestEveryMechanismIsNamed: no mechanism is listed that no test has a history for, and
// each says what it is.
func TestEveryMechanismIsNamed(t *testing.T) {
	t.Parallel()
	named := maps.Clone(namedAlone)
	for _, c := range bugCases {
		named[c.named] = c.named != ""
	}
	for _, c := range editedCases {
		named[c.want] = true
	}
	for _, m := range realMistakes(t) {
		named[m.red.Mechanism] = true
	}
	for _, c := range lifeCases {
		if c.named != "" {
			named[c.named] = true
		}
	}
	for id, m := range property.MechanismByID {
		if !named[id] {
			t.Errorf("no test names %s", id)
		}
		if m.Statement == "" || len(m.Accounts) == 0 || strings.ToLower(id) != id {
			t.Errorf("%s: %+v", id, m)
		}
		for _, p := range m.Accounts {
			if !slices.ContainsFunc(property.All, func(c property.Check) bool { return c.ID == p }) {
				t.Errorf("%s: there is no property %s", id, p)
			}
		}
	}
	delete(named, "")
	for id := range named {
		if _, known := property.MechanismByID[id]; !known {
			t.Errorf("a test wants %s, which is none", id)
		}
	}
}

// TestExplanationKnowsNoNames: neither the system's name nor the run's plays a part, nor
// does the order of anything that has none.
func TestExplanationKnowsNoNames(t *testing.T) {
	t.Parallel()
	for _, b := range []bug{bugNoToken, bugHiLo, bugNotRead} {
		cfg := small(3)
		if b == bugNotRead {
			cfg = smallJobs(3)
		}
		cfg.bug = b
		h := simulate(cfg)
		r := Check(context.Background(), h, Options{})
		plain := Explain(h, r, Options{})
		for range 3 {
			for i := range h.Headers {
				h.Headers[i].System, h.Headers[i].Run = "broken/something-else", "sim"
			}
			if again := Explain(h, r, Options{}); !reflect.DeepEqual(plain, again) {
				t.Fatalf("%s: %+v\nand with another name: %+v", b, plain, again)
			}
		}
	}
}
