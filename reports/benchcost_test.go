package reports

import (
	"math"
	"testing"
)

// TestDearerThan: what an arm's clients take more is seen, however fast the machine is in a round; and nothing
// is seen where a part was not read.
func TestDearerThan(t *testing.T) {
	t.Parallel()
	b := BenchResult{}
	for _, a := range []struct {
		id     string
		client float64
	}{{"A", 0.2}, {"B", 0.3}, {"C", 0.2}} {
		arm := BenchArm{ID: a.id}
		for round := range 8 {
			slow := 1 + float64(round%4)
			if a.id == "B" {
				slow = 3
			}
			spent := map[string]float64{SpentStoreCPU: 1.8 * slow, SpentClientCPU: a.client * slow}
			if a.id == "C" {
				delete(spent, SpentClientCPU)
			}
			arm.Rounds = append(arm.Rounds, BenchRound{Round: round + 1, Seconds: 2, OK: 100, Cost: &BenchCost{Ops: 100, Spent: spent}})
		}
		b.Arms = append(b.Arms, arm)
	}
	ns, err := b.Numbers()
	must(t, err)
	if e := ns[1].DearerThan(ns[0]); math.Abs(e.Median-1.05) > 1e-9 || e.High-e.Low > 1e-9 || e.N != 8 {
		t.Errorf("B takes %+v times as much as A", e)
	}
	if part := ns[2].storePart(); len(part) != 0 || ns[0].DearerThan(ns[2]).N != 0 || ns[2].DearerThan(ns[0]).N != 0 {
		t.Errorf("without the clients' processor time: %v", part)
	}
}
