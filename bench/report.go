package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/harness/record/progress"
	"fencepost/reports"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
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
		Version: reports.BenchVersion, Name: about.Name, Setting: upperFirst(r.setting()),
		About: strings.Join(slices.Concat([]string{upperFirst(r.setting())}, r.Suite.Headlines(r)), ". ") + ".",
		Notes: slices.Concat(r.Legend, r.warmed(), r.Notes),
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
	var err error
	out.Headline, err = r.headline(out)
	return out, err
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (r *Result) reportArm(a Arm) (reports.BenchArm, error) {
	out := reports.BenchArm{
		ID: a.ID, Scenario: a.Name, Contention: a.Contention, Threads: a.Threads, TTL: a.TTL, Shards: a.Shards,
		Ceiling: a.Ceiling, Control: a.Control, Baseline: a.Baseline, LWTsPerOp: a.Changes, Open: a.Open.Part > 0,
	}
	samples := r.samples(a.ID)
	for _, s := range samples {
		latency, err := reports.EncodeHistogram(s.Latency)
		if err != nil {
			return out, fmt.Errorf("%s, round %d: encode latencies: %w", a.ID, s.Round, err)
		}
		round := reports.BenchRound{
			Round: s.Round, Seconds: s.Seconds, OK: s.OK, Fail: s.Fail, Unknown: s.Unknown, Latency: latency,
			LWTs: s.Sent.LWTs, Done: s.Done, SinkLWTs: s.SinkLWTs, Ended: s.Ended, Cost: s.Cost, Load: s.Load.told(),
		}
		round.Offered, round.Waiting, round.Oldest = s.Offered, s.Waiting, s.Oldest
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
		"jain", "waiting", "oldest_waiting_ms", "client_cores", "node_cores", "other_cores", "stolen_cores", "error", "foreign_load",
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
		real(jain(s)), strconv.Itoa(s.Waiting), ms(s.Oldest), real(s.Load.Own), real(s.Load.Nodes), real(s.Load.Other), real(s.Load.Stolen), s.Error, strconv.FormatBool(s.Load.told().Disturbed()),
	}
}

// controlMargin is how far from 1 the whole interval of a control's ratio may
// lie before the machine is too unsteady to compare anything.
const controlMargin = 0.15

// judge adds what speaks against the numbers. It never changes one.
func (r *Result) judge() error {
	numbers, err := r.Numbers()
	if err != nil {
		return err
	}
	for i, n := range numbers {
		a := r.Plan.Arms[i]
		if n.OK == 0 {
			r.Problem("%s: not one operation ended ok within %d windows of %s (%d failed, %d unknown)%s", a.ID, n.Rate.N, r.Plan.Window, n.Fail, n.Unknown, because(r.firstError(a)))
		} else if n.Rate.Min == 0 {
			r.Note("%s: in at least one round no operation ended within the window%s", a.ID, because(r.firstError(a)))
		}
		if a.Open.Part > 0 {
			r.judgeOffered(a)
		}
		if n.Rate.N < MinRounds {
			r.Problem("%s: %d complete rounds, %d are needed", a.ID, n.Rate.N, MinRounds)
		}
		if starved := r.starved(a); starved > 0 {
			r.Note("%s: in %d of %d windows a thread got nothing through from beginning to end; such waits are in no percentile", a.ID, starved, n.Rate.N)
		}
		if a.Control == "" {
			continue
		}
		e := n.ToCopied.Estimate
		text := fmt.Sprintf("A/A control with %d threads: %.2f of the arm that it copies, 95 %% CI [%.2f, %.2f], range %.2f to %.2f", a.Threads, e.Median, e.Low, e.High, e.Min, e.Max)
		if e.Excludes(controlMargin) {
			r.Problem("%s: two equal things differ by more than %.0f %%, so the machine was too unsteady to compare different ones", text, 100*controlMargin)
		} else {
			r.Note("%s: %s", text, resolves(e))
		}
	}
	r.judgeCopies(numbers)
	r.judgeWeather()
	if r.Targets != nil {
		r.Met, err = r.Targets(r)
	}
	return err
}

// judgeCopies looks at what the copies cost beside their originals.
func (r *Result) judgeCopies(ns []reports.ArmNumbers) {
	var same []string
	for _, c := range reports.CopyCosts(ns) {
		text := fmt.Sprintf("%s %.3f [%.3f, %.3f]", c.ID, c.Median, c.Low, c.High)
		switch {
		case !c.Gated:
		case c.Noisy():
			r.Problem("A/A copies: %s of the arms that they copy: two equal things may differ by more than %.0f %%; do not quote it, and repeat it on a quieter machine or with a larger budget", text, 100*reports.CostNoise)
		default:
			same = append(same, text)
		}
	}
	if len(same) > 0 {
		r.Note("A/A copies, costs by those of the arms that they copy: %s", strings.Join(same, ", "))
	}
}

// judgeOffered says how well an open load was offered.
func (r *Result) judgeOffered(a Arm) {
	lag, err := merged(r.samples(a.ID), func(s Sample) *hdrhistogram.Histogram { return s.Lag })
	if err != nil {
		r.Problem("%s: %v", a.ID, err)
		return
	}
	left := 0
	var offered []float64
	for _, s := range r.samples(a.ID) {
		left += s.Waiting
		offered = append(offered, s.Offered)
	}
	r.Note("%s: offered %s/s (median); operations were begun p50 %s, p99 %s after they were meant to be; %d could not be begun", a.ID,
		reports.RateText(stat.Median(offered)), measure.FormatDuration(measure.Quantile(lag, 50)), measure.FormatDuration(measure.Quantile(lag, 99)), left)
}

// starved counts the windows in which a thread ended no operation at all.
func (r *Result) starved(a Arm) (n int) {
	for _, s := range r.samples(a.ID) {
		if s.Oldest >= r.Plan.Window*99/100 {
			n++
		}
	}
	return n
}

// resolves says what a control's interval means for other comparisons.
func resolves(e stat.Estimate) string {
	if e.Low <= 0 || e.High <= 0 {
		return "nothing can be told at this number of threads"
	}
	factor := max(e.High, 1/e.Low)
	text := fmt.Sprintf("differences between arms of less than %.0f %% are noise", 100*(factor-1))
	if factor > 1+2*controlMargin {
		text += "; repeat it on a quieter machine or with more rounds"
	}
	return text
}

// judgeWeather says what others did on the machine meanwhile.
func (r *Result) judgeWeather() {
	var other, stolen []float64
	for _, s := range r.Samples {
		if s.Load.Known {
			other, stolen = append(other, s.Load.Other), append(stolen, s.Load.Stolen)
		}
	}
	if len(other) == 0 {
		return
	}
	o, t := stat.SpreadOf(other), stat.SpreadOf(stolen)
	text := fmt.Sprintf("cores kept busy by other programs: median %.2f, most %.2f; taken by the machine below: median %.2f, most %.2f", o.Median, o.Max, t.Median, t.Max)
	if o.Median > reports.ForeignCores || t.Median > reports.ForeignCores {
		text += ": for steadier numbers run it alone"
	}
	r.Note("%s", text)
	marked := 0
	for _, s := range r.Samples {
		if s.Load.told().Disturbed() {
			marked++
		}
	}
	r.Note("%d of %d windows ran beside foreign load (more than %.1f cores); they are marked in %s and dropped from nothing", marked, len(r.Samples), reports.ForeignCores, RoundsFile)
}

// firstError is one of those that the arm met.
func (r *Result) firstError(a Arm) string {
	for _, s := range r.samples(a.ID) {
		if s.Error != "" {
			return s.Error
		}
	}
	return ""
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return "; one error: " + err
}

// Exit codes of a benchmark.
const (
	ExitOK        = 0
	ExitViolation = 1 // what is measured broke a promise
	ExitInvalid   = 3 // the numbers are not to be quoted
)

// ExitCode is the process's exit code for the result.
func (r *Result) ExitCode() int {
	switch {
	case len(r.Violations) > 0:
		return ExitViolation
	case len(r.Problems) > 0:
		return ExitInvalid
	}
	return ExitOK
}

// Print writes the summary for a terminal; report is the result's.
func Print(out io.Writer, r *Result, report reports.BenchResult) error {
	fmt.Fprintf(out, "\n%s, seed %d\n", r.setting(), r.Plan.Seed)
	if len(report.Arms) > 0 {
		fmt.Fprint(out, "median (least–greatest) over rounds; latencies of all rounds together; ratio to ceiling: row changes/s (jobs/s) by those of the bare LWT in the same round [95 % CI]; † fewer than 1000 samples\n\n")
	}
	if err := report.PrintArms(out); err != nil {
		return err
	}
	for _, s := range r.Steady {
		fmt.Fprintln(out, "  "+s.Text())
	}
	for _, t := range r.Met {
		fmt.Fprintln(out, "  "+t.Text())
	}
	if h := report.Headline; h != nil {
		fmt.Fprintf(out, "  %s (%s)\n", h.Text, h.Basis)
	}
	for _, n := range slices.Concat(r.Suite.Headlines(r), r.Notes, r.warmed()) {
		fmt.Fprintln(out, "  "+n)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(out, "INVALID  "+p)
	}
	for _, v := range r.Violations {
		fmt.Fprintln(out, "VIOLATION  "+v)
	}
	return nil
}

// setting says what was measured, and how often.
func (r *Result) setting() string {
	s := r.Setting
	if len(r.Plan.Arms) > 0 {
		s += fmt.Sprintf(", %d rounds of %s an arm", r.Plan.Rounds, r.EachTurn())
	}
	return s
}

// Plural chooses a word by a number.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Progress tells how a benchmark goes on: a step a round, and each arm's window as
// it is over.
type Progress struct{ log *progress.Log }

// NewProgress tells it to a log; nil: to nobody.
func NewProgress(log *progress.Log) *Progress {
	if log == nil {
		log = progress.New(nil)
	}
	return &Progress{log}
}

// Line tells what was done, or is done next.
func (p *Progress) Line(format string, args ...any) { p.log.Step(format, args...) }

// window tells of one that is over.
func (p *Progress) window(w progress.Window) {
	p.log.Emit(progress.Event{Kind: progress.KindWindow, Window: &w})
}

func (p *Progress) sample(plan *Plan, a Arm, s Sample) {
	p.window(progress.Window{
		Round: s.Round, Rounds: plan.Rounds, Arm: a.Name, Threads: a.Threads, PerSecond: s.Rate(), Failed: int64(s.Fail), Unknown: int64(s.Unknown),
		Text: fmt.Sprintf("%s  %s, %d threads: %.0f/s, %d failed, %d unknown", plan.round(s.Round), a.Name, a.Threads, s.Rate(), s.Fail, s.Unknown),
	})
}
