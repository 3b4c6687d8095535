package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

// SwarmRow is what random faults showed of one known-broken variant: its runs until one found it.
type SwarmRow struct {
	System system.System
	Runs   int // that were carried out, the one that found it included
	Errors int // that could not be
	// Spent is how long all of them took.
	Spent time.Duration
	// Found says that the last of them did; By is what fired in it.
	Found bool
	By    []string
}

// Swarms are the scenarios whose faults are drawn at random.
var Swarms = []string{"swarm", "jobs-swarm"}

// Swarm sums up the results of swarms by variant, in the order of systems. A variant's runs count by
// seed, up to the first that found it.
func Swarm(systems []system.System, sink string, all []evidence.Result) []SwarmRow {
	var rows []SwarmRow
	for _, s := range systems {
		row := SwarmRow{System: s}
		mine := slices.DeleteFunc(slices.Clone(all), func(r evidence.Result) bool {
			return r.Job.System != s.Name || r.Job.Sink != sink || !slices.Contains(Swarms, r.Job.Scenario)
		})
		slices.SortFunc(mine, func(a, b evidence.Result) int {
			return cmp.Or(cmp.Compare(a.Job.Seed, b.Job.Seed), cmp.Compare(a.Attempt, b.Attempt))
		})
		for _, r := range mine {
			if row.Found {
				break
			}
			row.add(r)
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *SwarmRow) add(one evidence.Result) {
	r.Spent += one.Took
	if one.Check == nil {
		r.Errors++
		return
	}
	r.Runs++
	if foundBySwarm(r.System, one) {
		r.Found, r.By = true, one.Fired()
	}
}

// foundBySwarm reports whether a run shows somebody who does not know the mistake that there is one.
// INVALID does so of a harness that does not do what it says, and only by what must be invalid then.
func foundBySwarm(s system.System, r evidence.Result) bool {
	return r.Verdict == checker.Fail || Killed(s, r)
}

// maxSwarmErrors ends the runs of a variant: what could not be carried out so often will not be.
const maxSwarmErrors = 3

// Done reports whether no further run is due: the variant was found, its time is over, or its runs
// cannot be carried out.
func (r SwarmRow) Done(limit time.Duration) bool {
	return r.Found || r.Spent >= limit || r.Errors >= maxSwarmErrors
}

// verdict is what the runs say.
func (r SwarmRow) verdict(limit time.Duration) string {
	switch {
	case r.Found:
		return "found"
	case r.Runs+r.Errors == 0:
		return "not run"
	case limit > 0 && r.Spent < limit:
		return "not yet"
	}
	return "not found"
}

// by is what fired in the run that found it.
func (r SwarmRow) by() string {
	if !r.Found {
		return "–"
	}
	return strings.Join(r.By, ", ")
}

// SwarmTotal is what the rows show together.
type SwarmTotal struct {
	Ran, Found int
	// Half is the time within which half of the variants that ran were found, +Inf if fewer were. It is
	// known if the others ran for as long.
	Half float64
	// Least is the shortest time of one that was not found, +Inf if all were.
	Least float64
}

// TotalOfSwarm adds rows up; variants that did not run do not count.
func TotalOfSwarm(rows []SwarmRow) SwarmTotal {
	t := SwarmTotal{Half: math.Inf(1), Least: math.Inf(1)}
	var took []float64
	for _, r := range rows {
		switch {
		case r.Runs == 0:
			continue
		case r.Found:
			t.Found++
			took = append(took, r.Spent.Seconds())
		default:
			t.Least = min(t.Least, r.Spent.Seconds())
		}
		t.Ran++
	}
	slices.Sort(took)
	if at := (t.Ran+1)/2 - 1; at >= 0 && at < len(took) {
		t.Half = took[at]
	}
	return t
}

func (t SwarmTotal) String() string {
	s := fmt.Sprintf("%d of %d variants found by random faults", t.Found, t.Ran)
	switch {
	case t.Ran == 0 || math.IsInf(t.Half, 1):
		return s
	case t.Half > t.Least:
		return s + fmt.Sprintf("; one of the others had %.0f s, too short a time to say when half of them are", t.Least)
	}
	return s + fmt.Sprintf(", half of them all within %.0f s", t.Half)
}

// PrintSwarm prints the rows; limit is the time that each variant has.
func PrintSwarm(out io.Writer, rows []SwarmRow, limit time.Duration) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nVARIANT\tDIRECTED RUN\tEXPECTED\tSWARM\tRUNS\tTOOK\tFIRED")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s, %s\t%s\t%s\t%d\t%s\t%s\n", r.System.Label(), r.System.Red.Scenario, r.System.Red.Contention,
			strings.Join(r.System.Red.Properties, " or "), r.verdict(limit), r.Runs, after(r.Spent), r.by())
	}
	_ = w.Flush()
	fmt.Fprintf(out, "\n%s\n", TotalOfSwarm(rows))
}

// swarmTable writes what random faults found as Markdown, nothing if none ran.
func swarmTable(md *strings.Builder, rows []SwarmRow) {
	t := TotalOfSwarm(rows)
	if t.Ran == 0 {
		return
	}
	fmt.Fprintf(md, "\n### Power without direction\n\nThe variants under random faults (`make power SWARM=20m`), as if nobody knew the mistake: runs "+
		"with new seeds until one is red, or the time is over. %s.\n\n", t)
	var cells [][]string
	for _, r := range rows {
		if r.Runs+r.Errors > 0 {
			cells = append(cells, []string{r.System.Label(), r.System.Red.Scenario + ", " + r.System.Red.Contention, expected(r.System),
				r.verdict(0), fmt.Sprint(r.Runs), after(r.Spent), r.by()})
		}
	}
	table(md, []string{"Variant", "Directed run", "Must turn red by", "Random faults", "Runs", "Took", "What fired"}, cells)
}
