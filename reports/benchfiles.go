package reports

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// benchCharts draws what the arms allow: a chart without data is left out.
func benchCharts(ns []armNumbers) ([]chart.SVG, error) {
	var lines []chart.BenchLine
	for _, n := range ns {
		lines = append(lines, chart.BenchLine{
			Label: n.label(ns), Rates: n.rates, Ratios: n.ratios, Median: n.ratio.median, Min: n.ratio.min, Max: n.ratio.max,
			P50: n.quantile(50), P95: n.quantile(95), P99: n.quantile(99), Top: n.quantile(100),
		})
	}
	scaling, err := chart.BenchScaling(benchCurves(ns))
	if err != nil {
		return nil, err
	}
	rounds, err := chart.BenchRounds(lines)
	if err != nil {
		return nil, err
	}
	all := []chart.SVG{chart.BenchRatios(lines), scaling, chart.BenchLatencies(lines), rounds}
	return slices.DeleteFunc(all, chart.SVG.Empty), nil
}

// benchCurves groups arms that differ in the number of clients alone.
func benchCurves(ns []armNumbers) []chart.BenchCurve {
	var out []chart.BenchCurve
	at := map[string]int{}
	for _, n := range ns {
		label := n.arm.Scenario + ", " + n.arm.Contention
		if n.arm.TTL > 0 {
			label += ", ttl " + measure.FormatDuration(n.arm.TTL)
		}
		i, ok := at[label]
		if !ok {
			i = len(out)
			at[label] = i
			out = append(out, chart.BenchCurve{Label: label})
		}
		out[i].Points = append(out[i].Points, chart.BenchPoint{Threads: n.arm.Threads, Median: n.rate.median, Min: n.rate.min, Max: n.rate.max})
	}
	for i := range out {
		slices.SortStableFunc(out[i].Points, func(a, b chart.BenchPoint) int { return a.Threads - b.Threads })
	}
	return out
}

func writeBenchCSV(dir string, ns []armNumbers) error {
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	arms := [][]string{{
		"arm", "scenario", "threads", "ttl_ms", "contention", "ok", "fail", "unknown", "ops_per_s", "ops_per_s_min", "ops_per_s_max",
		"p50_ms", "p95_ms", "p99_ms", "max_ms", "samples", "lwts_per_op", "fairness", "ceiling", "ratio", "ratio_min", "ratio_max", "ratio_ci_low", "ratio_ci_high", "rounds",
	}}
	rounds := [][]string{{"arm", "round", "seconds", "ok", "fail", "unknown", "ops_per_s", "ratio"}}
	for _, n := range ns {
		row := []string{
			n.arm.ID, n.arm.Scenario, strconv.Itoa(n.arm.Threads), num(millis(n.arm.TTL)), n.arm.Contention,
			strconv.FormatInt(n.ok, 10), strconv.FormatInt(n.fail, 10), strconv.FormatInt(n.unknown, 10), num(n.rate.median), num(n.rate.min), num(n.rate.max),
		}
		if n.hist.TotalCount() > 0 {
			row = append(row, ms(n.quantile(50)), ms(n.quantile(95)), ms(n.quantile(99)), ms(n.quantile(100)))
		} else {
			row = append(row, "", "", "", "")
		}
		row = append(row, strconv.FormatInt(n.hist.TotalCount(), 10), num(n.lwts.median), num(n.fair.median), n.arm.Ceiling)
		if e := n.ratioCI; e.N > 0 {
			row = append(row, num(e.Median), num(e.Min), num(e.Max), num(e.Low), num(e.High))
		} else {
			row = append(row, "", "", "", "", "")
		}
		arms = append(arms, append(row, strconv.Itoa(len(n.arm.Rounds))))
		ratio := map[int]string{}
		for _, r := range n.ratios {
			ratio[r.Round] = num(r.Value)
		}
		for _, r := range n.arm.Rounds {
			rate := ""
			if r.Seconds > 0 {
				rate = num(float64(r.OK) / r.Seconds)
			}
			rounds = append(rounds, []string{
				n.arm.ID, strconv.Itoa(r.Round), num(r.Seconds), strconv.FormatInt(r.OK, 10), strconv.FormatInt(r.Fail, 10), strconv.FormatInt(r.Unknown, 10), rate, ratio[r.Round],
			})
		}
	}
	for _, f := range []struct {
		name string
		rows [][]string
	}{{BenchCSV, arms}, {BenchRoundsCSV, rounds}} {
		b, err := csvBytes(f.rows)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if err := writeFile(filepath.Join(dir, f.name), b); err != nil {
			return err
		}
	}
	return nil
}
