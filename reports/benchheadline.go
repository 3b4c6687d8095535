package reports

import (
	"fmt"
	"slices"
	"strings"

	"fencepost/reports/stat"
)

// BenchHeadline is a result in one sentence, made of what was measured.
type BenchHeadline struct {
	// Text is what a reader takes away: "8.1 times the jobs per second of one lock per job".
	Text string `json:"text"`
	// Basis is what it rests on: intervals, the setting, the machine.
	Basis string `json:"basis"`
}

// BenchClaim is the comparison that a headline is made of.
type BenchClaim struct {
	Arm, To string // IDs
	// Unit is what is done again and again, Whom what does it in another way: "job", "one
	// lock per job".
	Unit, Whom string
	// Setting is that of both: "4 shards".
	Setting string
}

// Claim makes the claim's headline; nil if there is nothing to claim: an arm was not
// measured, or the numbers are not to be quoted.
func (b BenchResult) Claim(c BenchClaim) (*BenchHeadline, error) {
	ns, err := b.Numbers()
	if err != nil || len(b.Problems) > 0 {
		return nil, err
	}
	find := func(id string) int {
		return slices.IndexFunc(ns, func(n ArmNumbers) bool { return n.Arm.ID == id && n.OK > 0 })
	}
	arm, to := find(c.Arm), find(c.To)
	if arm < 0 || to < 0 {
		return nil, nil
	}
	var claims, intervals []string
	if e := ns[arm].CostRatio(CostCPU, ns[to]); e.N > 0 && doubt(ns, CostCPU) == "" {
		claims = append(claims, shareText(e.Median)+" the processor time per "+c.Unit)
		intervals = append(intervals, shareOnly(e.Low)+" to "+shareOnly(e.High))
	}
	if e := compare(ns[arm], ns[to], perOp(ns[arm].Arm)/perOp(ns[to].Arm)).Estimate; e.N > 0 {
		claims = append(claims, fmt.Sprintf("%s times the %ss per second", factorText(e.Median), c.Unit))
		intervals = append(intervals, factorText(e.Low)+" to "+factorText(e.High))
	}
	if len(claims) == 0 {
		return nil, nil
	}
	basis := []string{"95 % CI " + strings.Join(intervals, " and ")}
	if c.Setting != "" {
		basis = append(basis, c.Setting)
	}
	return &BenchHeadline{
		Text:  strings.Join(claims, " and ") + " of " + c.Whom,
		Basis: strings.Join(append(basis, b.where()...), "; "),
	}, nil
}

// where is on what it was measured, as far as that is known.
func (b BenchResult) where() []string {
	var out []string
	for _, of := range []struct{ n, one, many string }{
		{b.Machine["cores"], "core", "cores"}, {b.Versions["nodes"], "node", "nodes"},
	} {
		if of.n == "" {
			continue
		}
		noun := of.many
		if of.n == "1" {
			noun = of.one
		}
		out = append(out, spelled(of.n)+" "+noun)
	}
	if len(out) == 0 {
		return nil
	}
	return []string{strings.Join(out, ", ")}
}

// spelled writes a small number as a word.
func spelled(n string) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
	for i, w := range words {
		if n == fmt.Sprint(i) {
			return w
		}
	}
	return n
}

// factorText writes a factor.
func factorText(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 0.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// shareOnly writes a ratio as a part: 1/14, 40 %, 1.3.
func shareOnly(v float64) string {
	switch {
	case v > 0 && v <= 0.105:
		return fmt.Sprintf("1/%.0f", 1/v)
	case v < 0.995:
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return factorText(v)
}

// shareText is that before a noun: "1/14 of", "1.3 times".
func shareText(v float64) string {
	if v < 0.995 {
		return shareOnly(v) + " of"
	}
	return shareOnly(v) + " times"
}

// The quantity that stands for what an operation costs, and its parts.
const (
	CostCPU       = "cpu_s_per_1000"
	CostClient    = "client_cpu_s_per_1000"
	CostStore     = "store_cpu_s_per_1000"
	CostScheduler = "scheduler_cpu_s_per_1000"
)

// costCPUParts are the parts in the order of charts.
var costCPUParts = []string{CostClient, CostScheduler, CostStore}

// CostRatio compares a quantity for each row change (of jobs: each job) with another arm's,
// in the same round.
func (n ArmNumbers) CostRatio(id string, other ArmNumbers) stat.Estimate {
	ratios, _ := stat.Ratios(n.Cost(id).rounds, other.Cost(id).rounds)
	factor := perOp(other.Arm) / perOp(n.Arm)
	for i := range ratios {
		ratios[i] *= factor
	}
	return stat.EstimateOf(ratios)
}

// doubt is why a quantity is not to be quoted, "" if it may be: "A/A copies ×1.22 [1.18–1.23]".
func doubt(ns []ArmNumbers, id string) string {
	for _, q := range BenchQuantities {
		if q.ID != id {
			continue
		}
		if c := q.copies(ns); c.N > 0 && c.Noisy() {
			return fmt.Sprintf("A/A copies ×%.2f [%.2f–%.2f]", c.Median, c.Low, c.High)
		}
	}
	return ""
}
