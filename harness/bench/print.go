package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"fencepost/harness/bench/stat"
)

// Print writes the summary for a terminal.
func Print(out io.Writer, r *Result) error {
	rows, err := r.Rows()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\ncontention %s, %d rounds of %s an arm, seed %d\n", r.Plan.Contention, r.Plan.Rounds, r.Plan.Window, r.Plan.Seed)
	fmt.Fprintf(out, "median [least..most] over rounds; latencies of all rounds together; share of C: row changes/s by those of the bare LWT in the same round, 95 %% CI\n")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	threads := 0
	for _, row := range rows {
		if row.Arm.Threads != threads {
			threads = row.Arm.Threads
			fmt.Fprintf(w, "\n%d %s\tttl\tops/s\tp50 ms\tp95 ms\tp99 ms\tLWT/op\tshare of C\tok/fail/unknown\tfair\n", threads, plural(threads, "thread", "threads"))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d/%d/%d\t%s\n", fmt.Sprintf("%-2s  %s", row.Arm.Letter(), row.Arm.Name()), ttl(row.Arm), spread(row.Rate),
			latency(row.P50, false), latency(row.P95, false), latency(row.P99, row.Few), lwts(row), share(row.Ratio),
			row.OK, row.Fail, row.Unknown, fairness(row))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, n := range append(r.Headlines(), r.Notes...) {
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

func ttl(a Arm) string {
	if a.TTL == 0 {
		return "-"
	}
	return strings.TrimSuffix(a.TTL.String(), "m0s")
}

// number writes three significant digits without an exponent.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func spread(s stat.Spread) string {
	if s.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%s [%s..%s]", number(s.Median), number(s.Min), number(s.Max))
}

func latency(q Quantile, few bool) string {
	if q.All == 0 {
		return "-"
	}
	mark := ""
	if few {
		mark = "~"
	}
	return fmt.Sprintf("%s%s [%s..%s]", mark, number(q.All), number(q.Min), number(q.Max))
}

func lwts(row Row) string {
	if row.Arm.Kind == KindWrite || row.LWTs.N == 0 {
		return "-"
	}
	s := number(row.LWTs.Median)
	if row.LWTs.Max-row.LWTs.Min >= 0.05 {
		s = spread(row.LWTs)
	}
	return s
}

func share(e stat.Estimate) string {
	if e.N == 0 {
		return "1"
	}
	return fmt.Sprintf("%s [%s, %s]", number(e.Median), number(e.Low), number(e.High))
}

func fairness(row Row) string {
	if row.Arm.Threads == 1 || row.Jain.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f [%.2f..%.2f]", row.Jain.Median, row.Jain.Min, row.Jain.Max)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
