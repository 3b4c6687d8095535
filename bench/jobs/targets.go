package jobs

import (
	"fmt"
	"strings"
	"time"

	"fencepost/bench"
	"fencepost/bench/locks"
	"fencepost/harness/target/system/lockperjob"
	"fencepost/reports"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// What the scheduler is meant to reach.
const (
	mostLWTs       = 0.10 // a job at saturation, those of the sink left out
	mostWithEffect = 1.15 // a job with one effect, all of them
	leastToRival   = 8.0  // jobs/s by those of a lock for every job
	mostUnits      = 5.0  // bare LWT latencies from enqueue to completed, one job at a time
	mostDecay      = 0.10 // from the first to the last fifth of a load
	mostLate       = 2 * time.Second
)

// Targets implements bench.Targeted.
func (s *Suite) Targets(r *bench.Result) ([]bench.Target, error) {
	rows, err := r.Rows()
	if err != nil {
		return nil, err
	}
	var out []bench.Target
	for _, row := range rows {
		a := row.Arm
		of := fmt.Sprintf("%d %s", a.Shards, bench.Plural(a.Shards, "shard", "shards"))
		switch {
		case a.Control != "":
		case a.Threads == 1 && a.Kind == kindJobs:
			for _, percent := range []float64{50, 95} {
				latency := func(sample bench.Sample) float64 { return float64(sample.Latency.ValueAtQuantile(percent)) }
				out = append(out, atMost(fmt.Sprintf("one job at a time, %s: p%g from enqueue to completed, by that of a bare LWT", of, percent), r.Ratio(a.ID, ceilingID(1), latency), mostUnits))
			}
		case a.Kind == kindJobs:
			out = append(out, atMost("LWTs a job at saturation, without a sink, "+of, row.LWTs, mostLWTs))
		case a.Kind == kindEffects:
			out = append(out, atMost("LWTs a job with one effect, all of them, "+of, row.AllLWTs, mostWithEffect))
		}
		if a.Kind == kindJobs && a.Baseline != "" && a.Control == "" {
			out = append(out, atLeast("jobs/s by those of a lock for every job, "+of, row.ToBaseline, leastToRival))
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

func atMost(name string, e stat.Estimate, limit float64) bench.Target {
	return bench.Target{Name: name, Want: fmt.Sprintf("at most %.2f", limit), Got: estimate(e), Met: e.N > 0 && e.High <= limit}
}

func atLeast(name string, e stat.Estimate, limit float64) bench.Target {
	return bench.Target{Name: name, Want: fmt.Sprintf("at least %g", limit), Got: estimate(e), Met: e.N > 0 && e.Low >= limit}
}

func estimate(e stat.Estimate) string {
	if e.N == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", e.Median, e.Low, e.High)
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
	var parts []string
	var fail, unknown int64
	for _, a := range s.plan.Arms {
		for _, sample := range samples {
			if sample.Arm == a.ID {
				parts = append(parts, fmt.Sprintf("%s %.0f/s", a.ID, sample.Rate()))
				fail, unknown = fail+sample.Fail, unknown+sample.Unknown
			}
		}
	}
	return fmt.Sprintf("%s; %d failed, %d unknown", strings.Join(parts, ", "), fail, unknown)
}

// Legend implements bench.Suite.
func (s *Suite) Legend() []string {
	return []string{
		locks.LegendCeiling,
		fmt.Sprintf("jobs: the production scheduler in one process, a new one on a new queue in every round, its handler does nothing; %d jobs are in flight for each shard, and the next is enqueued when one is completed; the A/A copy is the same once more and shows the noise", s.InFlight),
		"jobs with a fenced effect: the handler has one effect in the Cassandra sink",
		fmt.Sprintf("lock per job: a scheduler that takes a lock in the database for every job, %d slots in one process, %d jobs in flight in %d buckets (its shards here); its effects carry a token that nobody compares", rivalSlots, rivalInFlight, lockperjob.DefaultBuckets),
		"one job at a time: the next is enqueued when the last is completed",
		fmt.Sprintf("an arm is under load for %s before its window; its requests are counted within it, once by the store and once by the engine, which must agree", s.Lead),
		"job rows outlive their jobs by the dedupe window (24 h); forgetting them takes two more of a batch's changes for each job, which is in no number here",
	}
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
