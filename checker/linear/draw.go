package linear

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

const (
	maxVisualOps = 1000    // operations in one page (about 0.3 MB of HTML)
	maxVisuals   = 3       // files a property
	MaxVisualKB  = 6 << 10 // a file; a search with many dead ends draws each of them
	visualSearch = 5 * time.Second
)

// Drawing makes pages below dir ("": none), with the faults that were in force.
type Drawing struct {
	Dir    string
	Faults []history.FaultWindow
}

// Draw writes Porcupine's own page of the failing and unfinished partitions or, if there
// are none, of the one with most operations. It returns the first page's name, and what
// could not be written.
func (d Drawing) Draw(b Budget, kind string, fs []Found) (first string, failed []string) {
	if d.Dir == "" || len(fs) == 0 {
		return "", nil
	}
	var show []Found
	largest := fs[0]
	for _, f := range fs {
		if f.Result != porcupine.Ok && len(show) < maxVisuals {
			show = append(show, f)
		}
		if f.Part.Size > largest.Part.Size {
			largest = f
		}
	}
	if len(show) == 0 {
		largest.segment = d.firstFault(largest.Part)
		show = []Found{largest}
	}
	names := map[string]int{}
	for _, f := range show {
		base := visualPrefix + kind + "-" + fileName(f.Part.Name)
		if names[base]++; names[base] > 1 {
			base = fmt.Sprintf("%s-%d", base, names[base])
		}
		if err := d.page(b, f, filepath.Join(d.Dir, base+".html")); err != nil {
			failed = append(failed, fmt.Sprintf("the visualization of %s was not written: %v", f.Part.Name, err))
			continue
		}
		if first == "" {
			first = base + ".html"
		}
	}
	return first, failed
}

// visualPrefix begins the name of every visualization.
const visualPrefix = "porcupine-"

func RemoveDrawings(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, visualPrefix+"*.html"))
	for _, name := range old {
		os.Remove(name)
	}
}

// fileName makes a name safe for a file.
func fileName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
	return safe[:min(len(safe), 60)]
}

var errTooLarge = errors.New("the page is too large")

// page writes one page with fewer and fewer operations until it is small enough.
func (d Drawing) page(b Budget, f Found, path string) error {
	err := errTooLarge
	for n := maxVisualOps; n >= 30 && errors.Is(err, errTooLarge); n /= 3 {
		err = d.pageOf(b, f, path, n)
	}
	return err
}

func (d Drawing) pageOf(b Budget, f Found, path string, n int) error {
	ops, init := choose(f, n)
	d.lanes(ops)
	// Even without time left for searching a page is worth a moment.
	timeout := visualSearch
	if b.spent() != "" {
		timeout = time.Second
	}
	model := f.Part.model(init)
	_, info := porcupine.CheckOperationsVerbose(model, ops, timeout)
	info.AddAnnotations(d.annotations(ops))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = porcupine.Visualize(model, info, &limitedWriter{file: file, left: MaxVisualKB << 10})
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}

// limitedWriter refuses to write more than left bytes.
type limitedWriter struct {
	file *os.File
	left int
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, errTooLarge
	}
	return l.file.Write(b)
}

// choose takes at most n operations: of a failing partition the last ones before the
// conflict, else the first ones.
func choose(f Found, n int) ([]porcupine.Operation, any) {
	ops, init := f.segment.ops, f.segment.init
	switch {
	case len(ops) <= n:
	case f.Result == porcupine.Ok:
		ops = prefix(ops[:n+1], ops[n].Call-1)
	default:
		ops, init = ops[len(ops)-n:], f.Part.any
	}
	return slices.Clone(ops), init
}

// firstFault is the segment in which the first fault begins, or the first one.
func (d Drawing) firstFault(pt *Partition) segment {
	fault := int64(0)
	if fs := d.Faults; len(fs) > 0 {
		fault = fs[0].From
	}
	var at segment
	for s := range pt.Segments {
		if at.ops != nil && s.ops[0].Call > fault {
			break
		}
		at = s
	}
	return at
}

// lanes gives each operation a client number such that operations of one do not
// overlap, as those of a proc may: a renewal runs beside its client's work, and
// one that never ended keeps its lane.
func (d Drawing) lanes(ops []porcupine.Operation) {
	type lane struct {
		id   int
		free int64
	}
	byProc := map[string][]*lane{}
	total := 0
	sort.SliceStable(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	for i := range ops {
		src := ops[i].Input.(step).source()
		proc := ""
		if src != nil {
			proc = src.Invoke.Proc
		}
		var use *lane
		for _, l := range byProc[proc] {
			if l.free < ops[i].Call {
				use = l
				break
			}
		}
		if use == nil {
			use = &lane{id: total}
			total++
			byProc[proc] = append(byProc[proc], use)
		}
		use.free = ops[i].Return
		ops[i].ClientId, ops[i].Metadata = use.id, describe(d.Dir, src)
	}
}

// annotations are the fault windows that overlap the operations.
func (d Drawing) annotations(ops []porcupine.Operation) []porcupine.Annotation {
	if len(ops) == 0 {
		return nil
	}
	from, to := ops[0].Call, ops[0].Call
	for _, o := range ops {
		to = max(to, o.Call)
		if o.Return != history.Forever {
			to = max(to, o.Return)
		}
	}
	var out []porcupine.Annotation
	for _, f := range d.Faults {
		if f.To < from || f.From > to {
			continue
		}
		out = append(out, porcupine.Annotation{
			Tag: "faults", Start: max(f.From, from), End: min(f.To, to),
			Description:     f.Fault.ID + " " + f.Fault.Name + " " + strings.Join(f.Fault.Targets, ", "),
			Details:         fmt.Sprintf("%s\nproven: %v", past.Evidence(f), f.Proven),
			BackgroundColor: "#f2b8a2",
		})
	}
	return out
}
