package run

import (
	"reflect"
	"testing"

	"fencepost/harness/plan"
	"fencepost/harness/scenario"
)

func TestLanesKeepOrder(t *testing.T) {
	t.Parallel()
	steps := []plan.Step{{Step: scenario.Step{Lane: "a", Repeat: 1}}, {Step: scenario.Step{Repeat: 2}}, {Step: scenario.Step{Lane: "b", Repeat: 3}}, {Step: scenario.Step{Lane: "a", Repeat: 4}}, {Step: scenario.Step{Repeat: 5}}}
	var got [][]int
	for _, lane := range lanes(steps) {
		var ids []int
		for _, st := range lane {
			ids = append(ids, st.Repeat)
		}
		got = append(got, ids)
	}
	if want := [][]int{{1, 4}, {2}, {3}, {5}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
