package property

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

const (
	// growthParts is into how many parts of equal length the load's time is cut: what a process takes
	// goes up and down within one, as its garbage is collected.
	growthParts = 20
	// growthLeast is how many looks at a process a part has.
	growthLeast = 2
	// growthZ is for an interval of 95 %.
	growthZ = 1.96
	// defaultNodes has a store whose history does not say how many.
	defaultNodes = 3
)

// Growth is how much more a process took at the end of the load than at its begin: the slope by Theil
// and Sen over the means of growthParts parts, with Sen's 95 % interval (Sen, Estimates of the
// Regression Coefficient Based on Kendall's Tau, 1968), times the length. Memory and storage are in MB.
type Growth struct {
	Process string  `json:"process"` // w1.1, n1
	Of      string  `json:"of"`
	Begin   float64 `json:"begin"` // the mean of the first part
	End     float64 `json:"end"`   // that of the last
	By      float64 `json:"by"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	PerHour float64 `json:"per_hour"` // By in an hour
}

func (g Growth) String() string {
	return fmt.Sprintf("%s by %s [%s, %s], from %s to %s", g.Process, amount(g.By), amount(g.Low), amount(g.High), amount(g.Begin), amount(g.End))
}

// amount is a number of descriptors, MB and the like for people.
func amount(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// growths are those of all processes that were there during the whole load, in the order of their names.
func (a *Judgement) growths() []Growth {
	if a.growth == nil {
		a.growth = a.measureGrowth()
	}
	return a.growth
}

// loaded is the time in which the load is the same: from phase before to the end of recover.
func (a *Judgement) loaded() (span history.Span, ok bool) {
	for _, p := range a.History.Phases() {
		switch p.Name {
		case history.PhaseBefore:
			span.From = p.From
		case history.PhaseRecover:
			span.To = p.To
		}
	}
	return span, span.From > 0 && span.To > span.From
}

func (a *Judgement) measureGrowth() []Growth {
	out := []Growth{}
	if len(a.Usages) == 0 {
		return out
	}
	in, ok := a.loaded()
	if !ok {
		return out
	}
	looks := map[string][]*history.Event{}
	for _, e := range a.Usages {
		if e.TS >= in.From && e.TS < in.To {
			looks[e.Key] = append(looks[e.Key], e)
		}
	}
	for key, events := range looks {
		for _, of := range history.Growths {
			if means, ok := partMeans(events, in, of); ok {
				out = append(out, growthOf(key, of, means, in))
			}
		}
	}
	slices.SortFunc(out, func(x, y Growth) int {
		return cmp.Or(cmp.Compare(x.Process, y.Process), cmp.Compare(slices.Index(history.Growths, x.Of), slices.Index(history.Growths, y.Of)))
	})
	return out
}

// partMeans are the means of each part; false if one has too few looks.
func partMeans(events []*history.Event, in history.Span, of string) ([]float64, bool) {
	sums, counts := make([]float64, growthParts), make([]int, growthParts)
	for _, e := range events {
		v, known := e.Usage().Of(of)
		if !known {
			continue
		}
		i := int((e.TS - in.From) * growthParts / (in.To - in.From))
		sums[i] += v
		counts[i]++
	}
	for i, n := range counts {
		if n < growthLeast {
			return nil, false
		}
		sums[i] /= float64(n)
	}
	return sums, true
}

// growthOf is the slope over equally long parts, times their number.
func growthOf(process, of string, means []float64, in history.Span) Growth {
	n := len(means)
	var slopes []float64
	for i := range means {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (means[j]-means[i])/float64(j-i))
		}
	}
	slices.Sort(slopes)
	at := func(i float64) float64 { return slopes[min(max(int(i), 0), len(slopes)-1)] * float64(n) }
	pairs := float64(len(slopes))
	half := growthZ * math.Sqrt(float64(n*(n-1)*(2*n+5))/18) / 2
	mid := (at((pairs-1)/2) + at(pairs/2)) / 2
	hours := float64(in.To-in.From) / 3.6e12
	return Growth{
		Process: process, Of: of, Begin: means[0], End: means[n-1], By: mid, PerHour: mid / hours,
		Low: at(math.Floor(pairs/2 - half)), High: at(math.Ceil(pairs/2 + half)),
	}
}

// boundGrowth judges one threshold of growth. Of storage the processes are the nodes, of all else the
// workers: how much memory a node's JVM takes is its own setting.
func (a *Judgement) boundGrowth(t history.Threshold, b *Bound) {
	in, ok := a.loaded()
	if !ok {
		b.Detail = "could not be measured: the run has no phase recover that ended"
		return
	}
	allowed := t.By + t.PerHour*float64(in.To-in.From)/3.6e12
	noun, owed := "worker", slices.Sorted(maps.Keys(a.WorkerNames()))
	if t.Growth == history.GrowthStorage {
		noun, owed = "node", a.nodeNames()
	}
	var judged []Growth
	for _, g := range a.growths() {
		if g.Of == t.Growth && slices.Contains(owed, history.Worker(g.Process)) {
			judged = append(judged, g)
		}
	}
	unread := slices.DeleteFunc(owed, func(name string) bool {
		return slices.ContainsFunc(judged, func(g Growth) bool { return history.Worker(g.Process) == name })
	})
	worst := Growth{Low: math.Inf(-1), High: math.Inf(-1)}
	for _, g := range judged {
		if g.Low > max(worst.Low, allowed) || worst.Low <= allowed && g.High > worst.High {
			worst = g
		}
	}
	text := fmt.Sprintf("%s in %s, the most of %s; at most %s are allowed",
		worst, time.Duration(in.To-in.From).Round(time.Second), phrase.Plural(len(judged), noun), t.Allowed())
	switch {
	case worst.Low > allowed:
		b.Status, b.Detail = StatusFail, text
	case len(unread) > 0 || len(judged) == 0:
		b.Detail = fmt.Sprintf("could not be measured: of %s it was not read during the whole load, %d times in each of %d parts",
			cmp.Or(strings.Join(unread, ", "), "any "+noun), growthLeast, growthParts)
	case worst.High > allowed:
		b.Detail = "the load is too short, or too uneven, to say: " + text
	default:
		b.Status, b.Detail = StatusPass, text
	}
}

// nodeNames are the nodes of the lock store.
func (a *Judgement) nodeNames() (out []string) {
	nodes := 0
	for _, e := range a.Expects {
		nodes = max(nodes, cmp.Or(e.Expect().Nodes, defaultNodes))
	}
	for i := range nodes {
		out = append(out, fmt.Sprintf("n%d", i+1))
	}
	return out
}
