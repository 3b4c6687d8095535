package locks

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/bench"
)

// layout is the plan of a suite.
func layout(c Config) (*bench.Plan, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	return s.plan, nil
}

func TestParseContentions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want []Contention
		err  string
	}{
		{"low", []Contention{Low}, ""},
		{"low,high", []Contention{Low, High}, ""},
		{" high , medium", []Contention{High, Medium}, ""},
		{"", nil, "unknown contention"},
		{"low,low", nil, "twice"},
		{"extreme", nil, `unknown contention "extreme"`},
	} {
		got, err := ParseContentions(c.in)
		if c.err == "" && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("%q: %v, %v; want %v", c.in, got, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: error %v, want one with %q", c.in, err, c.err)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		c             Contention
		threads, want int
	}{{Low, 1, 1}, {Low, 32, 32}, {Medium, 1, 10}, {Medium, 32, 10}, {High, 1, 1}, {High, 32, 1}} {
		if got := c.c.Keys(c.threads); got != c.want {
			t.Errorf("%s with %d threads: %d keys, want %d", c.c, c.threads, got, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no contention":   {},
		"few rounds":      {Contention: Low, Config: bench.Config{Rounds: 4}},
		"short window":    {Contention: Low, Config: bench.Config{Window: time.Millisecond}},
		"no threads":      {Contention: Low, Threads: []int{0}},
		"threads twice":   {Contention: Low, Threads: []int{8, 8}},
		"too many":        {Contention: Low, Threads: []int{5000}},
		"short ttl":       {Contention: Low, TTLs: []time.Duration{time.Millisecond}},
		"ttl twice":       {Contention: Low, TTLs: []time.Duration{6 * time.Second, 6 * time.Second}},
		"negative rounds": {Contention: Low, Config: bench.Config{Rounds: -1}},
	} {
		if p, err := layout(c); err == nil {
			t.Errorf("%s: accepted as %+v", name, p.Config)
		}
	}
}

func TestDefaultPlan(t *testing.T) {
	t.Parallel()
	p, err := layout(Config{Contention: High, Config: bench.Config{Seed: 7}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range p.Arms {
		ids = append(ids, a.ID)
	}
	want := []string{
		"C/1", "W/1", "L/1/6s", "L/1/30s", "L2/1/6s", "LR/1/6s",
		"C/8", "W/8", "L/8/6s", "L/8/30s", "L2/8/6s", "LR/8/6s",
		"C/32", "W/32", "L/32/6s", "L/32/30s", "L2/32/6s", "LR/32/6s", "LO/32/6s",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("arms %v, want %v", ids, want)
	}
	s, err := New(Config{Contention: High})
	if err != nil {
		t.Fatal(err)
	}
	const warmUp = time.Minute
	if d := s.Design().Estimate + warmUp; d > 7*time.Minute {
		t.Errorf("the default plan takes %s with its warm-up: more than 7 minutes", d)
	}
}

func TestPlanProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Contention: rapid.SampledFrom(Contentions()).Draw(t, "contention"),
			Threads:    rapid.SliceOfNDistinct(rapid.IntRange(1, 64), 1, 4, rapid.ID).Draw(t, "threads"),
			TTLs: rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(1, 60).Draw(t, "s")) * time.Second
			}), 1, 3, rapid.ID).Draw(t, "ttls"),
			Config: bench.Config{Rounds: rapid.IntRange(bench.MinRounds, 12).Draw(t, "rounds"), Seed: rapid.Uint64().Draw(t, "seed")},
		}
		p, err := layout(c)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := layout(c)
		if !reflect.DeepEqual(p, again) {
			t.Fatal("the same seed gave another plan")
		}
		if len(p.Order) != c.Rounds+1 {
			t.Fatalf("%d rounds with the rehearsal, want %d", len(p.Order), c.Rounds+1)
		}
		seen := map[string]bool{}
		for _, a := range p.Arms {
			if seen[a.ID] {
				t.Fatalf("two arms are called %s", a.ID)
			}
			seen[a.ID] = true
			for _, ref := range []string{a.Ceiling, a.Control} {
				if ref == "" {
					continue
				}
				r, err := p.Arm(ref)
				if err != nil || r.Threads != a.Threads {
					t.Fatalf("%s refers to %q: %+v, %v", a.ID, ref, r, err)
				}
				if a.Open.Part > 0 && a.Open.Of == "" {
					t.Fatalf("%s is offered at a part of nothing's rate", a.ID)
				}
				if ref == a.Control && (r.TTL != a.TTL || r.Kind != a.Kind) {
					t.Fatalf("the control %s is no copy of %s", a.ID, ref)
				}
			}
		}
		for n, order := range p.Order {
			all := slices.Sorted(slices.Values(order))
			for i, arm := range all {
				if i != arm {
					t.Fatalf("round %d runs %v: not every arm once", n, order)
				}
			}
			// Arms with the same number of threads run side by side.
			changes := 0
			for i := 1; i < len(order); i++ {
				if p.Arms[order[i]].Threads != p.Arms[order[i-1]].Threads {
					changes++
				}
			}
			if changes != len(c.Threads)-1 {
				t.Fatalf("round %d changes threads %d times in %v", n, changes, order)
			}
		}
	})
}

func TestOrderDiffersByRoundAndSeed(t *testing.T) {
	t.Parallel()
	a, err := layout(Config{Contention: Low, Config: bench.Config{Seed: 1}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := layout(Config{Contention: Low, Config: bench.Config{Seed: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(a.Order, b.Order) {
		t.Error("two seeds gave the same order")
	}
	same := 0
	for i := 1; i < len(a.Order); i++ {
		if slices.Equal(a.Order[i], a.Order[i-1]) {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d successive rounds have the same order", same)
	}
}

// TestClaim: the headline compares arms that run, with the most threads.
func TestClaim(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Contention: High, Threads: []int{32, 1}})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Design().Claim
	if c == nil || c.Arm != "L/32/6s" || c.To != "C/32" || c.Setting != "high contention, 32 clients" {
		t.Fatalf("%+v", c)
	}
	for _, id := range []string{c.Arm, c.To} {
		if _, err := s.Design().Plan.Arm(id); err != nil {
			t.Error(err)
		}
	}
}
