package linear

import "testing"

// TestRaisesThatAreNumbered: a raise to the token of a seal has an entry of its own, and one that comes
// again has none.
func TestRaisesThatAreNumbered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from sinkState
		step sinkStep
		want sinkState
		ok   bool
	}{
		"the first one":      {sinkState{seen: 6, seq: 10}, sinkStep{token: 7, seq: 11}, sinkState{seen: 7, seq: 11}, true},
		"after a seal":       {sinkState{seen: 7, seq: 11}, sinkStep{token: 7, seq: 12}, sinkState{seen: 7, seq: 12}, true},
		"again":              {sinkState{seen: 7, seq: 14}, sinkStep{token: 7, seq: 12}, sinkState{seen: 7, seq: 14}, true},
		"below the seal":     {sinkState{seen: 7, seq: 11}, sinkStep{token: 6, seq: 12}, sinkState{}, false},
		"in another's place": {sinkState{seen: 6, seq: 12}, sinkStep{token: 7, seq: 11}, sinkState{}, false},
	} {
		if ok, got := c.step.step(c.from); ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %v, %+v, want %v, %+v", name, ok, got, c.ok, c.want)
		}
	}
}
