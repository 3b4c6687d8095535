package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"fencepost/reports/chart"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// BenchKind is a kind of quantity that two results are compared by.
type BenchKind struct {
	ID, About string
	// Margin: two values are told apart only if the whole interval of their ratio is further
	// from 1 than the factor 1+Margin.
	Margin float64
	// More is better.
	More bool
}

// The kinds. Costs repeat from run to run; on a shared machine the others do not, so that only
// costs decide.
var (
	KindCost    = BenchKind{ID: "cost", About: "what an operation costs", Margin: 0.05}
	KindRate    = BenchKind{ID: "rate", About: "operations per second, and their ratio to the ceiling's", Margin: 0.10, More: true}
	KindLatency = BenchKind{ID: "latency", About: "how long an operation takes", Margin: 0.10}

	BenchKinds = []BenchKind{KindCost, KindRate, KindLatency}
)

// benchCompared is a quantity that two results are compared by.
type benchCompared struct {
	BenchQuantity
	kind   BenchKind
	rounds func(ArmNumbers) map[int]float64 // of an arm by round; empty: not measured
	text   func(float64) string
	// apart: bare requests take more of it in one of the results.
	apart bool
}

// compared are all of them, in the order of the table.
func compared() (out []benchCompared) {
	for _, q := range BenchQuantities {
		out = append(out, benchCompared{BenchQuantity: q, kind: KindCost, text: RateText,
			rounds: func(n ArmNumbers) map[int]float64 { return n.Cost(q.ID).rounds }})
	}
	rate := func(id, head, about string, of func(ArmNumbers) []chart.RoundValue) {
		out = append(out, benchCompared{BenchQuantity: BenchQuantity{ID: id, Head: head, About: about}, kind: KindRate, text: RateText, rounds: func(n ArmNumbers) map[int]float64 {
			rounds := map[int]float64{}
			for _, r := range of(n) {
				rounds[r.Round] = r.Value
			}
			return rounds
		}})
	}
	rate("ratio_to_ceiling", "ratio to ceiling", "row changes (jobs) per second by those of the ceiling in the same round", func(n ArmNumbers) []chart.RoundValue { return n.ToCeiling.ratios })
	rate("ops_per_s", "ops/s", "operations per second", func(n ArmNumbers) []chart.RoundValue { return n.rates })
	for _, percent := range []float64{50, 95, 99} {
		name := fmt.Sprintf("p%v", percent)
		out = append(out, benchCompared{BenchQuantity: BenchQuantity{ID: name + "_ms", Head: name, About: "latency, by round"}, kind: KindLatency, text: milliseconds, rounds: func(n ArmNumbers) map[int]float64 {
			rounds := map[int]float64{}
			for r, h := range n.rounds {
				if h.TotalCount() > 0 {
					rounds[r] = millis(measure.Quantile(h, percent))
				}
			}
			return rounds
		}})
	}
	return out
}

// BenchVerdict says how the new value of a quantity is beside the old one.
type BenchVerdict string

// The verdicts. BenchSame says that they cannot be told apart, not that they are equal.
const (
	BenchBetter BenchVerdict = "better"
	BenchWorse  BenchVerdict = "worse"
	BenchSame   BenchVerdict = "not distinguishable"
)

// BenchDifference is a quantity of an arm that both results have.
type BenchDifference struct {
	Arm      string `json:"arm"`
	Quantity string `json:"quantity"`
	Kind     string `json:"kind"`
	// Gated quantities decide the exit code.
	Gated bool `json:"gated"`
	// Old and New are medians over the rounds.
	Old float64 `json:"old"`
	New float64 `json:"new"`
	// Ratio is New by Old, Low and High its interval. Relative: of multiples of the processor time
	// of a bare request (BenchBare).
	Relative bool        `json:"relative,omitempty"`
	Ratio    benchFactor `json:"ratio"`
	Low      benchFactor `json:"low"`
	High     benchFactor `json:"high"`
	// Noise is by which factor A/A copies differed from their originals; 0: there is no copy.
	Noise   benchFactor  `json:"noise"`
	Verdict BenchVerdict `json:"verdict"`
	// OldSamples and NewSamples are how many operations latencies are of.
	OldSamples int64 `json:"old_samples,omitempty"`
	NewSamples int64 `json:"new_samples,omitempty"`

	of benchCompared
}

// benchFactor is a ratio; an infinite one is null in JSON.
type benchFactor float64

// MarshalJSON implements json.Marshaler.
func (f benchFactor) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *benchFactor) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = benchFactor(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(f))
}

// BenchFact is what differs between the results beside what was measured.
type BenchFact struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// BenchMissing is a quantity that one of the results lacks.
type BenchMissing struct {
	Quantity string   `json:"quantity"`
	Lacks    string   `json:"lacks"` // OLD, NEW
	Arms     []string `json:"arms"`
}

// BenchComparison is a result beside an older one, of a run of its own.
type BenchComparison struct {
	Old string `json:"old"` // names
	New string `json:"new"`
	// Warnings are reasons not to trust the verdicts.
	Warnings []string `json:"warnings,omitempty"`
	// Bare compares the bare requests of both; nil: they are not known. If they can be told apart,
	// processor time is compared as a multiple of theirs, else both as it is and as a multiple.
	Bare *BenchBare `json:"bare,omitempty"`
	// Facts that differ.
	Facts []BenchFact `json:"facts,omitempty"`
	// OldOnly and NewOnly are arms that only one of the results has.
	OldOnly []string `json:"old_only,omitempty"`
	NewOnly []string `json:"new_only,omitempty"`
	// Missing are quantities of arms in both that only one of the results has. Ungated says that
	// gated ones are among them, or that no gated one could be compared: then nothing clears the
	// new result.
	Missing     []BenchMissing    `json:"missing,omitempty"`
	Ungated     bool              `json:"ungated"`
	Differences []BenchDifference `json:"differences"`
}

// Worse are the gated quantities that are worse.
func (c BenchComparison) Worse() (out []BenchDifference) {
	for _, d := range c.Differences {
		if d.Gated && d.Verdict == BenchWorse {
			out = append(out, d)
		}
	}
	return out
}

// CompareBenches compares a result with an older one, arm by arm. An error says which of them
// cannot be read, or why they measure different things.
func CompareBenches(older, newer BenchResult) (BenchComparison, error) {
	c := BenchComparison{Old: older.Name, New: newer.Name, Facts: differing(older, newer)}
	was, err := older.Numbers()
	if err != nil {
		return c, fmt.Errorf("OLD: %w", err)
	}
	is, err := newer.Numbers()
	if err != nil {
		return c, fmt.Errorf("NEW: %w", err)
	}
	c.warn("OLD", older, was)
	c.warn("NEW", newer, is)
	quantities := compared()
	c.Bare = compareBare(quantities, was, is)
	gated := false
	for _, n := range is {
		i := slices.IndexFunc(was, func(o ArmNumbers) bool { return o.Arm.ID == n.Arm.ID })
		if i < 0 {
			c.NewOnly = append(c.NewOnly, n.Arm.ID)
			continue
		}
		if o, n := was[i].Arm.setting(), n.Arm.setting(); o != n {
			return c, fmt.Errorf("arm %s has %s in OLD and %s in NEW: compare results of one setting", was[i].Arm.ID, o, n)
		}
		for _, q := range quantities {
			d, ok := c.difference(q, was, is, was[i], n)
			if ok {
				c.Differences = append(c.Differences, d)
				gated = gated || d.Gated
			}
		}
	}
	for _, o := range was {
		if !slices.ContainsFunc(is, func(n ArmNumbers) bool { return o.Arm.ID == n.Arm.ID }) {
			c.OldOnly = append(c.OldOnly, o.Arm.ID)
		}
	}
	if len(c.OldOnly) == len(was) {
		return c, errors.New("no arm of OLD is in NEW: compare results of one --subject, with the same --threads and --ttl, or --shards")
	}
	c.Ungated = c.Ungated || !gated
	return c, nil
}

// setting is what an arm's ID may not say.
func (a BenchArm) setting() string {
	s := fmt.Sprintf("%d threads", a.Threads)
	if a.Contention != "" {
		s += ", " + a.Contention + " contention"
	}
	if a.TTL > 0 {
		s += ", ttl " + measure.FormatDuration(a.TTL)
	}
	if a.Shards > 0 {
		s += fmt.Sprintf(", %d shards", a.Shards)
	}
	return s
}

func (c *BenchComparison) warn(side string, b BenchResult, ns []ArmNumbers) {
	for _, p := range b.Problems {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s is INVALID: %s", side, p))
	}
	if !slices.ContainsFunc(ns, func(n ArmNumbers) bool { return n.Arm.Control != "" }) {
		c.Warnings = append(c.Warnings, side+" has no A/A copy, so its noise is only known from the spread of its rounds")
	}
}

// difference compares a quantity of an arm; ok is false if one of the results lacks it.
func (c *BenchComparison) difference(q benchCompared, was, is []ArmNumbers, o, n ArmNumbers) (d BenchDifference, ok bool) {
	before, after := q.rounds(o), q.rounds(n)
	switch {
	case len(before)+len(after) == 0:
		return d, false
	case len(before) == 0:
		c.lacks("OLD", q, n.Arm.ID)
		return d, false
	case len(after) == 0:
		c.lacks("NEW", q, n.Arm.ID)
		return d, false
	}
	r, relative := q.ratio(before, after, q.bareRequests(was, o.Arm.Threads), q.bareRequests(is, n.Arm.Threads))
	noise := max(q.noise(was, o.Arm), q.noise(is, n.Arm))
	if noise > 0 {
		r = r.Widened(noise)
	}
	d = BenchDifference{
		Arm: n.Arm.ID, Quantity: q.ID, Kind: q.kind.ID, Gated: q.Gated, Relative: relative,
		Old: stat.Median(slices.Collect(maps.Values(before))), New: stat.Median(slices.Collect(maps.Values(after))),
		Ratio: benchFactor(r.Median), Low: benchFactor(r.Low), High: benchFactor(r.High), Noise: benchFactor(noise),
		Verdict: q.kind.verdict(r), of: q,
	}
	if q.kind == KindLatency {
		d.OldSamples, d.NewSamples = o.hist.TotalCount(), n.hist.TotalCount()
	}
	return d, true
}

func (c *BenchComparison) lacks(side string, q benchCompared, arm string) {
	c.Ungated = c.Ungated || q.Gated
	i := slices.IndexFunc(c.Missing, func(m BenchMissing) bool { return m.Quantity == q.ID && m.Lacks == side })
	if i < 0 {
		i, c.Missing = len(c.Missing), append(c.Missing, BenchMissing{Quantity: q.ID, Lacks: side})
	}
	c.Missing[i].Arms = append(c.Missing[i].Arms, arm)
}

// verdict says what a ratio means.
func (k BenchKind) verdict(r stat.Ratio) BenchVerdict {
	more, less := BenchWorse, BenchBetter
	if k.More {
		more, less = less, more
	}
	switch {
	case r.Low > 1+k.Margin:
		return more
	case r.High < 1/(1+k.Margin):
		return less
	}
	return BenchSame
}

// noise is the greatest factor by which an A/A copy differed from its original in the quantity,
// by the median of its rounds: of the copies as large as the arm or, if there is none, of all.
func (q benchCompared) noise(ns []ArmNumbers, a BenchArm) (factor float64) {
	same := func(n ArmNumbers) bool { return n.Arm.Threads == a.Threads && n.Arm.Shards == a.Shards }
	copies := slices.DeleteFunc(slices.Clone(ns), func(n ArmNumbers) bool { return n.Arm.Control == "" })
	if slices.ContainsFunc(copies, same) {
		copies = slices.DeleteFunc(copies, func(n ArmNumbers) bool { return !same(n) })
	}
	for _, n := range copies {
		i := slices.IndexFunc(ns, func(o ArmNumbers) bool { return o.Arm.ID == n.Arm.Control })
		if ratios, _ := stat.Ratios(q.rounds(n), q.rounds(ns[i])); len(ratios) > 0 {
			m := stat.Median(ratios)
			factor = max(factor, m, 1/m)
		}
	}
	return factor
}

// differing are the facts of two results that are not the same.
func differing(older, newer BenchResult) (out []BenchFact) {
	add := func(name, was, is string) {
		if was != is {
			out = append(out, BenchFact{name, orNone(was), orNone(is)})
		}
	}
	add("cluster", older.Cluster, newer.Cluster)
	add("seed", fmt.Sprint(older.Seed), fmt.Sprint(newer.Seed))
	add("command", older.Command, newer.Command)
	for _, of := range []func(BenchResult) map[string]string{
		func(b BenchResult) map[string]string { return b.Versions }, func(b BenchResult) map[string]string { return b.Machine },
	} {
		all := maps.Clone(of(older))
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, of(newer))
		for _, name := range slices.Sorted(maps.Keys(all)) {
			add(name, of(older)[name], of(newer)[name])
		}
	}
	return out
}
