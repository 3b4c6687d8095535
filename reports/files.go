package reports

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// Files that a run's report consists of, besides report.html.
const (
	OperationsFile = "operations.csv"
	LatencyFile    = "latency.csv"
	TimelineFile   = "timeline.csv"
	JSONFile       = "report.json"
	PlotDir        = "plots"
)

var written = []struct{ Path, About string }{
	{OperationsFile, "one line an operation"},
	{LatencyFile, "the latency table"},
	{TimelineFile, "rates and latencies over time"},
	{JSONFile, "this report's numbers"},
}

// Report is report.json: the numbers of a run's page.
type Report struct {
	Version  int             `json:"version"` // of this format: 1
	Info     rundir.Info     `json:"info"`
	Verdict  checker.Verdict `json:"verdict"`
	Summary  string          `json:"summary,omitempty"`
	Counts   checker.Counts  `json:"counts"`
	Problems []string        `json:"problems,omitempty"`
	// Overload is what was done under overload; nil without one.
	Overload  *checker.Overload `json:"overload,omitempty"`
	Latencies measure.Latencies `json:"latencies"`
	Faults    []ReportFault     `json:"faults"`
	Takeovers []ReportTakeover  `json:"takeovers"`
	// Points are those that faults waited for.
	Points []measure.Reach `json:"points,omitempty"`
	// Explanation is why the run is not PASS; nil if there is nothing to explain.
	Explanation *checker.Explanation `json:"explanation,omitempty"`
}

// ReportFault is one injection; times are seconds of the run.
type ReportFault struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Targets  []string `json:"targets,omitempty"`
	Trigger  string   `json:"trigger,omitempty"`
	From     float64  `json:"from_s"`
	To       float64  `json:"to_s"`
	Proven   bool     `json:"proven"`
	Evidence []string `json:"evidence,omitempty"`
}

// Lasted is for how long it was in force.
func (f ReportFault) Lasted() time.Duration { return time.Duration((f.To - f.From) * 1e9) }

// ReportTakeover is one takeover; At is in seconds of the run.
type ReportTakeover struct {
	Lock      string  `json:"lock"`
	At        float64 `json:"at_s"`
	From      string  `json:"from,omitempty"`
	FromToken int64   `json:"from_token,omitempty"`
	Ended     string  `json:"from_ended_by,omitempty"`
	To        string  `json:"to"`
	ToToken   int64   `json:"to_token"`
	// IdleMS is the time since the last sign of life of the holder replaced.
	IdleMS float64 `json:"idle_ms,omitempty"`
	TTLMS  float64 `json:"ttl_ms,omitempty"`
}

func (r *run) report() Report {
	a := r.Analysis
	out := Report{
		Version: 1, Info: r.Info, Verdict: r.Word(), Counts: r.counts(), Problems: r.Problems, Latencies: a.Latencies,
		Faults: []ReportFault{}, Takeovers: []ReportTakeover{}, Explanation: r.explanation, Points: a.Points,
	}
	if out.Latencies == nil {
		out.Latencies = measure.Latencies{}
	}
	if r.Verdict != nil {
		out.Summary, out.Overload = r.Verdict.Summary, r.Verdict.Overload
	}
	for _, f := range a.Faults {
		rf := ReportFault{
			ID: f.Fault.ID, Name: f.Fault.Name, Targets: f.Fault.Targets, Trigger: f.Fault.Trigger,
			From: r.seconds(f.From), To: r.seconds(f.To), Proven: f.Proven,
		}
		for _, e := range f.Evidence {
			rf.Evidence = append(rf.Evidence, e.Fault().Text)
		}
		out.Faults = append(out.Faults, rf)
	}
	for _, t := range a.Takeovers {
		rt := ReportTakeover{Lock: t.Grant.Lock, At: r.seconds(t.Grant.From), To: t.Grant.Proc, ToToken: t.Grant.Token}
		if p := t.From; p != nil {
			rt.From, rt.FromToken, rt.Ended = p.Proc, p.Token, p.EndedBy
			rt.IdleMS, rt.TTLMS = millis(t.Idle), millis(p.TTL)
		}
		out.Takeovers = append(out.Takeovers, rt)
	}
	return out
}

func (r *run) seconds(ts int64) float64 { return round(float64(ts-r.Analysis.Start) / 1e9) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ms(d time.Duration) string { return strconv.FormatFloat(millis(d), 'f', 3, 64) }

// operationsCSV has one line an operation, in the order of invocation.
func (r *run) operationsCSV() ([]byte, error) {
	rows := [][]string{{"proc", "id", "op", "key", "phase", "start_s", "latency_ms", "outcome", "token", "result", "takeover", "sends",
		"server_timeout", "error", "file", "line"}}
	for _, op := range r.Analysis.Ops {
		in, end := op.Invoke, op.End
		lat, token := "", in.Token
		if end.TS != 0 {
			lat = ms(time.Duration(end.TS - in.TS))
		}
		switch {
		case token == 0 && end.Token != 0:
			token = end.Token
		case token == 0 && in.To != nil:
			token = in.To.Fence
		}
		start := strconv.FormatFloat(float64(in.TS-r.Analysis.Start)/1e9, 'f', 6, 64)
		rows = append(rows, fields(in.Proc, in.ID, in.Op, in.Key, r.Analysis.Phase(op), start, lat, op.Outcome,
			token, end.Result, in.Takeover, len(end.Sends), end.ServerTimeout, end.Error, relative(in.File), in.Line))
	}
	return csvBytes(rows)
}

func (r *run) latencyCSV() ([]byte, error) {
	rows := [][]string{{"op", "phase", "ok", "fail", "unknown", "p50_ms", "p95_ms", "p99_ms", "max_ms"}}
	for _, l := range r.Analysis.Latencies {
		rows = append(rows, fields(l.Op, l.Phase, l.OK, l.Fail, l.Unknown, ms(l.P50), ms(l.P95), ms(l.P99), ms(l.Max)))
	}
	return csvBytes(rows)
}

// timelineCSV has one line a bucket; latencies are those of the ok operations
// that ended in it, empty if there were none.
func (r *run) timelineCSV() ([]byte, error) {
	t := r.Analysis.Timeline
	head := []string{"start_s", "seconds", "phase", "cycles", "ok", "fail", "unknown"}
	for _, l := range t.Ops {
		head = append(head, string(l.Op)+"_n", string(l.Op)+"_p50_ms", string(l.Op)+"_p99_ms")
	}
	rows := [][]string{head}
	for i, b := range t.Buckets {
		start := strconv.FormatFloat(float64(b.From-r.Analysis.Start)/1e9, 'f', 3, 64)
		row := fields(start, strconv.FormatFloat(b.Seconds, 'f', 3, 64), r.Analysis.PhaseAt(b.From), b.Cycles, b.OK, b.Fail, b.Unknown)
		for _, l := range t.Ops {
			c := l.Cuts[i]
			if c.N == 0 {
				row = append(row, "0", "", "")
				continue
			}
			row = append(row, strconv.Itoa(c.N), ms(c.P50), ms(c.P99))
		}
		rows = append(rows, row)
	}
	return csvBytes(rows)
}

// fields are values as they are in a CSV file.
func fields(values ...any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprint(v)
	}
	return out
}

func csvBytes(rows [][]string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeFile replaces path atomically: a report that is open in a browser is
// never half of one.
func writeFile(path string, b []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return nil
}

// writeAll writes everything but the page itself.
func (r *run) writeAll() error {
	for _, f := range []struct {
		name string
		make func() ([]byte, error)
	}{
		{OperationsFile, r.operationsCSV}, {LatencyFile, r.latencyCSV}, {TimelineFile, r.timelineCSV},
	} {
		b, err := f.make()
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(r.dir, f.name), b); err != nil {
			return err
		}
	}
	if err := rundir.WriteJSON(filepath.Join(r.dir, JSONFile), r.report()); err != nil {
		return err
	}
	return writePlots(r.dir, []chart.SVG{r.strip()})
}

// writePlots writes drawings that are not empty as files that can be seen alone.
func writePlots(dir string, svgs []chart.SVG) error {
	plots := filepath.Join(dir, PlotDir)
	if err := os.RemoveAll(plots); err != nil { // of an earlier report
		return err
	}
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	for _, s := range svgs {
		if s.Empty() {
			continue
		}
		if err := writeFile(filepath.Join(plots, s.Name+".svg"), []byte(s.File())); err != nil {
			return err
		}
	}
	return nil
}
