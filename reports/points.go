package reports

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"fencepost/harness/target/control"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// PointTable is which points faults waited for in some runs, which were reached, and what became
// of the operations there. It has every point that there is.
type PointTable struct {
	Runs   int
	Faults []string // the columns, by kind
	Rows   []PointRow
	// Inferred are armings that are known only as they were reached.
	Inferred int
}

// PointRow is one point.
type PointRow struct {
	Point, About string
	measure.Reach
	Meant int // how often it was to be armed, by the plans
	Cells []PointCell
}

// PointCell is a point under the faults of a kind.
type PointCell struct {
	// Reached of Want: it was armed so often, or was to be, if that is more.
	Reached, Want int
}

// Text is "" where no fault of the kind waits for the point.
func (c PointCell) Text() string {
	switch {
	case c.Want == 0:
		return ""
	case c.Reached == c.Want:
		return fmt.Sprint(c.Reached)
	}
	return fmt.Sprintf("%d of %d", c.Reached, c.Want)
}

// Missed: nobody ever came to the point under such a fault, though some were to.
func (c PointCell) Missed() bool { return c.Want > 0 && c.Reached == 0 }

// Idle: no fault waits for the point.
func (r PointRow) Idle() bool { return max(r.Armed, r.Meant) == 0 }

// Missed: see PointCell.
func (r PointRow) Missed() bool { return slices.ContainsFunc(r.Cells, PointCell.Missed) }

// NewPointTable sums up what runs recorded (Points) beside what their plans have (Meant).
func NewPointTable(runs []evidence.Result) PointTable {
	var points, meant []measure.Reach
	for _, r := range runs {
		points, meant = append(points, r.Points...), append(meant, r.Meant...)
	}
	points, meant = measure.SumReaches(points), measure.SumReaches(meant)
	faults, names := map[string]bool{}, map[string]string{}
	for p, about := range control.Points {
		names[string(p)] = about
	}
	for _, r := range slices.Concat(points, meant) {
		faults[r.Fault] = true
		if _, known := names[r.Point]; !known {
			names[r.Point] = "a point of older runs"
		}
	}
	t := PointTable{Runs: len(runs), Faults: slices.Sorted(maps.Keys(faults))}
	of := func(all []measure.Reach, point, fault string) (out measure.Reach) {
		for _, r := range all {
			if r.Point == point && (fault == "" || r.Fault == fault) {
				out.Add(r)
			}
		}
		return out
	}
	for _, point := range slices.SortedFunc(maps.Keys(names), comparePoints) {
		row := PointRow{Point: point, About: names[point], Reach: of(points, point, ""), Meant: of(meant, point, "").Armed}
		for _, f := range t.Faults {
			had := of(points, point, f)
			row.Cells = append(row.Cells, PointCell{had.Reached, max(had.Armed, of(meant, point, f).Armed)})
		}
		t.Inferred += row.Inferred
		t.Rows = append(t.Rows, row)
	}
	return t
}

// comparePoints has those of jobs alone at the end.
func comparePoints(a, b string) int {
	of := func(p string) int {
		if control.OfJobs(control.Point(p)) {
			return 1
		}
		return 0
	}
	if d := of(a) - of(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// PointColumn is what may have become of an operation, or afterwards.
type PointColumn struct {
	Name, About string
	of          func(measure.Reach) int
}

// Columns are all there are. The first five add up to Reached.
func (t PointTable) Columns() []PointColumn { return pointColumns }

var pointColumns = []PointColumn{
	{"ok", "it took effect", func(r measure.Reach) int { return r.OK }},
	{"fail", "it certainly had no effect; a run: it did not complete its job", func(r measure.Reach) int { return r.Fail }},
	{"unknown", "its client did not learn whether it took effect", func(r measure.Reach) int { return r.Unknown }},
	{"no end", "its process died before it ended", func(r measure.Reach) int { return r.NoEnd }},
	{"no record", "operations of this kind are not in the history", func(r measure.Reach) int { return r.Unrecorded }},
	{"lease lost", "how often the lease of the lock or shard was lost afterwards", func(r measure.Reach) int { return r.LeaseLost }},
}

// Outcomes are a row's, by column.
func (r PointRow) Outcomes() (out []int) {
	for _, o := range pointColumns {
		out = append(out, o.of(r.Reach))
	}
	return out
}

// Note says what the numbers of older histories lack; "": nothing.
func (t PointTable) Note() string {
	if t.Inferred == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s of histories without arm notes: points that nobody reached there are known from the plans alone.",
		t.Inferred, plural(t.Inferred, "arming is", "armings are"))
}

// Print writes the table as text.
func (t PointTable) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	head := append([]string{"point", "armed", "reached"}, t.Faults...)
	for _, c := range pointColumns {
		head = append(head, c.Name)
	}
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, r := range t.Rows {
		fmt.Fprintf(w, "%s\t%d\t%d", r.Point, r.Armed, r.Reached)
		for _, c := range r.Cells {
			text := c.Text()
			switch {
			case c.Missed():
				text += " !"
			case text == "":
				text = "·"
			}
			fmt.Fprintf(w, "\t%s", text)
		}
		for _, n := range r.Outcomes() {
			if r.Reached == 0 {
				fmt.Fprint(w, "\t·")
			} else {
				fmt.Fprintf(w, "\t%d", n)
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d %s. !: a fault waits for the point, and nobody came. ·: none waits for it.\n", t.Runs, plural(t.Runs, "run", "runs"))
	if note := t.Note(); note != "" {
		fmt.Fprintln(out, note)
	}
	return nil
}
