package checker

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"fencepost/checker/phrase"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// Print writes a result for people: the verdict, a table of the properties, and
// the violations with their events as file:line.
func Print(w io.Writer, r *Result) {
	PrintPainted(w, r, func(_, text string) string { return text })
}

// PrintPainted is Print with texts painted as the verdict or status says. What paint
// adds must be of one length, or the table is not straight.
func PrintPainted(w io.Writer, r *Result, paint func(status, text string) string) {
	printAnswer(w, r, paint)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, p := range r.Properties {
		status := strings.ToUpper(string(p.Status))
		if p.Status == StatusPass || p.Status == StatusNA {
			status = string(p.Status)
		}
		found := p.Detail
		if p.Count > 0 {
			found = phrase.Plural(p.Count, "finding")
		} else if p.Status == StatusPass {
			found = fmt.Sprintf("%d checked", p.Checked)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.ID, paint(string(p.Status), status), p.Title, found)
	}
	t.Flush()
	for _, p := range r.Properties {
		// What is not conclusive is in verdict.json only.
		if p.Status == StatusFail || p.Status == StatusInvalid {
			printViolations(w, r, &p, paint)
		}
	}
	c := r.Counts
	grants, unknown := fmt.Sprintf("%d grants", c.Grants), fmt.Sprintf("%d unknown (%d settled)", c.Unknowns, c.UnknownSettled)
	if !r.Chained() {
		grants, unknown = grants+" reported", fmt.Sprintf("%d unknown", c.Unknowns)
	}
	fmt.Fprintf(w,
		"\n%s in %s of %d process lives: %d cycles, %s, %d takeovers, %d effects, %d stale refused, %d duplicates, %s, %d resends, %d leases "+
			"lost, %d late sends, %d of %d faults proven, %d torn lines\n",
		phrase.Plural(c.Events, "event"), phrase.Plural(c.Operations, "operation"), c.Procs,
		c.Cycles, grants, c.Takeovers, c.Effects, c.StaleRefused, c.Duplicates, unknown, c.Resends, c.LeasesLost, c.LateSends,
		c.FaultsProven, c.Faults, c.Torn)
	if n := c.Jobs; n != nil {
		fmt.Fprintf(w, "jobs: %s, %d cancelled, %d abandoned, %d open; %s, %d at once with another of the job, %d duplicate enqueues\n",
			n.Text(), n.Cancelled, n.Abandoned, n.Open, phrase.Plural(n.Starts, "start"), n.Overlaps, n.Duplicates)
	}
	if line := r.Recovery.Text(); line != "" {
		fmt.Fprintf(w, "recovery: %s\n", line)
	}
	for _, line := range []struct{ name, text string }{
		{"progress", property.ProgressText(r.Progress, property.SuccessNoun(r.Counts))}, {"machine", r.HostBusy}, {"baseline", r.Cold},
	} {
		if line.text != "" {
			fmt.Fprintf(w, "%s: %s\n", line.name, line.text)
		}
	}
}

// printAnswer writes what comes first: the answer in one sentence, and below it what it rests
// on.
func printAnswer(w io.Writer, r *Result, paint func(status, text string) string) {
	a := AnswerOf(r, nil)
	fmt.Fprintf(w, "%s  %s\n", paint(string(r.Verdict), string(r.Verdict)), a.Sentence())
	if len(a.Mechanisms) > 1 {
		fmt.Fprintf(w, "  mistakes that fit: %s (fencepost explain tells more)\n", strings.Join(a.Mechanisms, ", "))
	}
	for _, line := range a.Exercised {
		fmt.Fprintf(w, "  exercised      %s\n", line)
	}
	for _, line := range a.NotExercised {
		fmt.Fprintf(w, "  not exercised  %s\n", line)
	}
	fmt.Fprintln(w)
}

func printViolations(w io.Writer, r *Result, p *Property, paint func(status, text string) string) {
	for i, v := range p.Violations {
		if i == property.Printed {
			fmt.Fprintf(w, "\n%s: %d more\n", p.ID, p.Count-property.Printed)
			break
		}
		fmt.Fprintf(w, "\n%s: %s\n", paint(string(p.Status), p.ID), v.Message)
		for _, e := range v.Events {
			fmt.Fprintf(w, "  %s: +%.3f ms %s\n", phrase.FileLine(r.Dir, e.File, e.Line), float64(e.Event.TS-v.From)/1e6, eventText(e.Event))
			if l := e.Event.Life(); l != nil {
				for _, line := range l.Log {
					fmt.Fprintf(w, "    | %s\n", line)
				}
			}
		}
	}
	if p.Visualization != "" && p.Status != StatusPass {
		fmt.Fprintf(w, "\n%s: see %s\n", p.ID, filepath.Join(r.Dir, p.Visualization))
	}
}

// eventText is an event's line without what is already said.
func eventText(e history.Event) string {
	ts := e.TS
	e.TS = 0
	if l := e.Life(); l != nil { // its log is printed below it
		short := *l
		short.Log = nil
		e.OwnDetails().Life = &short
	}
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Sprint(ts)
	}
	return strings.Replace(string(b), `"ts":0,`, "", 1)
}
