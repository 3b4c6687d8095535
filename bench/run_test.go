package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/reports/measure"
)

// fake is a suite of two arms; what fails is told by what.
type fake struct {
	*suite
	fails string // "window", "close", "then", "finish"
	then  bool   // it has been called
}

var errFake = errors.New("fails on purpose")

func (f *fake) fail(what string) error {
	if f.fails == what {
		return errFake
	}
	return nil
}

func (f *fake) Design() Design {
	return Design{Plan: f.plan, WarmUp: []Arm{{ID: "warmup", Threads: 1}}, Then: func(context.Context, *Result, *Progress) error {
		f.then = true
		return f.fail("then")
	}}
}

func (f *fake) Open(context.Context, *Env) error         { return f.fail("open") }
func (f *fake) Subject(a Arm, _ uint64) (Subject, error) { return &fakeArm{f, a}, nil }
func (f *fake) Round(samples []Sample) string            { return "a round" }
func (f *fake) Finish(context.Context, *Result) error    { return f.fail("finish") }

type fakeArm struct {
	f *fake
	a Arm
}

func (a *fakeArm) Window(_ context.Context, w Window) (Sample, error) {
	s := Sample{Arm: a.a.ID, Round: w.Round, Seconds: 1, OK: 10, PerThread: []int64{10}, Latency: measure.NewHistogram()}
	for range 10 {
		s.record(time.Millisecond, nil)
	}
	if a.a.ID == "B" && w.Round == 3 {
		return s, a.f.fail("window")
	}
	return s, nil
}

func (a *fakeArm) Close(context.Context) error {
	if a.a.ID == "warmup" {
		return a.f.fail("warm-up")
	}
	return a.f.fail("close")
}

// TestMeasureGoesOn: what fails after the warm-up is a problem of the result, not the
// loss of everything that was measured.
func TestMeasureGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fails    string
		problem  string // in one of the problems; "" for none
		noResult bool
		samples  int
	}{
		{"", "", false, 12},
		{"open", "", true, 0},
		{"warm-up", "", true, 0},
		{"window", "B, round 3: fails on purpose", false, 11},
		{"close", "A: fails on purpose", false, 12},
		{"then", "after the rounds: fails on purpose", false, 12},
		{"finish", "not everything could be looked at", false, 12},
	} {
		plan, err := NewPlan(Config{Rounds: 6, Window: time.Second}, [][]Arm{{{ID: "A", Threads: 1}, {ID: "B", Threads: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		f := &fake{suite: &suite{plan: plan}, fails: c.fails}
		r, err := Measure(t.Context(), f, &Env{}, NewProgress(nil))
		if (err != nil) != c.noResult {
			t.Errorf("%s: error %v", c.fails, err)
		}
		if c.noResult || err != nil {
			continue
		}
		if !f.then || len(r.Samples) != c.samples {
			t.Errorf("%s: %d samples, want %d; went on to the end: %v", c.fails, len(r.Samples), c.samples, f.then)
		}
		if ok := slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, c.problem) }); c.problem != "" && !ok || c.problem == "" && len(r.Problems) > 0 {
			t.Errorf("%s: problems %q, want %q", c.fails, r.Problems, c.problem)
		}
		if want := ExitInvalid; c.problem != "" && r.ExitCode() != want {
			t.Errorf("%s: exit code %d, want %d", c.fails, r.ExitCode(), want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	plan, err := NewPlan(Config{}, [][]Arm{{{ID: "A", Threads: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &fake{suite: &suite{plan: plan}}
	r, err := Measure(ctx, f, &Env{}, NewProgress(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) > 0 || f.then || r.ExitCode() != ExitInvalid || !strings.Contains(strings.Join(r.Problems, ";"), "interrupted in round 0") {
		t.Errorf("%d samples, problems %q", len(r.Samples), r.Problems)
	}
}

// TestMain doubles as the agents that are tested.
func TestMain(m *testing.M) {
	if how := os.Getenv(actEnv); how != "" {
		os.Exit(act(how))
	}
	goleak.VerifyTestMain(m)
}

func TestPlanWithoutArms(t *testing.T) {
	t.Parallel()
	p, err := NewPlan(Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Order) != 0 || p.Estimate(time.Second) != 0 {
		t.Errorf("a plan without arms has rounds %v and takes %s", p.Order, p.Estimate(time.Second))
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	p, err := NewPlan(Config{Rounds: 5, Window: 4 * time.Second, Lead: time.Second}, [][]Arm{{{ID: "a"}}, {{ID: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	// Two arms: a rehearsal of 1 s, five windows of 4 s, and for each of the six 1 s of
	// lead and 1 s between.
	if got, want := p.Estimate(time.Second), 2*(1+20+12)*time.Second; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
