package explain

import (
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// TestFailIsToldInOneSentence: what is told of, and for which reason.
func TestFailIsToldInOneSentence(t *testing.T) {
	t.Parallel()
	red := func(id string, vs ...property.Violation) property.Property {
		return property.Property{ID: id, Status: property.StatusFail, Count: len(vs), Violations: vs}
	}
	inverted := []property.Violation{{Key: "r1", Message: "the sink accepted token 2 after 3"}, {Key: "r2", Message: "the sink accepted token 65 after 90"}}
	r := &property.Result{Verdict: property.Fail, Properties: []property.Property{red("P2", property.Violation{Message: "two writes"}), red("P3", inverted...), red("P4", property.Violation{Message: "lost update"})}}
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
		if got := AnswerOf(r, &Explanation{Causes: c.causes}).Sentence(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := AnswerOf(r, nil); got.What != inverted[0].Message || !slices.Equal(got.Properties, []string{"P3"}) {
		t.Errorf("without an explanation: %+v", got)
	}
	if r.Answer = (&property.Answer{What: "as it was told"}); AnswerOf(r, nil).Sentence() != "as it was told" {
		t.Error("an answer is made again")
	}
}

// TestFaultIsLongerThanALease: that a lease was over is said of faults that keep its holder from
// renewing, and of no others.
func TestFaultIsLongerThanALease(t *testing.T) {
	t.Parallel()
	take := &past.CAS{Op: past.Op{Invoke: &history.Event{Op: history.OpAcquire}}, To: &past.Version{Version: &history.Version{TTLMS: 6000}}}
	x := &property.Inquiry{Judgement: &property.Judgement{Past: &past.Past{Rows: []*past.Row{{CAS: []*past.CAS{take}}}}}}
	for _, c := range []struct {
		fault   string
		seconds int64
		want    string
	}{
		{"pause-worker", 10, "worker w1 was paused for 10.0 s, past its lease of 6.0 s"},
		{"pause-worker", 6, "worker w1 was paused for 6.0 s"},
		{"flaky-links", 10, "worker w1 had flaky links for 10.0 s"},
		{"slow-job", 10, "worker w1 was slow in its critical section for 10.0 s"},
		{"new-fault", 10, "worker w1 was under new-fault for 10.0 s"},
	} {
		window := history.FaultWindow{Fault: history.Fault{Name: c.fault, Targets: []string{"w1"}}, To: c.seconds * 1e9}
		if got := occasion(x, &property.Suspect{Procs: []string{"w1.1/c1"}}, []history.FaultWindow{window}); got != c.want {
			t.Errorf("%s: %q, want %q", c.fault, got, c.want)
		}
	}
}

// TestWhatIsNoVerdictSaysWhatToDo: what an INVALID or UNKNOWN run lacks, and the remedy.
func TestWhatIsNoVerdictSaysWhatToDo(t *testing.T) {
	t.Parallel()
	late := property.Property{ID: "P14", Status: property.StatusInvalid, Count: 2, Violations: []property.Violation{{Message: "fault f9 was not injected"}, {Message: "x"}}}
	r := &property.Result{Verdict: property.Invalid, Properties: []property.Property{late}}
	e := &Explanation{Causes: []Cause{{Mechanism: "fault-never-came", Rank: 1, Properties: []string{"P14"}}}}
	if got, want := AnswerOf(r, e).Sentence(), "the run proves nothing: fault f9 was not injected (the first of 2 reasons); "+remedies["fault-never-came"]; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := AnswerOf(r, nil); got.Do != "run it again" || !slices.Equal(got.Properties, []string{"P14"}) {
		t.Errorf("%+v", got)
	}
	r = &property.Result{Verdict: property.Unknown, Properties: []property.Property{{ID: "P2", Status: property.StatusUnknown, Detail: "no time"}, {ID: "P4", Status: property.StatusUnknown, Detail: "no time"}}}
	if got := AnswerOf(r, nil).Sentence(); !strings.HasPrefix(got, "no violation found, but not everything was checked: P2, P4: no time; check it again ") {
		t.Error(got)
	}
}

// TestAnswersKnowWhatThereIs: no list of an answer names what is not there.
func TestAnswersKnowWhatThereIs(t *testing.T) {
	t.Parallel()
	for id := range general {
		if _, known := property.MechanismByID[id]; !known {
			t.Errorf("there is no mechanism %s", id)
		}
	}
	for id, do := range remedies {
		if m, known := property.MechanismByID[id]; !known || !m.OfRecord || do == "" {
			t.Errorf("%s: %+v, %q", id, m, do)
		}
	}
	for _, id := range slices.Concat(reportOrder, delayed, selfExplaining) {
		if !slices.ContainsFunc(property.All, func(c property.Check) bool { return c.ID == id }) {
			t.Errorf("there is no property %s", id)
		}
	}
}
