package bench

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/reports"
	"fencepost/reports/measure"
)

// About is what goes into a report beside the measurements.
type About struct {
	Name     string // of the result's directory
	Cluster  string // local, up
	Command  string // repeats the benchmark
	Versions map[string]string
	Machine  map[string]string
}

// Report turns a result into what package reports writes.
func (r *Result) Report(about About) (reports.BenchResult, error) {
	out := reports.BenchResult{
		Version: reports.BenchVersion, Name: about.Name,
		About: strings.Join(slices.Concat([]string{upperFirst(r.setting())}, r.Suite.Headlines(r)), ". ") + ".",
		Notes: slices.Concat(r.Legend, []string{r.Warmed.String()}, r.Notes),
		Seed:  r.Plan.Seed, Cluster: about.Cluster, Started: r.Started, Ended: r.Ended,
		Command: about.Command, Versions: about.Versions, Machine: about.Machine,
		Problems: append(append([]string(nil), r.Violations...), r.Problems...),
		Targets:  r.Met, Steady: r.Steady,
	}
	for _, a := range r.Plan.Arms {
		arm, err := r.reportArm(a)
		if err != nil {
			return reports.BenchResult{}, err
		}
		out.Arms = append(out.Arms, arm)
	}
	return out, nil
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (r *Result) reportArm(a Arm) (reports.BenchArm, error) {
	out := reports.BenchArm{
		ID: a.ID, Scenario: a.Name, Contention: a.Contention, Threads: a.Threads, TTL: a.TTL, Shards: a.Shards,
		Ceiling: a.Ceiling, Control: a.Control, Baseline: a.Baseline, LWTsPerOp: a.Changes,
	}
	samples := r.samples(a.ID)
	for _, s := range samples {
		latency, err := reports.EncodeHistogram(s.Latency)
		if err != nil {
			return out, fmt.Errorf("%s, round %d: encode latencies: %w", a.ID, s.Round, err)
		}
		round := reports.BenchRound{
			Round: s.Round, Seconds: s.Seconds, OK: s.OK, Fail: s.Fail, Unknown: s.Unknown, Latency: latency,
			LWTs: s.Sent.LWTs, Done: s.Done, SinkLWTs: s.SinkLWTs, Ended: s.Ended,
		}
		if a.compete() {
			round.Fair = jain(s)
		}
		out.Rounds = append(out.Rounds, round)
	}
	for i, name := range a.Parts {
		all, err := merged(samples, func(s Sample) *hdrhistogram.Histogram { return s.Parts[i] })
		if err != nil {
			return out, fmt.Errorf("%s, %s: %w", a.ID, name, err)
		}
		latency, err := reports.EncodeHistogram(all)
		if err != nil {
			return out, fmt.Errorf("%s, %s: encode latencies: %w", a.ID, name, err)
		}
		out.Parts = append(out.Parts, reports.BenchPart{Name: name, Latency: latency})
	}
	return out, nil
}

// RoundsFile is the name of the file with every sample.
const RoundsFile = "rounds.csv"

// WriteRounds writes every sample to dir, a line each.
func (r *Result) WriteRounds(dir string) error {
	f, err := os.Create(filepath.Join(dir, RoundsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	_ = w.Write([]string{
		"round", "position", "arm", "kind", "threads", "ttl_s", "contention", "shards", "started", "seconds", "ok", "fail", "unknown", "ops_per_s",
		"p50_ms", "p95_ms", "p99_ms", "max_ms", "lwts_sent", "lwts_rejected", "lwts_unknown", "plain_requests", "done", "lwts_per_op", "sink_lwts", "ended",
		"jain", "waiting", "oldest_waiting_ms", "client_cores", "node_cores", "other_cores", "stolen_cores", "error",
	})
	for _, s := range r.Samples {
		if err := w.Write(r.line(s)); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return f.Close()
}

func (r *Result) line(s Sample) []string {
	a, err := r.Plan.Arm(s.Arm)
	if err != nil {
		a = Arm{ID: s.Arm}
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	real := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	ms := func(d time.Duration) string { return real(float64(d) / 1e6) }
	quantile := func(q float64) string { return ms(measure.Quantile(s.Latency, q)) }
	return []string{
		strconv.Itoa(s.Round), strconv.Itoa(s.Position), s.Arm, a.Kind, strconv.Itoa(a.Threads), real(a.TTL.Seconds()), a.Contention, strconv.Itoa(a.Shards),
		s.Started.UTC().Format(time.RFC3339Nano), real(s.Seconds), count(s.OK), count(s.Fail), count(s.Unknown), real(s.Rate()),
		quantile(50), quantile(95), quantile(99), quantile(100),
		count(s.Sent.LWTs), count(s.Sent.Rejected), count(s.Sent.Unknown), count(s.Sent.Plain), count(s.Done), real(s.LWTsPerOp()), count(s.SinkLWTs), count(s.Ended),
		real(jain(s)), strconv.Itoa(s.Waiting), ms(s.Oldest), real(s.Load.Own), real(s.Load.Nodes), real(s.Load.Other), real(s.Load.Stolen), s.Error,
	}
}
