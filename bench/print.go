package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"fencepost/reports/stat"
)

// column is a column of the summary. One that says nothing of any arm is left out.
type column struct {
	head string
	of   func(Row) string
}

const nothing = "-"

var columns = []column{
	{"shards", func(r Row) string {
		if r.Arm.Shards == 0 {
			return nothing
		}
		return fmt.Sprint(r.Arm.Shards)
	}},
	{"threads", func(r Row) string { return fmt.Sprint(r.Arm.Threads) }},
	{"ttl", ttl},
	{"ops/s", func(r Row) string { return spread(r.Rate) }},
	{"p50 ms", func(r Row) string { return latency(r.P50, false) }},
	{"p95 ms", func(r Row) string { return latency(r.P95, false) }},
	{"p99 ms", func(r Row) string { return latency(r.P99, r.Few) }},
	{"LWT/op", func(r Row) string { return lwts(r.LWTs) }},
	{"with sink", func(r Row) string {
		if r.AllLWTs == r.LWTs {
			return nothing
		}
		return lwts(r.AllLWTs)
	}},
	{"share of C", func(r Row) string { return share(r.Ratio) }},
	{"by baseline", func(r Row) string { return share(r.ToBaseline) }},
	{"ok/fail/unknown", func(r Row) string { return fmt.Sprintf("%d/%d/%d", r.OK, r.Fail, r.Unknown) }},
	{"fair", fairness},
}

// Print writes the summary for a terminal.
func Print(out io.Writer, r *Result) error {
	rows, err := r.Rows()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s, seed %d\n", r.setting(), r.Plan.Seed)
	if len(rows) > 0 {
		fmt.Fprintf(out, "median [least..most] over rounds; latencies of all rounds together; share of C: row changes/s (jobs/s) by those of the bare LWT in the same round, 95 %% CI\n\n")
		if err := printRows(out, rows); err != nil {
			return err
		}
	}
	for _, s := range r.Steady {
		fmt.Fprintln(out, "  "+s.Text())
	}
	for _, t := range r.Targets {
		fmt.Fprintln(out, "  "+t.Text())
	}
	for _, n := range append(r.Suite.Headlines(r), r.Notes...) {
		fmt.Fprintln(out, "  "+n)
	}
	fmt.Fprintf(out, "  %s\n", r.WarmUp)
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
	s := r.Suite.Setting()
	if len(r.Plan.Arms) > 0 {
		s += fmt.Sprintf(", %d rounds of %s an arm", r.Plan.Rounds, r.Plan.Window)
	}
	return s
}

func printRows(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	heads, lines := []string{"arm"}, make([][]string, len(rows))
	for i, row := range rows {
		lines[i] = []string{fmt.Sprintf("%-2s  %s", row.Arm.Letter, row.Arm.Name)}
	}
	for _, c := range columns {
		says := false
		for _, row := range rows {
			says = says || c.of(row) != nothing
		}
		if !says {
			continue
		}
		heads = append(heads, c.head)
		for i, row := range rows {
			lines[i] = append(lines[i], c.of(row))
		}
	}
	fmt.Fprintln(w, strings.Join(heads, "\t"))
	for _, l := range lines {
		fmt.Fprintln(w, strings.Join(l, "\t"))
	}
	for _, row := range rows {
		for _, p := range row.Parts {
			fmt.Fprintf(w, "%s, %s\tp50 %s\tp95 %s\tp99 %s\n", row.Arm.ID, p.Name, latency(p.P50, false), latency(p.P95, false), latency(p.P99, row.Few))
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

func ttl(r Row) string {
	if r.Arm.TTL == 0 {
		return nothing
	}
	return strings.TrimSuffix(r.Arm.TTL.String(), "m0s")
}

// Number writes about three significant digits without an exponent.
func Number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.2:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func spread(s stat.Spread) string {
	if s.N == 0 {
		return nothing
	}
	return fmt.Sprintf("%s [%s..%s]", Number(s.Median), Number(s.Min), Number(s.Max))
}

func latency(q Quantile, few bool) string {
	if q.All == 0 {
		return nothing
	}
	mark := ""
	if few {
		mark = "~"
	}
	return fmt.Sprintf("%s%s [%s..%s]", mark, Number(q.All), Number(q.Min), Number(q.Max))
}

// lwts leaves the spread out where there is none to speak of.
func lwts(e stat.Estimate) string {
	switch {
	case e.N == 0 || e.Max == 0:
		return nothing
	case e.Max-e.Min < 0.02*e.Median:
		return Number(e.Median)
	}
	return spread(e.Spread)
}

func share(e stat.Estimate) string {
	if e.N == 0 {
		return nothing
	}
	return Factor(e)
}

func fairness(row Row) string {
	if !row.Arm.compete() || row.Jain.N == 0 {
		return nothing
	}
	return fmt.Sprintf("%.2f [%.2f..%.2f]", row.Jain.Median, row.Jain.Min, row.Jain.Max)
}

// Plural chooses a word by a number.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
