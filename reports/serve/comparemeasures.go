package serve

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// leastPhase is the length in seconds below which a phase's rate says nothing.
const leastPhase = 1

func rates(sides []side) (out []cellRow) {
	for _, phase := range phases {
		out = numbers(out, sides, phase, "", func(d side) (cell, float64, bool) {
			r := d.rates[phase]
			small := fmt.Sprintf("%s in %.0f s", measure.FormatCount(r.cycles), r.seconds)
			return cell{Text: fmt.Sprintf("%.1f/s", r.perSecond()), Small: small}, r.perSecond(), r.seconds >= leastPhase
		})
	}
	return out
}

// ops are the operations that any run has measured, in the first run's order.
func ops(sides []side) (out []history.Op) {
	for _, d := range sides {
		for _, l := range d.report.Latencies {
			if l.OK > 0 && !slices.Contains(out, l.Op) {
				out = append(out, l.Op)
			}
		}
	}
	return out
}

// measured are the phases in which any run has an operation that ended ok.
func measured(sides []side, op history.Op) []string {
	return slices.DeleteFunc(slices.Clone(phases), func(phase string) bool {
		return !slices.ContainsFunc(sides, func(d side) bool { return d.report.Latencies.Of(op, phase).OK > 0 })
	})
}

func latencyRows(sides []side) (out []latencyRow) {
	for _, op := range ops(sides) {
		for _, phase := range measured(sides, op) {
			if phase == history.PhaseWarmup || phase == history.PhaseHeal {
				continue
			}
			row := latencyRow{Op: op, Phase: phase}
			base := sides[0].report.Latencies.Of(op, phase)
			for i, d := range sides {
				c := latencyCell{Latency: d.report.Latencies.Of(op, phase), First: i == 0}
				if i > 0 && c.OK > 0 && base.OK > 0 {
					c.Ratio, c.Class = ratio(float64(c.P99), float64(base.P99)), slower(c.P99, base.P99, c.Few() || base.Few())
				}
				row.Cells = append(row.Cells, c)
			}
			out = append(out, row)
		}
	}
	return out
}

// slower marks what is far from the first run's, if both rest on enough.
func slower(b, a time.Duration, few bool) string {
	switch r := measure.Ratio(b, a); {
	case few || r == 0:
		return "muted"
	case r >= 1.5:
		return "up"
	case r <= 1/1.5:
		return "down"
	}
	return ""
}

func recoveries(sides []side) (out []cellRow) {
	for _, id := range faultIDs(sides) {
		add := func(about string, of func(*checker.FaultRecovery) float64) {
			out = numbers(out, sides, id, about, func(d side) (cell, float64, bool) {
				f := d.recovery(id)
				if f == nil {
					return cell{}, 0, false
				}
				return cell{Text: measure.FormatDuration(milliseconds(of(f)))}, of(f), true
			})
		}
		add("first success", func(f *checker.FaultRecovery) float64 { return f.FirstMS })
		add("slowest lock or shard", func(f *checker.FaultRecovery) float64 { return f.SlowestMS })
	}
	return out
}

func faultIDs(sides []side) (out []string) {
	for _, d := range sides {
		for _, f := range d.report.Faults {
			if !slices.Contains(out, f.ID) {
				out = append(out, f.ID)
			}
		}
	}
	return out
}

func faults(sides []side) (out []faultRow) {
	for _, id := range faultIDs(sides) {
		row := faultRow{ID: id}
		for _, d := range sides {
			row.Cells = append(row.Cells, d.fault(id))
		}
		out = append(out, row)
	}
	return out
}

// distribution draws the chart that the address asks for: of the main operation in
// the fault phase, if it does not say.
func (s *Server) distribution(p *comparePage, sides []side, v url.Values) {
	// not in operations.csv
	all := slices.DeleteFunc(ops(sides), func(op history.Op) bool { return op == measure.OpStart || op == measure.OpRun })
	if len(all) == 0 {
		p.NoChart = "No run has measured an operation."
		return
	}
	op := history.Op(v.Get("op"))
	if !slices.Contains(all, op) {
		op = all[0]
	}
	have := measured(sides, op)
	phase := v.Get("phase")
	if !slices.Contains(have, phase) {
		phase = measure.AllPhases
		if slices.Contains(have, history.PhaseFault) {
			phase = history.PhaseFault
		}
	}
	for _, o := range all {
		p.Ops = append(p.Ops, choice{string(o), measure.OpTitle(o), o == op})
	}
	for _, n := range have {
		p.Phases = append(p.Phases, choice{n, phaseLabel(n), n == phase})
	}
	var names []string
	var latencies []*hdrhistogram.Histogram
	for i, d := range sides {
		h, err := s.latencies(d.Entry, string(op), phase)
		if err != nil {
			p.Notes = append(p.Notes, letter(i)+": "+d.local(err))
			continue
		}
		names, latencies = append(names, letter(i)+" "+d.Name), append(latencies, h)
	}
	title := fmt.Sprintf("Latency of %s by percentile, %s", measure.OpTitle(op), phaseLabel(phase))
	if c, ok := chart.Distribution(title, names, latencies); ok {
		p.Chart = &c
	} else {
		p.NoChart = "No run has such an operation that ended ok."
	}
}
