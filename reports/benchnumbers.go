package reports

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/reports/chart"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// spread is a median with the least and the greatest of its samples.
type spread struct {
	n                int
	median, min, max float64
}

func spreadOf(vs []float64) spread {
	if len(vs) == 0 {
		return spread{}
	}
	s := slices.Clone(vs)
	slices.Sort(s)
	m := s[len(s)/2]
	if len(s)%2 == 0 {
		m = (s[len(s)/2-1] + s[len(s)/2]) / 2
	}
	return spread{len(s), m, s[0], s[len(s)-1]}
}

// armNumbers are an arm's numbers over its rounds.
type armNumbers struct {
	arm                 BenchArm
	rate                spread
	lwts, allLWTs, fair spread
	ceiling, baseline   comparison
	rates               []chart.RoundValue
	ok, fail, unknown   int64
	hist                *hdrhistogram.Histogram
	parts               []partNumbers
}

// comparison is an arm by another, round by round.
type comparison struct {
	ratios []chart.RoundValue
	ci     stat.Estimate
}

// partNumbers is a part of an arm's latency.
type partNumbers struct {
	name string
	hist *hdrhistogram.Histogram
}

// fewBench is the number of samples below which a p99 is marked: a p99 of fewer
// rests on less than ten operations.
const fewBench = 1000

// numbers evaluates the arms. An error names what is wrong with b.
func (b BenchResult) numbers() ([]armNumbers, error) {
	byID := map[string]int{}
	for i, a := range b.Arms {
		if _, dup := byID[a.ID]; dup || a.ID == "" {
			return nil, fmt.Errorf("bench result: arm %d has the id %q, which is empty or not unique", i, a.ID)
		}
		byID[a.ID] = i
	}
	var out []armNumbers
	for _, a := range b.Arms {
		n, err := a.numbers()
		if err != nil {
			return nil, fmt.Errorf("bench result: arm %s, %w", a.ID, err)
		}
		out = append(out, n)
	}
	for i := range out {
		n := &out[i]
		other := func(what, id string) (armNumbers, error) {
			at, ok := byID[id]
			if !ok || at == i {
				return armNumbers{}, fmt.Errorf("bench result: arm %s: there is no other arm %q to be its %s", n.arm.ID, id, what)
			}
			return out[at], nil
		}
		if id := n.arm.Ceiling; id != "" {
			c, err := other("ceiling", id)
			if err != nil {
				return nil, err
			}
			n.ceiling = compare(*n, c, perOp(n.arm)/perOp(c.arm))
		}
		if id := n.arm.Baseline; id != "" {
			c, err := other("baseline", id)
			if err != nil {
				return nil, err
			}
			n.baseline = compare(*n, c, 1)
		}
	}
	return out, nil
}

func (a BenchArm) numbers() (armNumbers, error) {
	n := armNumbers{arm: a, hist: measure.NewHistogram()}
	var rates, lwts, all, fair []float64
	for _, r := range a.Rounds {
		if r.LWTs > 0 && r.Done > 0 {
			own, sinks := float64(r.LWTs)/float64(r.Done), 0.0
			if r.Ended > 0 {
				sinks = float64(r.SinkLWTs) / float64(r.Ended)
			}
			lwts, all = append(lwts, own), append(all, own+sinks)
		}
		if r.Fair > 0 {
			fair = append(fair, r.Fair)
		}
		n.ok, n.fail, n.unknown = n.ok+r.OK, n.fail+r.Fail, n.unknown+r.Unknown
		if r.Seconds > 0 {
			v := float64(r.OK) / r.Seconds
			rates = append(rates, v)
			n.rates = append(n.rates, chart.RoundValue{Round: r.Round, Value: v})
		}
		if r.Latency == "" {
			continue
		}
		h, err := DecodeHistogram(r.Latency)
		if err != nil {
			return n, fmt.Errorf("round %d: latency: %w", r.Round, err)
		}
		if err := measure.Merge(n.hist, h); err != nil {
			return n, fmt.Errorf("round %d: %w", r.Round, err)
		}
	}
	n.rate, n.lwts, n.allLWTs, n.fair = spreadOf(rates), spreadOf(lwts), spreadOf(all), spreadOf(fair)
	for _, p := range a.Parts {
		h, err := DecodeHistogram(p.Latency)
		if err != nil || h == nil {
			return n, fmt.Errorf("%s: latency: %w", p.Name, errors.Join(err, errNoLatency))
		}
		n.parts = append(n.parts, partNumbers{p.Name, h})
	}
	return n, nil
}

var errNoLatency = errors.New("it has none")

// compare makes the ratios to another arm, round by round: what disturbs the
// machine disturbs both arms of a round, and so cancels.
func compare(n, other armNumbers, factor float64) comparison {
	at := map[int]float64{}
	for _, r := range other.rates {
		at[r.Round] = r.Value
	}
	var c comparison
	var vs []float64
	for _, r := range n.rates {
		if o := at[r.Round]; o > 0 {
			v := r.Value / o * factor
			vs = append(vs, v)
			c.ratios = append(c.ratios, chart.RoundValue{Round: r.Round, Value: v})
		}
	}
	c.ci = stat.EstimateOf(vs)
	return c
}

func perOp(a BenchArm) float64 {
	if a.LWTsPerOp > 0 {
		return a.LWTsPerOp
	}
	return 1
}

// label tells the arm from the others by what differs among them.
func (n armNumbers) label(among []armNumbers) string {
	differs := func(of func(BenchArm) any) bool {
		return slices.ContainsFunc(among, func(o armNumbers) bool { return of(o.arm) != of(n.arm) })
	}
	s := n.arm.Scenario
	if n.arm.Contention != "" && differs(func(a BenchArm) any { return cmp.Or(a.Contention, n.arm.Contention) }) {
		s += ", " + n.arm.Contention
	}
	// Arms without leases say nothing about whether several TTLs are compared.
	if n.arm.TTL > 0 && differs(func(a BenchArm) any { return cmp.Or(a.TTL, n.arm.TTL) }) {
		s += ", ttl " + measure.FormatDuration(n.arm.TTL)
	}
	if n.arm.Shards > 0 { // which say how many clients there are
		return fmt.Sprintf("%s, %d %s", s, n.arm.Shards, plural(n.arm.Shards, "shard", "shards"))
	}
	return fmt.Sprintf("%s, %d %s", s, n.arm.Threads, plural(n.arm.Threads, "client", "clients"))
}

func (n armNumbers) quantile(p float64) time.Duration { return measure.Quantile(n.hist, p) }

func rateText(v float64) string {
	switch {
	case v >= 1000:
		return measure.FormatCount(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.2 || v == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
