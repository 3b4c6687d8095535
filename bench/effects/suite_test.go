package effects

import (
	"slices"
	"testing"

	"fencepost/bench"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"few rounds":   {Config: bench.Config{Rounds: 4}},
		"no threads":   {Threads: []int{0}},
		"many threads": {Threads: []int{41}},
		"twice":        {Threads: []int{2, 2}},
	} {
		if s, err := New(c); err == nil {
			t.Errorf("%s: accepted as %+v", name, s.Config)
		}
	}
}

func TestDefaultPlan(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range s.plan.Arms {
		ids = append(ids, a.ID+" "+a.Baseline+" "+a.Control)
	}
	want := []string{"E/4 T/4 ", "T/4  ", "E2/4 T/4 E/4", "E/16 T/16 ", "T/16  ", "E/1 T/1 ", "T/1  "}
	if !slices.Equal(ids, want) {
		t.Errorf("arms %q, want %q", ids, want)
	}
}
