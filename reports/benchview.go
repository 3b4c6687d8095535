package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/harness/bench/stat"
	"fencepost/harness/rundir"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// Files that WriteBench writes beside BenchFile.
const (
	BenchPage      = "bench.html"
	BenchCSV       = "bench.csv"
	BenchRoundsCSV = "bench_rounds.csv"
)

// spread is a median with the least and the greatest of its samples.
type spread struct {
	n                int
	median, min, max float64
}

func spreadOf(vs []float64) spread {
	if len(vs) == 0 {
		return spread{}
	}
	s := slices.Clone(vs)
	slices.Sort(s)
	m := s[len(s)/2]
	if len(s)%2 == 0 {
		m = (s[len(s)/2-1] + s[len(s)/2]) / 2
	}
	return spread{len(s), m, s[0], s[len(s)-1]}
}

// armNumbers are an arm's numbers over its rounds.
type armNumbers struct {
	arm               BenchArm
	rate, ratio       spread
	lwts, fair        spread
	ratioCI           stat.Estimate
	rates, ratios     []chart.RoundValue
	ok, fail, unknown int64
	hist              *hdrhistogram.Histogram
}

// fewBench is the number of samples below which a p99 is marked: a p99 of fewer
// rests on less than ten operations.
const fewBench = 1000

// numbers evaluates the arms. An error names what is wrong with b.
func (b BenchResult) numbers() ([]armNumbers, error) {
	byID := map[string]int{}
	for i, a := range b.Arms {
		if _, dup := byID[a.ID]; dup || a.ID == "" {
			return nil, fmt.Errorf("bench result: arm %d has the id %q, which is empty or not unique", i, a.ID)
		}
		byID[a.ID] = i
	}
	var out []armNumbers
	for _, a := range b.Arms {
		n := armNumbers{arm: a, hist: measure.NewHistogram()}
		var rates, lwts, fair []float64
		for _, r := range a.Rounds {
			if r.LWTs > 0 && r.Done > 0 {
				lwts = append(lwts, float64(r.LWTs)/float64(r.Done))
			}
			if r.Fair > 0 {
				fair = append(fair, r.Fair)
			}
			n.ok, n.fail, n.unknown = n.ok+r.OK, n.fail+r.Fail, n.unknown+r.Unknown
			if r.Seconds > 0 {
				v := float64(r.OK) / r.Seconds
				rates = append(rates, v)
				n.rates = append(n.rates, chart.RoundValue{Round: r.Round, Value: v})
			}
			if r.Latency == "" {
				continue
			}
			h, err := hdrhistogram.Decode([]byte(r.Latency))
			if err != nil {
				return nil, fmt.Errorf("bench result: arm %s, round %d: latency: %w", a.ID, r.Round, err)
			}
			if err := measure.Merge(n.hist, h); err != nil {
				return nil, fmt.Errorf("bench result: arm %s, round %d: %w", a.ID, r.Round, err)
			}
		}
		n.rate, n.lwts, n.fair = spreadOf(rates), spreadOf(lwts), spreadOf(fair)
		out = append(out, n)
	}
	for i := range out {
		if c := out[i].arm.Ceiling; c != "" {
			at, ok := byID[c]
			if !ok || at == i {
				return nil, fmt.Errorf("bench result: arm %s: there is no other arm %q to be its ceiling", out[i].arm.ID, c)
			}
			out[i].compare(out[at], b.Seed)
		}
	}
	return out, nil
}

// compare makes the ratios to the ceiling, round by round: what disturbs the
// machine disturbs both arms of a round, and so cancels.
func (n *armNumbers) compare(ceiling armNumbers, seed uint64) {
	at := map[int]float64{}
	for _, r := range ceiling.rates {
		at[r.Round] = r.Value * perOp(ceiling.arm)
	}
	var vs []float64
	for _, r := range n.rates {
		if c := at[r.Round]; c > 0 {
			v := r.Value * perOp(n.arm) / c
			vs = append(vs, v)
			n.ratios = append(n.ratios, chart.RoundValue{Round: r.Round, Value: v})
		}
	}
	n.ratio, n.ratioCI = spreadOf(vs), stat.EstimateOf(vs, seed)
}

func perOp(a BenchArm) float64 {
	if a.LWTsPerOp > 0 {
		return a.LWTsPerOp
	}
	return 1
}

// label tells the arm from the others by what differs among them.
func (n armNumbers) label(among []armNumbers) string {
	differs := func(of func(BenchArm) any) bool {
		return slices.ContainsFunc(among, func(o armNumbers) bool { return of(o.arm) != of(n.arm) })
	}
	s := n.arm.Scenario
	if differs(func(a BenchArm) any { return a.Contention }) {
		s += ", " + n.arm.Contention
	}
	// Arms without leases say nothing about whether several TTLs are compared.
	if n.arm.TTL > 0 && differs(func(a BenchArm) any { return cmp.Or(a.TTL, n.arm.TTL) }) {
		s += ", ttl " + measure.FormatDuration(n.arm.TTL)
	}
	return fmt.Sprintf("%s, %d %s", s, n.arm.Threads, plural(n.arm.Threads, "client", "clients"))
}

func (n armNumbers) quantile(p float64) time.Duration { return measure.Quantile(n.hist, p) }

// benchRow is a row of the table of arms; Results uses the same.
type benchRow struct {
	Scenario, About, Threads, TTL, Contention string
	Rate, RateSpread, P50, P95, P99, Max      string
	Ratio, RatioSpread, RatioCI, Outcomes     string
	LWTs, LWTsSpread, Fair, FairSpread        string
	Few, Ceiling                              bool
}

func (n armNumbers) row() benchRow {
	r := benchRow{
		Scenario: n.arm.Scenario, About: n.arm.About, Threads: fmt.Sprint(n.arm.Threads), TTL: "–", Contention: n.arm.Contention,
		Rate: rateText(n.rate.median), RateSpread: rateText(n.rate.min) + "–" + rateText(n.rate.max),
		P50: "–", P95: "–", P99: "–", Max: "–", Ratio: "–", Ceiling: n.arm.Ceiling == "", LWTs: "–", Fair: "–",
		Outcomes: fmt.Sprintf("%s / %s / %s", count(n.ok), count(n.fail), count(n.unknown)),
	}
	if n.arm.TTL > 0 {
		r.TTL = measure.FormatDuration(n.arm.TTL)
	}
	if n.lwts.n > 0 {
		r.LWTs, r.LWTsSpread = rateText(n.lwts.median), rateText(n.lwts.min)+"–"+rateText(n.lwts.max)
	}
	if n.fair.n > 0 && n.arm.Threads > 1 {
		r.Fair, r.FairSpread = rateText(n.fair.median), rateText(n.fair.min)+"–"+rateText(n.fair.max)
	}
	if n.hist.TotalCount() > 0 {
		r.P50, r.P95, r.P99, r.Max = measure.FormatDuration(n.quantile(50)), measure.FormatDuration(n.quantile(95)), measure.FormatDuration(n.quantile(99)), measure.FormatDuration(n.quantile(100))
		r.Few = n.hist.TotalCount() < fewBench
	}
	if e := n.ratioCI; e.N > 0 {
		r.Ratio, r.RatioCI = fmt.Sprintf("%.2f", e.Median), fmt.Sprintf("CI %.2f–%.2f", e.Low, e.High)
		r.RatioSpread = fmt.Sprintf("%.2f–%.2f, %d %s", e.Min, e.Max, e.N, plural(e.N, "round", "rounds"))
	}
	return r
}

func rateText(v float64) string {
	switch {
	case v >= 1000:
		return count(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

type benchPage struct {
	CSS, JS  template.HTML
	Title    string
	B        BenchResult
	Facts    []fact
	Rows     []benchRow
	Charts   []template.HTML
	Versions []fact
	Machine  []fact
}

// WriteBench writes bench.html, bench.json, bench.csv (a line an arm),
// bench_rounds.csv (a line a round) and plots/ to dir, which must exist. An
// error names what is wrong with b: ids that are not unique, a ceiling that is
// not there, a histogram that cannot be read.
func WriteBench(dir string, b BenchResult) error {
	if b.Version == 0 {
		b.Version = BenchVersion
	}
	ns, err := b.numbers()
	if err != nil {
		return err
	}
	svgs, err := benchCharts(ns)
	if err != nil {
		return err
	}
	if err := rundir.WriteJSON(filepath.Join(dir, BenchFile), b); err != nil {
		return err
	}
	if err := writeBenchCSV(dir, ns); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, PlotDir), 0o755); err != nil {
		return err
	}
	for _, s := range svgs {
		if err := writeFile(filepath.Join(dir, PlotDir, s.Name+".svg"), []byte(s.File())); err != nil {
			return err
		}
	}
	p := benchPage{B: b, Title: "Benchmark " + b.Name, Charts: inline(svgs), Versions: facts(b.Versions), Machine: facts(b.Machine), Facts: b.facts()}
	for _, n := range ns {
		p.Rows = append(p.Rows, n.row())
	}
	if p.CSS, err = css(); err != nil {
		return err
	}
	if p.JS, err = js(); err != nil {
		return err
	}
	html, err := render("bench.html", p)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, BenchPage), html)
}

func (b BenchResult) facts() []fact {
	rounds := 0
	for _, a := range b.Arms {
		rounds = max(rounds, len(a.Rounds))
	}
	out := []fact{{"arms", fmt.Sprint(len(b.Arms))}, {"rounds", fmt.Sprint(rounds)}, {"seed", fmt.Sprint(b.Seed)}, {"cluster", orNone(b.Cluster)}}
	if !b.Started.IsZero() {
		v := b.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		if d := b.Ended.Sub(b.Started); !b.Ended.IsZero() && d > 0 {
			v += ", " + measure.FormatDuration(d.Round(time.Second))
		}
		out = append(out, fact{"started", v})
	}
	return out
}

// ReadBench reads a bench.json.
func ReadBench(path string) (BenchResult, error) {
	var b BenchResult
	raw, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, fmt.Errorf("%s: %w", path, err)
	}
	if b.Version != BenchVersion {
		return b, fmt.Errorf("%s: format version %d is not supported (this tool reads version %d)", path, b.Version, BenchVersion)
	}
	return b, nil
}
