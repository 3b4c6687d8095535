package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"fencepost/checker/phrase"
)

// Print writes an explanation for people: the answer, how one case came about, and
// the mistakes that fit. Files are named relative to dir.
func Print(w io.Writer, e *Explanation, dir string) {
	fmt.Fprintf(w, "%s  %s\n", e.Verdict, e.Summary)
	if len(e.Causes) > 0 {
		shown, rivals, others := e.Split()
		printCase(w, shown, dir)
		printMistakes(w, shown, rivals)
		printOthers(w, others)
	}
	for _, u := range e.Unexplained {
		fmt.Fprintf(w, "\nNot explained: %s\n", u)
	}
	for _, l := range e.Lacks {
		fmt.Fprintf(w, "\nAs a test the run also lacks: %s\n", l)
	}
}

func printCase(w io.Writer, c Cause, dir string) {
	if len(c.Chain) == 0 {
		return
	}
	fmt.Fprint(w, "\nHow it came about")
	if c.Key != "" {
		fmt.Fprintf(w, " on %s", c.Key)
	}
	fmt.Fprintln(w, ":")
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, s := range c.Chain {
		where := ""
		if s.File != "" {
			where = phrase.FileLine(dir, s.File, s.Line)
		}
		fmt.Fprintf(t, "  %+.3f s\t%s\t%s\t%s\n", s.At, s.Role, s.Text, where)
	}
	t.Flush()
	if len(c.Logs) > 0 {
		fmt.Fprintln(w, "\nLogs around the mistake:")
		for _, l := range c.Logs {
			fmt.Fprintf(w, "  %+.3f s  %s: %s\n", l.At, phrase.FileLine(dir, l.File, l.Line), l.Text)
		}
	}
}

// printMistakes writes the mistake of which a case is shown or, of rivals, what would tell
// them apart.
func printMistakes(w io.Writer, c Cause, rivals []Cause) {
	if len(rivals) == 0 {
		fmt.Fprintf(w, "\nThe mistake: %s\n  [%s] accounts for %s; seen %s\n",
			c.Statement, c.Mechanism, strings.Join(c.Properties, ", "), phrase.Times(c.Count))
	} else {
		fmt.Fprintf(w, "\nOne of %d mistakes, which this history cannot tell apart; they account for %s, seen %s:\n",
			len(rivals), strings.Join(c.Properties, ", "), phrase.Times(c.Count))
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, "  MISTAKE\tWHAT IT IS\tRULED OUT BY")
		for _, r := range rivals {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", r.Mechanism, r.Statement, r.Apart)
		}
		t.Flush()
	}
	for _, text := range c.Evidence {
		fmt.Fprintf(w, "  - %s\n", text)
	}
}

func printOthers(w io.Writer, others []Cause) {
	if len(others) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWhat fits too (--json has how each came about):")
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "  MISTAKE\tWHAT IT IS\tACCOUNTS FOR\tEVIDENCE")
	for _, c := range others {
		evidence := strings.Join(c.Evidence[:min(1, len(c.Evidence))], "")
		if c.Rank > 1 {
			evidence = "weaker: " + evidence
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", c.Mechanism, c.Statement, strings.Join(c.Properties, ", "), evidence)
	}
	t.Flush()
}
