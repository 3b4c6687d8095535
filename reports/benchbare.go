package reports

import (
	"maps"
	"math"
	"slices"

	"fencepost/reports/stat"
)

// BenchBare is how much processor time a bare request to the database took: one of the arms that
// are ceilings, which have nothing of the system in them.
//
// Processor time is no constant of an operation. A shared machine does more in a second at one hour
// than at another, as its processors' clock changes and somebody else has the other half of a
// core; and nodes do for as long as they compile. All arms take more or less together then. So
// two runs are compared by how many times as much an operation takes as a bare request does in the
// same round.
type BenchBare struct {
	// Old and New are in seconds for 1000 requests: medians over the rounds.
	Old   float64     `json:"old"`
	New   float64     `json:"new"`
	Ratio benchFactor `json:"ratio"`
	Low   benchFactor `json:"low"`
	High  benchFactor `json:"high"`
}

// processor says that a quantity is processor time.
func (q BenchQuantity) processor() bool {
	return len(q.Of) > 0 && !slices.ContainsFunc(q.Of, func(of string) bool {
		return of != SpentStoreCPU && of != SpentClientCPU && of != SpentSchedulerCPU
	})
}

// bare is the quantity for a bare request, by round: the geometric mean over the ceilings. It is
// for a request and not for an operation, as a contended one takes several. Empty: it is not known.
func (q BenchQuantity) bare(ns []ArmNumbers) map[int]float64 {
	if q.Of = slices.Clone(q.Of); q.Of[0] == SpentSchedulerCPU {
		q.Of[0] = SpentClientCPU // what asks for bare requests is a process of the same kind
	}
	logs, arms := map[int][]float64{}, 0
	for _, c := range ns {
		if !slices.ContainsFunc(ns, func(n ArmNumbers) bool { return n.Arm.Ceiling == c.Arm.ID }) {
			continue
		}
		arms++
		for _, r := range c.Arm.Rounds {
			spent, ok := q.per(r.Cost)
			if requests := r.Cost.requests(); ok && spent > 0 && requests > 0 {
				logs[r.Round] = append(logs[r.Round], math.Log(spent*float64(r.Cost.Ops)/requests))
			}
		}
	}
	out := map[int]float64{}
	for round, all := range logs {
		if len(all) == arms {
			sum := 0.
			for _, l := range all {
				sum += l
			}
			out[round] = math.Exp(sum / float64(arms))
		}
	}
	return out
}

// requests is how many round trips to the store there were; 0: not known.
func (c *BenchCost) requests() float64 {
	if c == nil {
		return 0
	}
	return c.Spent[SpentRequests]
}

// bareOf compares the bare requests of two runs; nil if one of them has none.
func bareOf(was, is []ArmNumbers) *BenchBare {
	q := BenchQuantities[0]
	before, after := slices.Collect(maps.Values(q.bare(was))), slices.Collect(maps.Values(q.bare(is)))
	if len(before) == 0 || len(after) == 0 {
		return nil
	}
	r := stat.RatioOf(before, after)
	return &BenchBare{Old: stat.Median(before), New: stat.Median(after), Ratio: benchFactor(r.Median), Low: benchFactor(r.Low), High: benchFactor(r.High)}
}

// values are a quantity's of an arm in OLD and in NEW, and what is compared of it: the same, or, of
// processor time, multiples of that of a bare request in the same round.
type values struct {
	before, after     []float64
	compared, toThese []float64
	relative          bool
}

func (q benchCompared) values(was, is []ArmNumbers, o, n ArmNumbers) (v values) {
	before, after := q.rounds(o), q.rounds(n)
	v.before, v.after = slices.Collect(maps.Values(before)), slices.Collect(maps.Values(after))
	v.compared, v.toThese = v.before, v.after
	if !q.processor() {
		return v
	}
	old, _ := stat.Ratios(before, q.bare(was))
	now, _ := stat.Ratios(after, q.bare(is))
	if len(old) > 0 && len(now) > 0 {
		v.compared, v.toThese, v.relative = old, now, true
	}
	return v
}
