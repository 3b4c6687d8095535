package reports

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// Bounds of a summary: what is longer belongs into the report.
const (
	maxSummaryRuns       = 200
	maxSummaryDetails    = 10 // runs that are not PASS
	maxSummaryViolations = 3  // a property
)

// WriteSummary writes the runs as Markdown for the summary page of a CI job: one run
// in full; of several a table, and in full those that are not PASS.
func WriteSummary(w io.Writer, runs []GateRun) error {
	var md strings.Builder
	switch len(runs) {
	case 0:
		md.WriteString("## fencepost: nothing was run\n")
	case 1:
		runs[0].section(&md)
	default:
		several(&md, runs)
	}
	_, err := io.WriteString(w, md.String())
	return err
}

func several(md *strings.Builder, runs []GateRun) {
	verdicts := map[string]int{}
	for _, g := range runs {
		verdicts[g.word()]++
	}
	var counts []string
	for _, word := range []string{string(checker.Fail), "NOT CARRIED OUT", string(checker.Invalid), string(checker.Unknown),
		string(checker.Pass)} {
		if n := verdicts[word]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, word))
		}
	}
	fmt.Fprintf(md, "## fencepost: %s\n\n", strings.Join(counts, ", "))
	var rows [][]string
	for _, g := range runs[:min(len(runs), maxSummaryRuns)] {
		operations := ""
		if g.Result != nil {
			operations = fmt.Sprint(g.Result.Counts.Operations)
		}
		rows = append(rows, []string{g.Name, g.word(), strings.Join(g.fired(), ", "), operations})
	}
	table(md, []string{"Run", "Verdict", "Not well", "Operations"}, rows)
	if more := len(runs) - maxSummaryRuns; more > 0 {
		fmt.Fprintf(md, "\nAnd %d more.\n", more)
	}
	shown := 0
	for _, g := range runs {
		if g.Result != nil && g.Result.Verdict == checker.Pass {
			continue
		}
		if shown++; shown > maxSummaryDetails {
			fmt.Fprintf(md, "\nMore runs that are not PASS are not shown in full.\n")
			return
		}
		md.WriteString("\n")
		g.section(md)
	}
}

// section is one run.
func (g GateRun) section(md *strings.Builder) {
	fmt.Fprintf(md, "## fencepost: %s\n\n", g.word())
	name := g.setting()
	if name == "" {
		name = g.Name
	}
	fmt.Fprintf(md, "**%s**\n", cell(name))
	answer := g.answer()
	fmt.Fprintf(md, "\n%s\n", cell(sentenceCase(answer.Sentence())))
	if g.Result == nil {
		fmt.Fprintf(md, "\n```\n%s\n```\n", strings.ReplaceAll(g.Err, "```", "'''"))
		return
	}
	coverage(md, answer)
	g.findings(md)
	g.causes(md)
	var rows [][]string
	for _, p := range g.Result.Properties {
		found := p.Detail
		if p.Count > 0 && p.Status != checker.StatusUnknown {
			found = fmt.Sprintf("%d found", p.Count)
		}
		status := string(p.Status)
		if p.Status != checker.StatusPass && p.Status != checker.StatusNA {
			status = "**" + strings.ToUpper(status) + "**"
		}
		rows = append(rows, []string{p.ID, p.Title, status, fmt.Sprint(p.Checked), found})
	}
	md.WriteString("\n### Properties\n\n")
	table(md, []string{"", "Demands", "Status", "Checked", "Found"}, rows)
	g.thresholds(md)
	g.numbers(md)
	if g.Page != "" {
		fmt.Fprintf(md, "\nReport: [%[1]s](%[2]s)\n", cell(g.Page), strings.ReplaceAll(filepath.ToSlash(g.Page), " ", "%20"))
	}
	if g.Info.Command != "" {
		fmt.Fprintf(md, "\nRepeat: `%s`\n", strings.ReplaceAll(g.Info.Command, "`", "'"))
	}
}

// coverage is what a PASS rests on, a line each.
func coverage(md *strings.Builder, a checker.Answer) {
	for _, list := range []struct {
		name  string
		items []string
	}{{"Exercised", a.Exercised}, {"Not exercised", a.NotExercised}} {
		if len(list.items) > 0 {
			fmt.Fprintf(md, "\n%s:\n\n", list.name)
		}
		for _, item := range list.items {
			fmt.Fprintf(md, "- %s\n", cell(item))
		}
	}
}

// findings are the first violations of what is red.
func (g GateRun) findings(md *strings.Builder) {
	for _, p := range g.Result.Properties {
		if p.Status != checker.StatusFail && p.Status != checker.StatusInvalid {
			continue
		}
		for i, v := range p.Violations {
			if i == maxSummaryViolations {
				fmt.Fprintf(md, "- %s: %d more\n", p.ID, p.Count-i)
				break
			}
			if i == 0 {
				md.WriteString("\n")
			}
			fmt.Fprintf(md, "- **%s** %s\n", p.ID, cell(v.Message))
		}
	}
}

// causes are the mechanisms that fit best, with the evidence for the case that is shown.
func (g GateRun) causes(md *strings.Builder) {
	if g.Report == nil || g.Report.Explanation == nil || len(g.Report.Explanation.Causes) == 0 {
		return
	}
	shown, rivals, _ := g.Report.Explanation.Split()
	md.WriteString("\n### Likely cause\n\n")
	if len(rivals) == 0 {
		fmt.Fprintf(md, "**%s** (%s)\n\n", cell(sentenceCase(shown.Statement)), shown.Mechanism)
	} else {
		var rows [][]string
		for _, c := range rivals {
			rows = append(rows, []string{fmt.Sprintf("%s (%s)", sentenceCase(c.Statement), c.Mechanism), sentenceCase(c.Apart)})
		}
		table(md, []string{"One of these", "Ruled out by"}, rows)
		md.WriteString("\n")
	}
	for _, e := range shown.Evidence {
		fmt.Fprintf(md, "- %s\n", cell(e))
	}
}

func (g GateRun) thresholds(md *strings.Builder) {
	var rows [][]string
	for _, b := range g.Result.Thresholds {
		rows = append(rows, []string{b.Name, strings.ToUpper(string(b.Status)), b.Detail})
	}
	if len(rows) > 0 {
		md.WriteString("\n### Thresholds\n\n")
		table(md, []string{"Threshold", "Status", "Measured"}, rows)
	}
}

// numbers are faults, counts and latencies.
func (g GateRun) numbers(md *strings.Builder) {
	c := g.Result.Counts
	if g.Report != nil && len(g.Report.Faults) > 0 {
		var rows [][]string
		for _, f := range g.Report.Faults {
			proven := "**no**"
			if f.Proven {
				proven = "yes"
			}
			rows = append(rows, []string{f.ID + " " + f.Name, strings.Join(f.Targets, ", "), fmt.Sprintf("%.1f to %.1f s", f.From, f.To), proven,
				strings.Join(f.Evidence, "; ")})
		}
		md.WriteString("\n### Faults\n\n")
		table(md, []string{"Fault", "Targets", "In force", "Proven", "Evidence"}, rows)
	}
	fmt.Fprintf(md, "\n### Counts\n\n%d operations of %d process lives, %d cycles, %d takeovers, %d effects, %d stale writes refused, %d "+
		"unknown outcomes (%d settled), %d leases lost, %d of %d faults proven.\n",
		c.Operations, c.Procs, c.Cycles, c.Takeovers, c.Effects, c.StaleRefused, c.Unknowns, c.UnknownSettled, c.LeasesLost, c.FaultsProven,
		c.Faults)
	if g.Report == nil || len(g.Report.Latencies) == 0 {
		return
	}
	var rows [][]string
	for _, l := range g.Report.Latencies {
		if l.Phase != history.PhaseBefore && l.Phase != history.PhaseFault && l.Phase != measure.AllPhases {
			continue
		}
		row := []string{measure.OpTitle(l.Op), l.Phase, fmt.Sprint(l.OK), fmt.Sprint(l.Fail), fmt.Sprint(l.Unknown), "–", "–", "–"}
		if l.OK > 0 {
			copy(row[5:], []string{measure.FormatDuration(l.P50), measure.FormatDuration(l.P95), measure.FormatDuration(l.P99)})
		}
		rows = append(rows, row)
	}
	md.WriteString("\n### Latency\n\nPercentiles are over what ended ok.\n\n")
	table(md, []string{"Operation", "Phase", "ok", "fail", "unknown", "p50", "p95", "p99"}, rows)
}
