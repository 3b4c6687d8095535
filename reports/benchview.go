package reports

import (
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"time"

	"fencepost/harness/record/rundir"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

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
	Badge verdictWord
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
	p := benchPage{B: b, Title: "Benchmark " + b.Name, Charts: inline(svgs), Curves: benchCurves(ns), head: newHead(true, ""), Versions: facts(b.Versions), Machine: facts(b.Machine), Facts: b.facts(), Parts: partRows(ns)}
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
	for i, cells := range rows {
		p.Rows = append(p.Rows, benchRow{cells, ns[i].Arm.Ceiling == ""})
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
