package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/internal/docpage"
)

// made is a result of a run of eight rounds with noise: of costs 4 %, of rates and latencies 20 %.
// change are factors by scenario and name of what is spent, or "rate". Only the lock cycle has
// latencies, drawn from pool if there is one: histograms take long to make.
func made(seed uint64, change map[string]float64, pool ...string) BenchResult {
	return madeOf(seed, 8, 0.04, change, pool...)
}

// madeOf is made with so many rounds, and that noise of processor time.
func madeOf(seed uint64, rounds int, cpu float64, change map[string]float64, pool ...string) BenchResult {
	rng := rand.New(rand.NewPCG(seed, 7))
	noisy := func(v, noise float64) float64 { return v * math.Exp(noise*rng.NormFloat64()) }
	b := BenchResult{
		Name: fmt.Sprintf("run-%d", seed), Seed: seed, Cluster: "up", Versions: map[string]string{"paxos_variant": "v2", "cassandra": "5.0.6"},
		Machine: map[string]string{"cores": "2"},
	}
	for _, a := range []BenchArm{
		{ID: "C/8", Scenario: "bare", LWTsPerOp: 1},
		{ID: "L/8/6s", Scenario: "lock", LWTsPerOp: 2, Ceiling: "C/8"},
		{ID: "L2/8/6s", Scenario: "lock", LWTsPerOp: 2, Ceiling: "C/8", Control: "L/8/6s"},
		{ID: "W/8", Scenario: "write"},
	} {
		a.Threads, a.Contention = 8, "low"
		factor := func(of string) float64 {
			if f, ok := change[a.Scenario+" "+of]; ok {
				return f
			}
			return 1
		}
		for round := range rounds {
			rate := noisy(300, 0.2) * factor("rate")
			ops := int64(2 * rate)
			spent := func(of string, each, noise float64) float64 { return noisy(each*factor(of), noise) * float64(ops) }
			latency := ""
			if a.ID == "L/8/6s" && len(pool) > 0 {
				latency = pool[rng.IntN(len(pool))]
			}
			a.Rounds = append(a.Rounds, BenchRound{
				Round: round + 1, Seconds: 2, OK: ops, Latency: latency,
				Cost: &BenchCost{Ops: ops, Spent: map[string]float64{
					SpentClientCPU: spent(SpentClientCPU, 0.0004, cpu), SpentStoreCPU: spent(SpentStoreCPU, 0.003, cpu),
					SpentNetBytes: spent(SpentNetBytes, 9000, 0.04), SpentDiskBytes: spent(SpentDiskBytes, 700, 0.04),
					SpentLWTs: spent(SpentLWTs, a.LWTsPerOp, 0), SpentRequests: spent(SpentRequests, max(a.LWTsPerOp, 1), 0),
				}},
			})
		}
		b.Arms = append(b.Arms, a)
	}
	return b
}

// found are the quantities with that verdict, as "ARM QUANTITY".
func (c BenchComparison) found(v BenchVerdict) (out []string) {
	for _, d := range c.Differences {
		if d.Verdict == v {
			out = append(out, d.Arm+" "+d.Quantity)
		}
	}
	return out
}

func compareMade(t testing.TB, seed uint64, change map[string]float64, pool ...string) BenchComparison {
	t.Helper()
	c, err := CompareBenches(made(2*seed, nil, pool...), made(2*seed+1, change, pool...))
	must(t, err)
	return c
}

func TestEqualBenchesAreNotDistinguishable(t *testing.T) {
	t.Parallel()
	var pool []string
	rng := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		pool = append(pool, latencies(t, rng, 200, time.Duration(25e6*math.Exp(0.2*rng.NormFloat64()))))
	}
	alarms, quantities := 0, 0
	for seed := range uint64(100) {
		c := compareMade(t, seed, nil, pool...)
		if found := slices.Concat(c.found(BenchWorse), c.found(BenchBetter)); len(found) > 0 {
			alarms++
			t.Logf("seed %d: %q", seed, found)
		}
		if len(c.Worse()) > 0 {
			t.Errorf("seed %d: a gated cost is worse", seed)
		}
		quantities = len(c.Differences)
	}
	if alarms > 5 {
		t.Errorf("%d of 100 comparisons of equal things found a difference", alarms)
	}
	// Of each arm 7 costs and the rate; of two the ratio to the ceiling, of one 3 latencies.
	if quantities != 4*8+2+3 {
		t.Errorf("%d quantities were compared", quantities)
	}
}

func TestBenchDifferencesAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change map[string]float64
		want   BenchVerdict
		what   string // must be found in 95 of 100
		code   int    // number of gated costs that are worse then, at least
	}{
		{"a cost 15 % higher", map[string]float64{"lock net_bytes": 1.15}, BenchWorse, "L/8/6s net_bytes_per_op", 1},
		{"a part of a cost", map[string]float64{"lock store_cpu_s": 1.2}, BenchWorse, "L/8/6s cpu_s_per_1000", 1},
		{"one request more", map[string]float64{"lock lwts": 1.5}, BenchWorse, "L/8/6s lwt_per_op", 1},
		{"a cost that is not gated", map[string]float64{"lock disk_bytes": 1.3}, BenchWorse, "L/8/6s bytes_per_op", 0},
		{"a cost 15 % lower", map[string]float64{"lock net_bytes": 0.85}, BenchBetter, "L/8/6s net_bytes_per_op", 0},
		{"a rate lower by half", map[string]float64{"lock rate": 0.5}, BenchWorse, "L/8/6s ops_per_s", 0},
		{"a rate twice as high", map[string]float64{"lock rate": 2}, BenchBetter, "L/8/6s ops_per_s", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, gated := 0, 0
			for seed := range uint64(100) {
				got := compareMade(t, seed, c.change)
				if slices.Contains(got.found(c.want), c.what) {
					n++
				}
				if len(got.Worse()) > 0 {
					gated++
				}
			}
			t.Logf("found in %d of 100, gated in %d", n, gated)
			if n < 95 || c.code > 0 && gated < 95 || c.code == 0 && gated > 0 {
				t.Errorf("found in %d of 100, gated in %d", n, gated)
			}
		})
	}
}

// onSlowerMachine makes everything take 1.376 times as much processor time.
func (b BenchResult) onSlowerMachine() {
	for _, a := range b.Arms {
		for _, r := range a.Rounds {
			r.Cost.Spent[SpentClientCPU] *= 1.2
			r.Cost.Spent[SpentStoreCPU] *= 1.4
		}
	}
}

// TestAnotherMachine: where everything takes more processor time, also bare requests, nothing is told
// apart, and it is said; what takes more than they do is found.
func TestAnotherMachine(t *testing.T) {
	t.Parallel()
	alarms, found, missed := 0, 0, 0
	for seed := range uint64(100) {
		for _, change := range []map[string]float64{nil, {"lock store_cpu_s": 1.2}} {
			older, newer := made(2*seed, nil), made(2*seed+1, change)
			newer.onSlowerMachine()
			c, err := CompareBenches(older, newer)
			must(t, err)
			worse := slices.DeleteFunc(c.found(BenchWorse), func(what string) bool { return !strings.Contains(what, "cpu_s") })
			switch {
			case change == nil && len(worse) > 0:
				alarms++
				t.Logf("seed %d: %q", seed, worse)
			case change != nil && slices.Contains(worse, "L/8/6s cpu_s_per_1000"):
				found++
			}
			if b := c.Bare; change == nil && (b.Low > 1.376 || b.High < 1.376) {
				missed++
				t.Logf("seed %d: a bare request takes %s [%s, %s] times as much", seed, b.Ratio, b.Low, b.High)
			}
		}
	}
	if alarms > 2 || found < 95 || missed > 10 {
		t.Errorf("a slower machine was taken for a difference in %d of 100, a difference on it was found in %d, and how much slower it is was wrong in %d",
			alarms, found, missed)
	}
}

// inWeather makes all arms of a round take more or less processor time alike, and the rounds beside it by
// about as much.
func (b BenchResult) inWeather(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	const keeps, deviation = 0.9, 0.15
	weather := rng.NormFloat64()
	for round := range b.Arms[0].Rounds {
		for _, a := range b.Arms {
			for _, of := range []string{SpentClientCPU, SpentStoreCPU} {
				a.Rounds[round].Cost.Spent[of] *= math.Exp(deviation * weather)
			}
		}
		weather = keeps*weather + math.Sqrt(1-keeps*keeps)*rng.NormFloat64()
	}
}

// TestMachineThatIsSlowForMinutes: it is taken for a difference in no comparison of equal runs, and a
// difference is found beside it.
func TestMachineThatIsSlowForMinutes(t *testing.T) {
	t.Parallel()
	alarms, found := 0, 0
	for seed := range uint64(50) {
		for _, change := range []map[string]float64{nil, {"lock store_cpu_s": 1.3, "lock client_cpu_s": 1.3}} {
			older, newer := madeOf(2*seed, 16, 0.1, nil), madeOf(2*seed+1, 16, 0.1, change)
			older.inWeather(2 * seed)
			newer.inWeather(2*seed + 1)
			c, err := CompareBenches(older, newer)
			must(t, err)
			switch {
			case change == nil && len(c.Worse()) > 0:
				alarms++
				t.Logf("seed %d: %q", seed, c.found(BenchWorse))
			case change != nil && slices.Contains(c.found(BenchWorse), "L/8/6s cpu_s_per_1000"):
				found++
			}
		}
	}
	if alarms > 0 || found < 45 {
		t.Errorf("equal runs were told apart in %d of 50, and a difference of 30 %% was found in %d", alarms, found)
	}
}

// TestBareRequests: a contended operation of several requests is no dearer machine; on the same machine,
// and without ceilings or their requests, processor time is compared as it is.
func TestBareRequests(t *testing.T) {
	t.Parallel()
	older, newer := made(1, nil), made(2, nil)
	for _, r := range newer.Arms[0].Rounds {
		for _, of := range []string{SpentClientCPU, SpentStoreCPU, SpentRequests} {
			r.Cost.Spent[of] *= 3
		}
	}
	c, err := CompareBenches(older, newer)
	must(t, err)
	if c.Bare.Ratio < 0.9 || c.Bare.Ratio > 1.1 {
		t.Errorf("a bare request takes %s times as much", c.Bare.Ratio)
	}
	if slices.ContainsFunc(c.Differences, func(d BenchDifference) bool { return d.Relative }) {
		t.Errorf("on the same machine: %+v", c)
	}
	newer.onSlowerMachine()
	c, err = CompareBenches(older, newer)
	must(t, err)
	for _, d := range c.Differences {
		if want := strings.Contains(d.Quantity, "cpu_s"); d.Relative != want {
			t.Errorf("%s %s: relative %v", d.Arm, d.Quantity, d.Relative)
		}
	}
	for _, r := range newer.Arms[0].Rounds {
		delete(r.Cost.Spent, SpentRequests)
	}
	c, err = CompareBenches(older, newer)
	must(t, err)
	if c.Bare != nil || slices.ContainsFunc(c.Differences, func(d BenchDifference) bool { return d.Relative }) {
		t.Errorf("without the requests of bare arms: %+v", c)
	}
}

// TestNoiseOfCopies: an interval is as wide as the difference between two equal arms of either run.
func TestNoiseOfCopies(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"old", "new"} {
		older, newer := made(1, nil), made(2, map[string]float64{"write net_bytes": 1.5})
		unsteady := map[string]*BenchResult{"old": &older, "new": &newer}[side]
		for i := range unsteady.Arms[2].Rounds {
			unsteady.Arms[2].Rounds[i].Cost.Spent[SpentNetBytes] *= 2
		}
		c, err := CompareBenches(older, newer)
		must(t, err)
		d := c.of("W/8", "net_bytes_per_op")
		if d.Verdict != BenchSame || d.Noise < 1.8 || d.Low > d.Ratio/d.Noise || d.High < d.Ratio*d.Noise {
			t.Errorf("%s has unequal copies: %+v", side, d)
		}
	}
}

// TestWeatherOfSomeArms: what makes bare requests dearer with as many threads, and no others, is no
// difference of an arm.
func TestWeatherOfSomeArms(t *testing.T) {
	t.Parallel()
	weather := func(bare float64) BenchDifference {
		older, newer := made(1, nil), made(2, nil)
		for _, b := range []*BenchResult{&older, &newer} {
			other := made(b.Seed+10, nil).Arms[0]
			other.ID, other.Threads = "C/1", 1
			b.Arms[3].Ceiling = other.ID
			b.Arms = append(b.Arms, other)
		}
		for _, i := range []int{1, 2, 3} { // with 8 threads
			dearer(newer.Arms[i], 1.4)
		}
		dearer(newer.Arms[0], bare)
		c, err := CompareBenches(older, newer)
		must(t, err)
		return c.of("L/8/6s", "cpu_s_per_1000")
	}
	if d := weather(1.4); d.Verdict != BenchSame {
		t.Errorf("bare requests are as much dearer: %+v", d)
	}
	if d := weather(1); d.Verdict != BenchWorse {
		t.Errorf("bare requests are not: %+v", d)
	}
}

// dearer makes an arm's operations take so many times as much processor time.
func dearer(a BenchArm, factor float64) {
	for _, r := range a.Rounds {
		r.Cost.Spent[SpentClientCPU] *= factor
		r.Cost.Spent[SpentStoreCPU] *= factor
	}
}

// of is the difference of an arm in a quantity.
func (c BenchComparison) of(arm, quantity string) BenchDifference {
	return c.Differences[slices.IndexFunc(c.Differences, func(d BenchDifference) bool { return d.Arm == arm && d.Quantity == quantity })]
}

func TestCompareBenchesSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	older, newer := made(1, nil), made(2, nil)
	newer.Problems = []string{"too noisy"}
	newer.Machine["cores"] = "4"
	delete(newer.Versions, "paxos_variant")
	older.Arms[0].ID, older.Arms[1].Ceiling, older.Arms[2].Ceiling = "C/9", "C/9", "C/9"
	older.Arms[2].Control = ""
	for i := range newer.Arms[3].Rounds {
		delete(newer.Arms[3].Rounds[i].Cost.Spent, SpentRequests)
	}
	c, err := CompareBenches(older, newer)
	must(t, err)
	var b bytes.Buffer
	must(t, c.Print(&b, false, func(_, text string) string { return text }))
	has(t, b.String(), "OLD  run-1\nNEW  run-2\n", "warning  NEW is INVALID: too noisy", "warning  OLD has no A/A copy", "differs  cores: 2 | 4",
		"differs  paxos_variant: v2 | not known", "differs  seed: 1 | 2", "requests_per_op: NEW lacks it for W/8", "arms that only OLD has: C/9",
		"arms that only NEW has: C/8", "25 of 25 quantities are not distinguishable (--all lists them)", "INVALID  gated costs could not be compared")
	if word, _ := c.Conclusion(); word != "INVALID" || !c.Ungated {
		t.Errorf("a gated cost is missing, and the conclusion is %s", word)
	}
	raw, err := json.Marshal(c)
	must(t, err)
	has(t, string(raw), `"missing":[{"quantity":"requests_per_op","lacks":"NEW","arms":["W/8"]}]`, `"verdict":"not distinguishable"`)
}

func TestPrintComparison(t *testing.T) {
	t.Parallel()
	latency := latencies(t, rand.New(rand.NewPCG(1, 1)), 60, time.Millisecond)
	older, newer := made(1, nil, latency), made(2, map[string]float64{
		"lock lwts": 1.5, "lock rate": 0.4, "bare net_bytes": 0.5, "write disk_bytes": 2,
	}, latency)
	for i := range newer.Arms[3].Rounds { // out of nothing
		newer.Arms[3].Rounds[i].Cost.Spent[SpentLWTs] = 100
	}
	c, err := CompareBenches(older, newer)
	must(t, err)
	var short, long bytes.Buffer
	plain := func(_, text string) string { return text }
	must(t, c.Print(&short, false, plain))
	must(t, c.Print(&long, true, plain))
	for _, want := range []string{
		"\nL/8/6s   LWTs/op           2.00   3.00   1.500 [1.500, 1.500]  ±0 %            worse\n",
		"worse (rate only)\n", "better\n", "worse (for information)\n", "∞ [∞, ∞]",
		"FAIL  3 gated costs are worse: lwt_per_op\n",
	} {
		has(t, short.String(), want)
	}
	has(t, long.String(), "480† | 480†")
	if strings.Contains(short.String(), "not distinguishable\n") || !strings.Contains(long.String(), "not distinguishable\n") {
		t.Errorf("what is not distinguishable is listed with --all alone:\n%s", &short)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
}

func TestIncomparableBenches(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*BenchResult){
		"no arm of OLD is in NEW":                     func(b *BenchResult) { b.Arms = b.Arms[:1]; b.Arms[0].ID = "X" },
		"has 8 threads, low contention in OLD and 8 ": func(b *BenchResult) { b.Arms[0].Contention = "high" },
		"NEW: bench result: arm 1 has the id \"C/8\"": func(b *BenchResult) { b.Arms[1].ID = "C/8" },
	} {
		newer := made(2, nil)
		edit(&newer)
		if _, err := CompareBenches(made(1, nil), newer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestComparedPageIsCurrent: docs/benchmarks.md has the kinds and their margins.
func TestComparedPageIsCurrent(t *testing.T) {
	t.Parallel()
	table := "| kind | better | margin | quantities |\n|---|---|---|---|\n"
	for _, k := range BenchKinds {
		better := "lower"
		if k.More {
			better = "higher"
		}
		var names []string
		for _, q := range compared() {
			if q.kind != k {
				continue
			}
			name := "`" + q.ID + "`"
			if q.Gated {
				name = "**" + name + "**"
			}
			names = append(names, name)
		}
		table += docpage.Row(k.ID+": "+k.About, better, fmt.Sprintf("%.0f %%", 100*k.Margin), strings.Join(names, ", "))
	}
	docpage.Check(t, "benchmarks.md", "compared", table)
}
