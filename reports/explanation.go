package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"fencepost/checker"
	"fencepost/harness/target/system"
)

// roleNames are the roles of a chain's steps as a page shows them.
var roleNames = map[string]string{
	checker.RoleBefore: "before", checker.RoleFault: "fault", checker.RoleMistake: "the mistake", checker.RoleHarm: "what came of it",
}

// explain looks for the cause of a verdict that is not PASS.
func (r *run) explain() error {
	if r.Verdict == nil || r.history == nil || r.Verdict.Verdict == checker.Pass {
		return nil
	}
	r.explanation = checker.Explain(r.history, r.Verdict, checker.Options{Dir: r.dir})
	if err := r.explanation.AddLogs(r.dir, r.history); err != nil {
		return fmt.Errorf("the explanation lacks what the logs say: %w", err)
	}
	return nil
}

// causes are the mistakes that fit: one case, and what it may be instead.
type causes struct {
	*checker.Explanation
	Lead           string
	Shown          *checker.Cause // nil: nothing that is known here fits
	Rivals, Others []checker.Cause
}

// Cause is why the run is not PASS, nil if there is nothing to explain.
func (r *run) Cause() *causes {
	e := r.explanation
	if e == nil {
		return nil
	}
	v := &causes{Explanation: e, Lead: "No mechanism that is known here fits what was found."}
	if len(e.Causes) == 0 {
		return v
	}
	shown, rivals, others := e.Split()
	v.Shown, v.Rivals, v.Others = &shown, rivals, others
	switch {
	case len(rivals) > 0:
		v.Lead = "Several mechanisms fit, and this history cannot tell them apart."
	case len(e.Best()) > 1:
		v.Lead = "Several mechanisms fit equally well; there may be more than one mistake."
	default:
		v.Lead = "One mechanism fits best."
	}
	return v
}

// PropertyLink leads to a property's first violation, or to the table.
func (r *run) PropertyLink(id string) string {
	for _, p := range r.Verdict.Properties {
		if p.ID == id && len(p.Violations) > 0 && p.Status != checker.StatusInvalid {
			return "#" + violationID(id, 0)
		}
	}
	return "#properties"
}

// ExplainedRun is a kept run of a known-broken variant with what was named for it.
type ExplainedRun struct {
	System, Run string
	// Killed: it is red as the variant must be; other runs show something else.
	Killed bool
	// Best are the mechanisms that were named first.
	Best []string
}

// ExplainedRow is how well the runs of one variant are explained.
type ExplainedRow struct {
	System system.System
	// Runs are those that are red as they must be; Otherwise how many are not.
	Runs, Otherwise int
	// Named are those in which the planted mechanism is of the first rank, Alone those
	// in which nothing else is.
	Named, Alone int
	// Instead counts what was named in runs that do not name it.
	Instead map[string]int
}

// MinNamed is the part of the runs whose planted mechanism must be named.
const MinNamed = 0.9

// Explained sums runs up by variant, in the order of systems.
func Explained(systems []system.System, runs []ExplainedRun) []ExplainedRow {
	var out []ExplainedRow
	for _, s := range systems {
		row := ExplainedRow{System: s, Instead: map[string]int{}}
		for _, r := range runs {
			switch {
			case r.System != s.Name:
			case !r.Killed:
				row.Otherwise++
			default:
				row.Runs++
				if slices.Contains(r.Best, s.Red.Mechanism) {
					row.Named++
					if len(r.Best) == 1 {
						row.Alone++
					}
					continue
				}
				if len(r.Best) == 0 {
					row.Instead["nothing"]++
				}
				for _, id := range r.Best {
					row.Instead[id]++
				}
			}
		}
		out = append(out, row)
	}
	return out
}

// NamedShare is the part of the variants' runs whose mechanism is named, each variant
// counting the same however many of its runs are kept; variants without a run do not count.
func NamedShare(rows []ExplainedRow) (share float64, variants int) {
	for _, r := range rows {
		if r.Runs > 0 {
			share += float64(r.Named) / float64(r.Runs)
			variants++
		}
	}
	if variants > 0 {
		share /= float64(variants)
	}
	return share, variants
}

// PrintExplained prints the table and its sum.
func PrintExplained(out io.Writer, rows []ExplainedRow) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "VARIANT\tPLANTED\tRUNS\tNAMED\tALONE\tNAMED INSTEAD")
	missing, otherwise := 0, 0
	for _, r := range rows {
		otherwise += r.Otherwise
		if r.Runs == 0 {
			missing++
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", strings.TrimPrefix(r.System.Name, "broken/"), r.System.Red.Mechanism, r.Runs, r.Named,
			r.Alone, r.instead())
	}
	_ = w.Flush()
	share, variants := NamedShare(rows)
	fmt.Fprintf(out, "\n%.0f %% of the planted mechanisms are named, over %d variants; %d variants have no kept run that is red as it must "+
		"be, %d runs are red otherwise\n", 100*share, variants, missing, otherwise)
}

func (r ExplainedRow) instead() string {
	ids := slices.SortedFunc(maps.Keys(r.Instead), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Instead[b], r.Instead[a]),
			cmp.Compare(a, b))
	})
	for i, id := range ids {
		ids[i] = fmt.Sprintf("%s (%d)", id, r.Instead[id])
	}
	if len(ids) == 0 {
		return "–"
	}
	return strings.Join(ids, ", ")
}
