package bench

import (
	"testing"
	"time"
)

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
