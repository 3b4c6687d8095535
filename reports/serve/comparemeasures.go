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
	for _, phase := range phases(func(p string) bool {
		return slices.ContainsFunc(sides, func(d side) bool { return d.rates[p].seconds >= leastPhase })
	}) {
		row := cellRow{Name: phase}
		base := sides[0].rates[phase].perSecond()
		for i, d := range sides {
			c := cell{Text: none}
			if r := d.rates[phase]; r.seconds >= leastPhase {
				c.Text, c.Small = fmt.Sprintf("%.1f/s", r.perSecond()), fmt.Sprintf("%s in %.0f s", measure.FormatCount(r.cycles), r.seconds)
				if i > 0 {
					c.Ratio = ratio(r.perSecond(), base)
				}
			}
			row.Cells = append(row.Cells, c)
		}
		out = append(out, row)
	}
	return out
}

// ops are the operations that any run has measured, in the first run's order.
func ops(sides []side) (out []history.Op) {
	for _, d := range sides {
		if d.report == nil {
			continue
		}
		for _, l := range d.report.Latencies {
			if l.OK > 0 && !slices.Contains(out, l.Op) {
				out = append(out, l.Op)
			}
		}
	}
	return out
}

func latencyRows(sides []side) (out []latencyRow) {
	for _, op := range ops(sides) {
		have := func(p string) bool {
			return p != history.PhaseWarmup && p != history.PhaseHeal && slices.ContainsFunc(sides, func(d side) bool { l, ok := d.latency(op, p); return ok && l.OK > 0 })
		}
		for _, phase := range phases(have) {
			row := latencyRow{Op: measure.OpTitle(op), Phase: phaseLabel(phase)}
			base, _ := sides[0].latency(op, phase)
			for i, d := range sides {
				c := latencyCell{P50: none, P95: none, P99: none, First: i == 0}
				if l, ok := d.latency(op, phase); ok && l.OK > 0 {
					c.P50, c.P95, c.P99, c.Few = measure.FormatDuration(l.P50), measure.FormatDuration(l.P95), measure.FormatDuration(l.P99), l.Few()
					if i > 0 && base.OK > 0 {
						c.Ratio, c.Class = ratio(float64(l.P99), float64(base.P99)), slower(l.P99, base.P99, l.Few() || base.Few())
					}
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
		for _, kind := range []struct {
			name string
			of   func(checker.FaultRecovery) float64
		}{
			{"first success", func(f checker.FaultRecovery) float64 { return f.FirstMS }},
			{"slowest lock or shard", func(f checker.FaultRecovery) float64 { return f.SlowestMS }},
		} {
			row, known := cellRow{Name: id, About: kind.name}, false
			base, haveBase := sides[0].recovery(id)
			for i, d := range sides {
				c := cell{Text: none}
				if f, ok := d.recovery(id); ok {
					known = true
					c.Text = measure.FormatDuration(milliseconds(kind.of(f)))
					if i > 0 && haveBase {
						c.Ratio = ratio(kind.of(f), kind.of(base))
					}
				}
				row.Cells = append(row.Cells, c)
			}
			if known {
				out = append(out, row)
			}
		}
	}
	return out
}

func faultIDs(sides []side) (out []string) {
	for _, d := range sides {
		if d.report == nil {
			continue
		}
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

func (d side) fault(id string) faultCell {
	if d.report != nil {
		for _, f := range d.report.Faults {
			if f.ID != id {
				continue
			}
			c := faultCell{Name: f.Name, Trigger: f.Trigger, Lasted: measure.FormatDuration(time.Duration((f.To - f.From) * 1e9)), Badge: badge{"proven", "pass", "check"}, Evidence: f.Evidence}
			for i, t := range f.Targets {
				if i > 0 {
					c.Targets += ", "
				}
				c.Targets += t
			}
			if !f.Proven {
				c.Badge = badge{"not proven", "invalid", "warn"}
			}
			return c
		}
	}
	return faultCell{Missing: true}
}

// distribution draws the chart that the address asks for: of the main operation in
// the fault phase, if it does not say.
func (s *Server) distribution(p *comparePage, sides []side, v url.Values) {
	all := slices.DeleteFunc(ops(sides), func(op history.Op) bool { return op == measure.OpStart || op == measure.OpRun }) // not in operations.csv
	if len(all) == 0 {
		p.NoChart = "No run has measured an operation."
		return
	}
	op := history.Op(v.Get("op"))
	if !slices.Contains(all, op) {
		op = all[0]
	}
	have := phases(func(ph string) bool {
		return slices.ContainsFunc(sides, func(d side) bool { l, ok := d.latency(op, ph); return ok && l.OK > 0 })
	})
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
