package reports

import (
	"fmt"
	"path/filepath"
	"strconv"

	"fencepost/reports/stat"
)

func writeBenchCSV(dir string, ns []ArmNumbers, loads []BenchSteady) error {
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	arms := [][]string{{
		"arm", "scenario", "threads", "ttl_ms", "contention", "shards", "ok", "fail", "unknown", "ops_per_s", "ops_per_s_min", "ops_per_s_max",
		"p50_ms", "p95_ms", "p99_ms", "max_ms", "samples", "lwts_per_op", "lwts_per_op_with_sink", "fairness", "ceiling", "ratio", "ratio_min", "ratio_max", "ratio_ci_low", "ratio_ci_high",
		"baseline", "by_baseline", "by_baseline_min", "by_baseline_max", "by_baseline_ci_low", "by_baseline_ci_high", "rounds",
	}}
	rounds := [][]string{{"arm", "round", "seconds", "ok", "fail", "unknown", "ops_per_s", "ratio"}}
	for _, n := range ns {
		row := []string{
			n.Arm.ID, n.Arm.Scenario, strconv.Itoa(n.Arm.Threads), num(millis(n.Arm.TTL)), n.Arm.Contention, strconv.Itoa(n.Arm.Shards),
			strconv.FormatInt(n.OK, 10), strconv.FormatInt(n.Fail, 10), strconv.FormatInt(n.Unknown, 10), num(n.Rate.Median), num(n.Rate.Min), num(n.Rate.Max),
		}
		if n.hist.TotalCount() > 0 {
			row = append(row, ms(n.Quantile(50)), ms(n.Quantile(95)), ms(n.Quantile(99)), ms(n.Quantile(100)))
		} else {
			row = append(row, "", "", "", "")
		}
		row = append(row, strconv.FormatInt(n.hist.TotalCount(), 10), num(n.LWTs.Median), num(n.AllLWTs.Median), num(n.Fair.Median))
		for _, c := range []struct {
			of string
			ci stat.Estimate
		}{{n.Arm.Ceiling, n.ToCeiling.Estimate}, {n.Arm.Baseline, n.ToBaseline.Estimate}} {
			if e := c.ci; e.N > 0 {
				row = append(row, c.of, num(e.Median), num(e.Min), num(e.Max), num(e.Low), num(e.High))
			} else {
				row = append(row, c.of, "", "", "", "", "")
			}
		}
		arms = append(arms, append(row, strconv.Itoa(len(n.Arm.Rounds))))
		ratio := map[int]string{}
		for _, r := range n.ToCeiling.ratios {
			ratio[r.Round] = num(r.Value)
		}
		for _, r := range n.Arm.Rounds {
			rate := ""
			if r.Seconds > 0 {
				rate = num(float64(r.OK) / r.Seconds)
			}
			rounds = append(rounds, []string{
				n.Arm.ID, strconv.Itoa(r.Round), num(r.Seconds), strconv.FormatInt(r.OK, 10), strconv.FormatInt(r.Fail, 10), strconv.FormatInt(r.Unknown, 10), rate, ratio[r.Round],
			})
		}
	}
	files := []struct {
		name string
		rows [][]string
	}{{BenchCSV, arms}, {BenchRoundsCSV, rounds}}
	if len(loads) > 0 {
		files = append(files, struct {
			name string
			rows [][]string
		}{BenchSteadyCSV, steadyLines(loads)})
	}
	for _, f := range files {
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

func steadyLines(loads []BenchSteady) [][]string {
	out := [][]string{{"load", "bucket", "seconds", "done", "done_per_s", "late_p50_ms", "late_p99_ms", "late_max_ms"}}
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	for _, l := range loads {
		for i, b := range l.Buckets {
			out = append(out, []string{l.ID, strconv.Itoa(i + 1), num(b.Seconds), strconv.FormatInt(b.Done, 10), num(perSecond([]BenchBucket{b})),
				num(float64(b.LateP50) / 1e3), num(float64(b.LateP99) / 1e3), num(float64(b.LateMax) / 1e3)})
		}
	}
	return out
}
