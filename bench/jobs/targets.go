package jobs

import (
	"fmt"
	"slices"
	"time"

	"fencepost/bench"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// What the scheduler is meant to reach.
const (
	mostLWTs       = 0.05     // a job at saturation, those of the sink left out
	mostWithEffect = 1.15     // a job with one effect, all of them
	leastWithFence = 5.0      // jobs/s with a fenced effect by those of a lock for every job with an unfenced one
	mostCPU        = 1.0 / 15 // processor time of all processes for a job, by that of a lock for every job
	mostOwnCPU     = 0.15     // of the process of the scheduler and its clients, in ms a job
	mostP50Units   = 2.5      // bare LWT latencies from enqueue to completed, one job at a time
	mostP95Units   = 5.0
	mostDecay      = 0.05 // from the first to the last fifth of a load
	mostLate       = 2 * time.Second
)

// leastToRival are jobs/s by those of a lock for every job, with so many shards.
func leastToRival(shards int) float64 {
	switch {
	case shards >= 16:
		return 20
	case shards >= 4:
		return 15
	}
	return 8
}

func (s *Suite) targets(r *bench.Result) ([]bench.Target, error) {
	numbers, err := r.Numbers()
	if err != nil {
		return nil, err
	}
	var out []bench.Target
	for i, n := range numbers {
		a := s.plan.Arms[i]
		of := fmt.Sprintf("%d %s", a.Shards, bench.Plural(a.Shards, "shard", "shards"))
		switch {
		case a.Control != "" || a.Processes > 0:
		case a.Threads == 1 && a.Kind == kindJobs:
			for _, q := range []struct{ percent, most float64 }{{50, mostP50Units}, {95, mostP95Units}} {
				latency := func(sample bench.Sample) float64 { return float64(sample.Latency.ValueAtQuantile(q.percent)) }
				out = append(out, bench.AtMost(fmt.Sprintf("one job at a time, %s: p%g from enqueue to completed, by that of a bare LWT", of, q.percent), r.Ratio(a.ID, ceilingID(1), latency), q.most))
			}
		case a.Kind == kindJobs:
			out = append(out, bench.AtMost("LWTs a job at saturation, without a sink, "+of, n.LWTs, mostLWTs))
			if a.Baseline != "" {
				rival := numbers[slices.IndexFunc(numbers, func(n reports.ArmNumbers) bool { return n.Arm.ID == a.Baseline })]
				out = append(out, bench.AtLeast("jobs/s by those of a lock for every job, "+of, n.ToBaseline.Estimate, leastToRival(a.Shards)),
					bench.AtMost("processor time for a job by that of a lock for every job, "+of, n.CostRatio(reports.CostCPU, rival), mostCPU))
			}
			out = append(out, bench.AtMost("processor time of the scheduler and its clients for a job, in ms, "+of, n.Cost(reports.CostClient).Estimate, mostOwnCPU))
		case a.Kind == kindEffects:
			out = append(out, bench.AtMost("LWTs a job with one effect, all of them, "+of, n.AllLWTs, mostWithEffect))
			if a.Baseline != "" {
				out = append(out, bench.AtLeast("jobs/s with a fenced effect by those of a lock for every job with an unfenced one, "+of, n.ToBaseline.Estimate, leastWithFence))
			}
		}
	}
	for _, l := range r.Steady {
		more, err := steadyTargets(l)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func steadyTargets(l reports.BenchSteady) ([]bench.Target, error) {
	decay, ok := l.Decay()
	t := bench.Target{
		Name: fmt.Sprintf("decay of jobs/s from the first to the last fifth, %s for %s", l.Scenario, measure.FormatDuration(l.For)),
		Want: fmt.Sprintf("at most %.0f %%", 100*mostDecay), Got: "not measured", Met: ok && decay <= mostDecay,
	}
	if ok {
		t.Got = fmt.Sprintf("%.1f %%", 100*decay)
	}
	out := []bench.Target{t}
	if l.Rate == 0 {
		return out, nil
	}
	late, err := reports.DecodeHistogram(l.Late)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.ID, err)
	}
	p99 := measure.Quantile(late, 99)
	return append(out, bench.Target{
		Name: "p99 of lateness, " + l.Scenario, Want: "less than " + measure.FormatDuration(mostLate), Got: measure.FormatDuration(p99),
		Met: late.TotalCount() > 0 && p99 < mostLate,
	}), nil
}

// Round implements bench.Suite.
func (s *Suite) Round(samples []bench.Sample) string {
	var fail, unknown int64
	for _, sample := range samples {
		fail, unknown = fail+sample.Fail, unknown+sample.Unknown
	}
	return fmt.Sprintf("%s; %d failed, %d unknown", s.plan.Rates(samples, "/s"), fail, unknown)
}

// Headlines implements bench.Suite.
func (s *Suite) Headlines(r *bench.Result) []string {
	var out []string
	for _, a := range s.plan.Arms {
		if a.Control != "" || a.Threads == 1 {
			continue
		}
		who := ""
		if a.Shards > 0 {
			who = fmt.Sprintf(", %d %s", a.Shards, bench.Plural(a.Shards, "shard", "shards"))
		}
		text := r.Headline(a, who)
		if a.Baseline != "" {
			text += fmt.Sprintf(", %s times those of the baseline", bench.Factor(r.Ratio(a.ID, a.Baseline, bench.Sample.Rate)))
		}
		out = append(out, text)
	}
	return out
}
