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
		About: strings.Join(slices.Concat([]string{fmt.Sprintf("Contention %s, %d rounds of %s an arm", r.Plan.Contention, r.Plan.Rounds, r.Plan.Window)}, r.Headlines()), ". ") + ".",
		Notes: append(r.legend(), r.Notes...),
		Seed:  r.Plan.Seed, Cluster: about.Cluster, Started: r.Started, Ended: r.Ended,
		Command: about.Command, Versions: about.Versions, Machine: about.Machine,
		Problems: append(append([]string(nil), r.Violations...), r.Problems...),
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

func (r *Result) reportArm(a Arm) (reports.BenchArm, error) {
	out := reports.BenchArm{
		ID: a.ID, Scenario: a.Name(), Contention: string(r.Plan.Contention), Threads: a.Threads, TTL: a.TTL,
		Ceiling: a.Ceiling, Control: a.Control, LWTsPerOp: a.Kind.Changes(),
	}
	for _, s := range r.samples(a.ID) {
		latency, err := reports.EncodeHistogram(s.Latency)
		if err != nil {
			return out, fmt.Errorf("%s, round %d: encode latencies: %w", a.ID, s.Round, err)
		}
		out.Rounds = append(out.Rounds, reports.BenchRound{
			Round: s.Round, Seconds: s.Seconds, OK: s.OK, Fail: s.Fail, Unknown: s.Unknown, Latency: latency,
			LWTs: s.Sent.LWTs, Done: s.Done, Fair: jain(s),
		})
	}
	return out, nil
}

// legend says what the arms do.
func (r *Result) legend() []string {
	return []string{
		"bare LWT: the conditional update of a lock row without a lock client; rejected, it is tried again at once with the row that came back, and its latency is that of the whole update",
		"plain write: a write at QUORUM of the same columns, without a condition",
		"lock cycle: acquire and release by core/lock, all threads through one client, nothing done in between; the A/A copy is the same once more and shows the noise",
		r.WarmUp.String(),
	}
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
		"round", "position", "arm", "kind", "threads", "ttl_s", "contention", "started", "seconds", "ok", "fail", "unknown", "ops_per_s",
		"p50_ms", "p95_ms", "p99_ms", "max_ms", "lwts_sent", "lwts_rejected", "lwts_unknown", "plain_reads", "done", "lwts_per_op",
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
		strconv.Itoa(s.Round), strconv.Itoa(s.Position), s.Arm, string(a.Kind), strconv.Itoa(a.Threads), real(a.TTL.Seconds()), string(r.Plan.Contention),
		s.Started.UTC().Format(time.RFC3339Nano), real(s.Seconds), count(s.OK), count(s.Fail), count(s.Unknown), real(s.Rate()),
		quantile(50), quantile(95), quantile(99), quantile(100),
		count(s.Sent.LWTs), count(s.Sent.Rejected), count(s.Sent.Unknown), count(s.Sent.Reads), count(s.Done), real(s.LWTsPerOp()),
		real(jain(s)), strconv.Itoa(s.Waiting), ms(s.Oldest), real(s.Load.Own), real(s.Load.Nodes), real(s.Load.Other), real(s.Load.Stolen), s.Error,
	}
}
