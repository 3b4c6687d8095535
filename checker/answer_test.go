package checker

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestFailIsToldInOneSentence: what is told of, and for which reason.
func TestFailIsToldInOneSentence(t *testing.T) {
	t.Parallel()
	red := func(id string, vs ...Violation) Property {
		return Property{ID: id, Status: StatusFail, Count: len(vs), Violations: vs}
	}
	inverted := []Violation{{Key: "r1", Message: "the sink accepted token 2 after 3"}, {Key: "r2", Message: "the sink accepted token 65 after 90"}}
	r := &Result{Verdict: Fail, Properties: []Property{red("P2", Violation{Message: "two writes"}), red("P3", inverted...), red("P4", Violation{Message: "lost update"})}}
	paused := "worker w1 was paused for 9.0 s, past its lease of 5.0 s"
	none := Cause{Mechanism: "sink-checks-no-token", Rank: 1, Statement: "the sink does not compare tokens", Properties: []string{"P3", "P4"}, Key: "r2", Occasion: paused}
	rival := none
	rival.Mechanism = "sink-remembers-per-process"
	rivals := []Cause{none, rival}
	rivals[0].Alternatives, rivals[1].Alternatives = []string{rival.Mechanism}, []string{none.Mechanism}
	general, rows, weaker := none, none, none
	general.Mechanism = "sink-forgets-tokens"
	rows.Properties = []string{"P2"}
	elsewhere := rows
	elsewhere.Mechanism = "rows-expire"
	weaker.Rank = 2
	for name, c := range map[string]struct {
		causes []Cause
		want   string
	}{
		"a mistake":                  {[]Cause{none, weaker}, "the sink accepted token 65 after 90, because " + paused + ", and the sink does not compare tokens"},
		"rivals":                     {rivals, "the sink accepted token 65 after 90, because " + paused},
		"a mistake in general":       {[]Cause{general}, "the sink accepted token 65 after 90, because " + paused},
		"delays do not explain it":   {[]Cause{rows}, "two writes, because the sink does not compare tokens"},
		"mistakes beside each other": {[]Cause{none, general}, "the sink accepted token 65 after 90"},
		"mistakes elsewhere":         {[]Cause{none, elsewhere}, "the sink accepted token 65 after 90, because " + paused + ", and the sink does not compare tokens"},
		"nothing explains it":        {nil, "the sink accepted token 2 after 3"},
	} {
		if got := r.Told(&Explanation{Causes: c.causes}).Sentence(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := r.Told(nil); got.What != inverted[0].Message || !slices.Equal(got.Properties, []string{"P3"}) {
		t.Errorf("without an explanation: %+v", got)
	}
	if r.Answer = (&Answer{What: "as it was told"}); r.Told(nil).Sentence() != "as it was told" {
		t.Error("an answer is made again")
	}
}

// TestLateEffectIsTold: of a real history, with the fault that befell the worker.
func TestLateEffectIsTold(t *testing.T) {
	t.Parallel()
	cfg := small(0)
	cfg.bug = bugNoToken
	r := Check(context.Background(), simulate(cfg), Options{})
	if a := r.Answer; r.Verdict != Fail || !strings.HasPrefix(a.What, "the sink accepted token ") || !strings.HasSuffix(r.Summary, "the sink does not compare tokens") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

// TestPassTellsWhatItRestsOn: a line each, and nothing that did not occur is claimed.
func TestPassTellsWhatItRestsOn(t *testing.T) {
	t.Parallel()
	r := Check(context.Background(), simulate(small(1)), Options{})
	a := r.Answer
	if r.Verdict != Pass || a.What != "no violation in "+plural(r.Counts.Operations, "operation") || a.Because+a.Do != "" {
		t.Fatalf("%s: %+v", r.Verdict, a)
	}
	c := r.Counts
	c.Faults, c.FaultsProven, c.FaultNames, c.Takeovers, c.Grants, c.StaleRefused, c.Unknowns, c.UnknownSettled = 3, 3, map[string]int{"pause-worker": 2, "clock": 1}, 1, 9, 0, 5, 4
	c.Resends, c.LeasesLost, c.ServerTimeouts = 0, 0, 2
	r = &Result{Verdict: Pass, Counts: c, Properties: []Property{
		{ID: "P5", Status: StatusNA, Detail: "no jobs"}, {ID: "P8", Status: StatusNA, Detail: notPromised}, {ID: "P12", Status: StatusNA, Detail: "no jobs"}, {ID: "P14", Status: StatusNA},
	}}
	a2 := r.Told(nil)
	if want := []string{
		"3 faults, proven: clock, pause-worker (2)", "1 takeover of 9 grants", "5 unknown outcomes, 4 settled by the final rows", "2 writes given up by a coordinator",
	}; !slices.Equal(a2.Exercised, want) {
		t.Errorf("exercised %q", a2.Exercised)
	}
	if want := []string{
		"stale writes: none reached the sink", "resent requests: none was sent again", "lost leases: none was lost", "P5, P12: no jobs", "P8: " + notPromised,
		"other faults, other timing, and what needs more time",
	}; !slices.Equal(a2.NotExercised, want) {
		t.Errorf("not exercised %q", a2.NotExercised)
	}
}

// TestWhatIsNoVerdictSaysWhatToDo: what an INVALID or UNKNOWN run lacks, and the remedy.
func TestWhatIsNoVerdictSaysWhatToDo(t *testing.T) {
	t.Parallel()
	late := Property{ID: "P14", Status: StatusInvalid, Count: 2, Violations: []Violation{{Message: "fault f9 was not injected"}, {Message: "x"}}}
	r := &Result{Verdict: Invalid, Properties: []Property{late}}
	e := &Explanation{Causes: []Cause{{Mechanism: "fault-never-came", Rank: 1, Properties: []string{"P14"}}}}
	if got, want := r.Told(e).Sentence(), "the run proves nothing: fault f9 was not injected (the first of 2 reasons); "+remedies["fault-never-came"]; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := r.Told(nil); got.Do != "run it again" || !slices.Equal(got.Properties, []string{"P14"}) {
		t.Errorf("%+v", got)
	}
	r = &Result{Verdict: Unknown, Properties: []Property{{ID: "P2", Status: StatusUnknown, Detail: "no time"}, {ID: "P4", Status: StatusUnknown, Detail: "no time"}}}
	if got := r.Told(nil).Sentence(); !strings.HasPrefix(got, "no violation found, but not everything was checked: P2, P4: no time; check it again ") {
		t.Error(got)
	}
}

// TestAnswersKnowWhatThereIs: no list of an answer names what is not there.
func TestAnswersKnowWhatThereIs(t *testing.T) {
	t.Parallel()
	for id := range restating {
		if _, known := mechanisms[id]; !known {
			t.Errorf("there is no mechanism %s", id)
		}
	}
	for id, do := range remedies {
		if m, known := mechanisms[id]; !known || !m.ofRecord || do == "" {
			t.Errorf("%s: %+v, %q", id, m, do)
		}
	}
	for _, id := range slices.Concat(telling, late, stating) {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.id == id }) {
			t.Errorf("there is no property %s", id)
		}
	}
}
