package explain

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"fencepost/checker/property"
)

// Print writes an explanation for people. Files are named relative to dir.
func Print(w io.Writer, e *Explanation, dir string) {
	fmt.Fprintf(w, "%s  %s\n", e.Verdict, e.Summary)
	for i, c := range e.Causes {
		fmt.Fprintf(w, "\n%d. %s\n   [%s] %s; seen %s", i+1, upperFirst(c.Statement), c.Mechanism, support(c), seenTimes(c.Count))
		if c.Key != "" {
			fmt.Fprintf(w, "; the case below is of %s", c.Key)
		}
		fmt.Fprintln(w)
		for _, t := range c.Evidence {
			fmt.Fprintf(w, "   - %s\n", t)
		}
		if len(c.Alternatives) > 0 {
			fmt.Fprintf(w, "   This history cannot tell it from: %s. %s.\n", strings.Join(c.Alternatives, ", "), upperFirst(c.Apart))
		}
		fmt.Fprintln(w, "   How it came about:")
		printChain(w, c.Chain, dir)
		if len(c.Logs) > 0 {
			fmt.Fprintln(w, "   Logs around the mistake:")
			for _, l := range c.Logs {
				fmt.Fprintf(w, "     +%.3f s  %s:%d: %s\n", l.At, filepath.Join(dir, l.File), l.Line, l.Text)
			}
		}
	}
	for _, u := range e.Unexplained {
		fmt.Fprintf(w, "\nNot explained: %s\n", u)
	}
	for _, l := range e.Lacks {
		fmt.Fprintf(w, "\nAs a test the run also lacks: %s\n", l)
	}
}

func printChain(w io.Writer, chain []property.Step, dir string) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, s := range chain {
		where := ""
		if s.File != "" {
			name := s.File
			if dir != "" && !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			where = fmt.Sprintf("%s:%d", name, s.Line)
		}
		fmt.Fprintf(t, "     +%.3f s\t%s\t%s\t%s\n", s.At, s.Role, s.Text, where)
	}
	t.Flush()
}

// support says which properties a cause accounts for.
func support(c Cause) string {
	if c.Rank == 1 {
		return "accounts for " + strings.Join(c.Properties, ", ")
	}
	return "with less evidence; accounts for " + strings.Join(c.Properties, ", ")
}

func seenTimes(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
