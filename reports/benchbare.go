package reports

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"fencepost/reports/stat"
)

// BenchBare is how much processor time a bare request to the database took: one of the arms that
// are ceilings, which have nothing of the system in them.
//
// Processor time is no constant of an operation. All arms keep about as many cores busy, whatever
// they do; so when a shared machine does less in a second, each operation takes more of them, and a
// bare request as well. So two runs whose bare requests differ are compared by how many times as much
// an operation takes as a bare request does in the same round.
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

// bareRequests is the quantity for a bare request, by round: the geometric mean over the ceilings with
// so many threads or, if there is none, over all. It is for a request and not for an operation, as a
// contended one takes several. Empty: it is not known, or the quantity is no processor time.
func (q BenchQuantity) bareRequests(ns []ArmNumbers, threads int) map[int]float64 {
	out, seen := map[int]float64{}, map[int]int{}
	if !q.processor() {
		return out
	}
	id := q.ID
	if id == CostScheduler {
		id = CostClient // what asks for bare requests is a process of the same kind
	}
	ceilings := slices.DeleteFunc(slices.Clone(ns), func(c ArmNumbers) bool {
		return !slices.ContainsFunc(ns, func(n ArmNumbers) bool { return n.Arm.Ceiling == c.Arm.ID })
	})
	others := func(c ArmNumbers) bool { return c.Arm.Threads != threads }
	if alike := slices.DeleteFunc(slices.Clone(ceilings), others); len(alike) > 0 {
		ceilings = alike
	}
	for _, c := range ceilings {
		requests := c.Cost(costRequests).rounds
		for round, spent := range c.Cost(id).rounds {
			if spent > 0 && requests[round] > 0 {
				seen[round]++
				out[round] = cmp.Or(out[round], 1) * spent / requests[round]
			}
		}
	}
	for round := range out {
		if out[round] = math.Pow(out[round], 1/float64(len(ceilings))); seen[round] < len(ceilings) {
			delete(out, round)
		}
	}
	return out
}

// compareBare compares the bare requests of two runs; nil if one of them has none. Processor time is then
// compared with theirs: see benchCompared.ratio.
func compareBare(quantities []benchCompared, was, is []ArmNumbers) *BenchBare {
	const all = 0 // threads
	before := slices.Collect(maps.Values(quantities[0].bareRequests(was, all)))
	after := slices.Collect(maps.Values(quantities[0].bareRequests(is, all)))
	if len(before) == 0 || len(after) == 0 {
		return nil
	}
	r := stat.RatioOf(before, after)
	apart := KindCost.verdict(r) != BenchSame
	for i := range quantities {
		quantities[i].apart = apart
	}
	return &BenchBare{Old: stat.Median(before), New: stat.Median(after), Ratio: benchFactor(r.Median), Low: benchFactor(r.Low), High: benchFactor(r.High)}
}

// ratio is that of an arm's values in NEW by those in OLD. relative: of multiples of what a bare request
// took in the same round.
//
// Rounds do not differ independently: a shared machine is slow for minutes, for all arms alike, or for
// those with as many threads. An interval of processor time as it is does not know that, and multiples of a
// bare request do, but have that one's noise. So if bare requests take the same in both runs, a
// difference must show in both.
func (q benchCompared) ratio(before, after, bareBefore, bareAfter map[int]float64) (r stat.Ratio, relative bool) {
	plain := stat.RatioOf(slices.Collect(maps.Values(before)), slices.Collect(maps.Values(after)))
	old, _ := stat.Ratios(before, bareBefore)
	now, _ := stat.Ratios(after, bareAfter)
	if len(old) == 0 || len(now) == 0 {
		return plain, false
	}
	multiple := stat.RatioOf(old, now)
	if q.apart {
		return multiple, true
	}
	return plain.Spanning(multiple), false
}
