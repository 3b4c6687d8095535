package reports

import (
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/harness/record/rundir"
	"fencepost/reports/chart"
)

// BenchVersion is the version of the BenchResult format.
const BenchVersion = 1

// BenchFile is the name of the JSON file that WriteBench writes and Results reads.
const BenchFile = "bench.json"

// BenchResult is a benchmark: arms that were run interleaved, in rounds, so that
// arms can be compared round by round on a machine whose speed changes.
type BenchResult struct {
	Version int       `json:"version"` // BenchVersion; filled in by WriteBench if 0
	Name    string    `json:"name"`    // of the result's directory
	About   string    `json:"about,omitempty"`
	Seed    uint64    `json:"seed"`
	Cluster string    `json:"cluster"` // local, up
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Command repeats the benchmark.
	Command  string            `json:"command"`
	Versions map[string]string `json:"versions,omitempty"`
	Machine  map[string]string `json:"machine,omitempty"`
	// Problems are reasons not to quote the numbers; empty if there are none.
	Problems []string `json:"problems,omitempty"`
	// Notes are what a reader should know and nothing is wrong with.
	Notes []string   `json:"notes,omitempty"`
	Arms  []BenchArm `json:"arms"`
	// Steady are loads that went on for long, beside the rounds.
	Steady []BenchSteady `json:"steady,omitempty"`
	// Targets are what some of the numbers were meant to reach.
	Targets []BenchTarget `json:"targets,omitempty"`
}

// BenchArm is one thing that is measured, with one setting.
type BenchArm struct {
	// ID is unique in the result; Ceiling refers to it.
	ID string `json:"id"`
	// Scenario is what a person calls the operation: "lock cycle", "bare LWT".
	Scenario   string        `json:"scenario"`
	About      string        `json:"about,omitempty"`
	Contention string        `json:"contention"` // low, medium, high; "": none
	Threads    int           `json:"threads"`    // concurrent clients; of jobs: how many are open at once
	TTL        time.Duration `json:"ttl_ns"`     // 0: none
	Shards     int           `json:"shards,omitempty"`
	// Ceiling is the ID of the arm that bounds this one; "" if this is one itself.
	Ceiling string `json:"ceiling,omitempty"`
	// LWTsPerOp is how many lightweight transactions one operation takes when
	// nothing gets in its way (a lock cycle 2). The ratio to the ceiling is ops/s x
	// LWTsPerOp of this arm by the same of the ceiling, that is of row changes that
	// took effect; 0 counts as 1. How many were really sent is in the rounds.
	LWTsPerOp float64 `json:"lwts_per_op,omitempty"`
	// Control is the ID of the arm that this is a copy of, "" for none: their
	// ratio is what the machine's noise makes of two equal things.
	Control string `json:"control,omitempty"`
	// Baseline is the ID of the arm that does the same work in another way; ops/s are
	// compared. "" for none.
	Baseline string       `json:"baseline,omitempty"`
	Rounds   []BenchRound `json:"rounds"`
	// Parts are what the latency of an operation consists of.
	Parts []BenchPart `json:"parts,omitempty"`
}

// BenchPart is a part of an arm's latency, over all rounds.
type BenchPart struct {
	Name    string `json:"name"`    // "enqueue to start"
	Latency string `json:"latency"` // as in BenchRound
}

// BenchRound is one sample of an arm.
type BenchRound struct {
	Round   int     `json:"round"` // rounds of different arms with the same number ran side by side
	Seconds float64 `json:"seconds"`
	// OK, Fail and Unknown count operations by outcome; OK makes the rate.
	OK      int64 `json:"ok"`
	Fail    int64 `json:"fail,omitempty"`
	Unknown int64 `json:"unknown,omitempty"`
	// LWTs counts the conditional requests sent, resends and rejected ones
	// included, and Done the operations that ended ok meanwhile: from the first
	// operation until all had ended, those after the window too, or of an arm that was
	// under load before and after its window, within it. Both are 0 for an arm without
	// LWTs.
	LWTs int64 `json:"lwts,omitempty"`
	Done int64 `json:"done,omitempty"`
	// SinkLWTs are the sink's, beside LWTs, and Ended the operations that ended ok,
	// always from the first until all had ended.
	SinkLWTs int64 `json:"sink_lwts,omitempty"`
	Ended    int64 `json:"ended,omitempty"`
	// Cost is what its operations took beside time; nil: not known.
	Cost *BenchCost `json:"cost,omitempty"`
	// Fair is Jain's index of ok operations by client: 1 for equal shares, 1/n
	// if one of n got all; 0: not known.
	Fair float64 `json:"fair,omitempty"`
	// Latency holds the latencies of the ok operations in µs: EncodeHistogram of
	// a measure.NewHistogram.
	Latency string `json:"latency,omitempty"`
}

// DecodeHistogram reads what EncodeHistogram wrote; nil for "".
func DecodeHistogram(encoded string) (*hdrhistogram.Histogram, error) {
	if encoded == "" {
		return nil, nil
	}
	return hdrhistogram.Decode([]byte(encoded))
}

// EncodeHistogram returns h in HdrHistogram's compressed V2 format, base64.
func EncodeHistogram(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(b), err
}

// Files that WriteBench writes beside BenchFile.
const (
	BenchPage      = "bench.html"
	BenchCSV       = "bench.csv"
	BenchRoundsCSV = "bench_rounds.csv"
	BenchSteadyCSV = "bench_steady.csv"
)

type benchPage struct {
	head
	Title    string
	B        BenchResult
	Facts    []fact
	Columns  []benchColumn
	Rows     []benchRow
	Parts    []partRow
	Targets  []targetRow
	Steady   []steadyView
	Charts   []template.HTML
	Curves   []chart.Curves
	Versions []fact
	Machine  []fact
}

type benchRow struct {
	Cells   []benchCell
	Ceiling bool
}

type targetRow struct {
	BenchTarget
	Badge Badge
}

// steadyView is a load over time with its charts.
type steadyView struct {
	Text   string
	Charts []chart.Curves
}

// WriteBench writes bench.html, bench.json, bench.csv (a line an arm),
// bench_rounds.csv (a line a round), bench_steady.csv (a line a bucket) and plots/ to
// dir, which must exist. An
// error names what is wrong with b: ids that are not unique, a ceiling that is
// not there, a histogram that cannot be read.
func WriteBench(dir string, b BenchResult) error {
	if b.Version == 0 {
		b.Version = BenchVersion
	}
	ns, err := b.Numbers()
	if err != nil {
		return err
	}
	svgs := benchDrawings(ns)
	p := benchPage{B: b, Title: "Benchmark " + b.Name, Charts: inline(svgs), Curves: benchCurves(ns), head: newHead(true, ""),
		Versions: facts(b.Versions), Machine: facts(b.Machine), Facts: b.facts(), Parts: partRows(ns)}
	for _, l := range b.Steady {
		drawn, err := l.curves()
		if err != nil {
			return err
		}
		p.Steady = append(p.Steady, steadyView{l.Text(), drawn})
	}
	if err := rundir.WriteJSON(filepath.Join(dir, BenchFile), b); err != nil {
		return err
	}
	if err := writeBenchCSV(dir, ns, b.Steady); err != nil {
		return err
	}
	if err := writePlots(dir, svgs); err != nil {
		return err
	}
	var rows [][]benchCell
	p.Columns, rows = benchTable(ns)
	compared := slices.ContainsFunc(ns, func(n ArmNumbers) bool { return n.Arm.Ceiling != "" })
	for i, cells := range rows {
		p.Rows = append(p.Rows, benchRow{cells, compared && ns[i].Arm.Ceiling == ""})
	}
	for _, t := range b.Targets {
		p.Targets = append(p.Targets, targetRow{t, t.badge()})
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
	out := []fact{{"arms", fmt.Sprint(len(b.Arms))}, {"rounds", fmt.Sprint(rounds)}, {"seed", fmt.Sprint(b.Seed)},
		{"cluster", orNone(b.Cluster)}}
	return append(out, startedFact(b.Started, b.Ended)...)
}

// ReadBench reads a bench.json.
func ReadBench(path string) (BenchResult, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return BenchResult{}, err
	}
	b, err := decodeBench(raw)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return b, err
}

func decodeBench(raw []byte) (BenchResult, error) {
	var b BenchResult
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, err
	}
	if b.Version != BenchVersion {
		return b, fmt.Errorf("format version %d is not supported (this tool reads version %d)", b.Version, BenchVersion)
	}
	return b, nil
}

func num(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func writeBenchCSV(dir string, ns []ArmNumbers, loads []BenchSteady) error {
	arms := [][]string{{
		"arm", "scenario", "threads", "ttl_ms", "contention", "shards", "ok", "fail", "unknown", "ops_per_s", "ops_per_s_min", "ops_per_s_max",
		"p50_ms", "p95_ms", "p99_ms", "max_ms", "samples", "lwts_per_op", "lwts_per_op_with_sink", "fairness",
		"ceiling", "ratio", "ratio_min", "ratio_max", "ratio_ci_low", "ratio_ci_high",
		"baseline", "by_baseline", "by_baseline_min", "by_baseline_max", "by_baseline_ci_low", "by_baseline_ci_high", "rounds",
	}}
	rounds := [][]string{{"arm", "round", "seconds", "ok", "fail", "unknown", "ops_per_s", "ratio"}}
	for _, n := range ns {
		a := n.Arm
		row := fields(a.ID, a.Scenario, a.Threads, num(millis(a.TTL)), a.Contention, a.Shards,
			n.OK, n.Fail, n.Unknown, num(n.Rate.Median), num(n.Rate.Min), num(n.Rate.Max))
		for _, percent := range []float64{50, 95, 99, 100} {
			text := ""
			if n.hist.TotalCount() > 0 {
				text = ms(n.Quantile(percent))
			}
			row = append(row, text)
		}
		row = append(row, fields(n.hist.TotalCount(), num(n.LWTs.Median), num(n.AllLWTs.Median), num(n.Fair.Median))...)
		row = append(append(row, a.Ceiling), n.ToCeiling.fields()...)
		row = append(append(row, a.Baseline), n.ToBaseline.fields()...)
		arms = append(arms, append(row, strconv.Itoa(len(a.Rounds))))
		ratio := map[int]string{}
		for _, r := range n.ToCeiling.ratios {
			ratio[r.Round] = num(r.Value)
		}
		for _, r := range a.Rounds {
			rate := ""
			if r.Seconds > 0 {
				rate = num(float64(r.OK) / r.Seconds)
			}
			rounds = append(rounds, fields(a.ID, r.Round, num(r.Seconds), r.OK, r.Fail, r.Unknown, rate, ratio[r.Round]))
		}
	}
	files := map[string][][]string{BenchCSV: arms, BenchRoundsCSV: rounds}
	if len(loads) > 0 {
		files[BenchSteadyCSV] = steadyLines(loads)
	}
	for name, rows := range files {
		b, err := csvBytes(rows)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := writeFile(filepath.Join(dir, name), b); err != nil {
			return err
		}
	}
	return nil
}

// fields are those of a CSV file; "" if there is nothing to compare with.
func (c Comparison) fields() []string {
	if c.N == 0 {
		return make([]string, 5)
	}
	return fields(num(c.Median), num(c.Min), num(c.Max), num(c.Low), num(c.High))
}

func steadyLines(loads []BenchSteady) [][]string {
	out := [][]string{{"load", "bucket", "seconds", "done", "done_per_s", "late_p50_ms", "late_p99_ms", "late_max_ms"}}
	for _, l := range loads {
		for i, b := range l.Buckets {
			late := func(us int64) string { return num(float64(us) / 1e3) }
			out = append(out, fields(l.ID, i+1, num(b.Seconds), b.Done, num(perSecond([]BenchBucket{b})),
				late(b.LateP50), late(b.LateP99), late(b.LateMax)))
		}
	}
	return out
}
