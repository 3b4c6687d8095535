package reports

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"fencepost/reports/measure"
)

// Print writes the comparison for a terminal; all says that what cannot be told apart is listed
// too. paint colours a text as a verdict's name says, and makes all texts longer by as much.
func (c BenchComparison) Print(out io.Writer, all bool, paint func(verdict, text string) string) error {
	fmt.Fprintf(out, "OLD  %s\nNEW  %s\n", c.Old, c.New)
	for _, w := range c.Warnings {
		fmt.Fprintf(out, "%s  %s\n", paint("INVALID", "warning"), w)
	}
	for _, f := range c.Facts {
		fmt.Fprintf(out, "differs  %s: %s | %s\n", f.Name, f.Old, f.New)
	}
	fmt.Fprintln(out)
	if err := c.table(out, all, paint); err != nil {
		return err
	}
	for _, m := range c.Missing {
		fmt.Fprintf(out, "not compared  %s: %s lacks it for %s\n", m.Quantity, m.Lacks, strings.Join(m.Arms, ", "))
	}
	for _, only := range []struct {
		side string
		arms []string
	}{{"OLD", c.OldOnly}, {"NEW", c.NewOnly}} {
		if len(only.arms) > 0 {
			fmt.Fprintf(out, "not compared  arms that only %s has: %s\n", only.side, strings.Join(only.arms, ", "))
		}
	}
	word, text := c.Conclusion()
	fmt.Fprintf(out, "%s  %s\n", paint(word, word), text)
	return nil
}

// Conclusion says in a line what the costs decide: PASS, FAIL or INVALID.
func (c BenchComparison) Conclusion() (word, text string) {
	worse := c.Worse()
	var ids []string
	for _, d := range worse {
		if !slices.Contains(ids, d.Quantity) {
			ids = append(ids, d.Quantity)
		}
	}
	switch {
	case len(worse) > 0:
		return "FAIL", fmt.Sprintf("%d gated %s worse: %s", len(worse), plural(len(worse), "cost is", "costs are"), strings.Join(ids, ", "))
	case c.Ungated:
		return "INVALID", "gated costs could not be compared, or not all of them: measure both with a fencepost that reads them, on clusters of one kind"
	}
	return "PASS", "no gated cost is worse"
}

func (c BenchComparison) table(out io.Writer, all bool, paint func(verdict, text string) string) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	same := 0
	head := "arm\tquantity\tOLD\tNEW\tNEW/OLD\tA/A\tsamples\t" + paint("", "verdict") + "\n"
	for _, d := range c.Differences {
		if d.Verdict == BenchSame {
			same++
			if !all {
				continue
			}
		}
		fmt.Fprint(w, head)
		head = ""
		fmt.Fprintln(w, strings.Join(d.cells(paint), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	hint := ""
	if !all && same > 0 {
		hint = " (--all lists them)"
	}
	if b := c.Bare; b != nil {
		fmt.Fprintf(out, "a bare request took %s [%s, %s] times as much processor time in NEW; * as a multiple of that, in the same round\n", b.Ratio, b.Low, b.High)
	}
	_, err := fmt.Fprintf(out, "%d of %d quantities are not distinguishable%s\n", same, len(c.Differences), hint)
	return err
}

// cells are the difference's in the table.
func (d BenchDifference) cells(paint func(verdict, text string) string) []string {
	noise, samples := none.Text, ""
	if d.Noise > 0 {
		noise = fmt.Sprintf("±%.0f %%", 100*(d.Noise-1))
	}
	if d.OldSamples+d.NewSamples > 0 {
		samples = sampleText(d.OldSamples) + " | " + sampleText(d.NewSamples)
	}
	return []string{
		d.Arm, d.of.Head, d.of.text(d.Old), d.of.text(d.New),
		fmt.Sprintf("%s [%s, %s]%s", d.Ratio, d.Low, d.High, map[bool]string{true: " *"}[d.Relative]), noise, samples, d.verdict(paint),
	}
}

// verdict is the difference's with what it decides.
func (d BenchDifference) verdict(paint func(verdict, text string) string) string {
	text := string(d.Verdict)
	switch {
	case d.Verdict == BenchSame:
		return paint("", text)
	case d.Verdict == BenchBetter:
		return paint("PASS", text)
	case d.Gated:
		return paint("FAIL", text)
	case d.Kind == KindCost.ID:
		return paint("INVALID", text+" (for information)")
	}
	return paint("INVALID", text+" (rate only)")
}

// fewBench is the number of samples below which a p99 is marked: it rests on less than ten
// operations.
const fewBench = 1000

func sampleText(n int64) string {
	if n < fewBench {
		return measure.FormatCount(n) + "†"
	}
	return measure.FormatCount(n)
}

func (f benchFactor) String() string {
	if math.IsInf(float64(f), 1) {
		return "∞"
	}
	return fmt.Sprintf("%.3f", float64(f))
}
