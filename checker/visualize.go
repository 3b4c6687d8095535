package checker

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
	maxVisuals   = 3       // files a property
	maxVisualKB  = 6 << 10 // a file; a search with many dead ends draws each of them
	visualSearch = 5 * time.Second
)

// visualize writes Porcupine's own page of the failing and unfinished
// partitions or, if there are none, of the one with most operations. Failing to
// write one does not change the verdict; the detail says so.
func (a *judgement) visualize(b budget, p *Property, kind string, fs []found) {
	if a.opts.Dir == "" || len(fs) == 0 {
		return
	}
	var show []found
	largest := fs[0]
	for _, f := range fs {
		if f.result != porcupine.Ok && len(show) < maxVisuals {
			show = append(show, f)
		}
		if f.part.size > largest.part.size {
			largest = f
		}
	}
	if len(show) == 0 {
		largest.segment = a.firstFault(largest.part)
		show = []found{largest}
	}
	names := map[string]int{}
	for _, f := range show {
		base := visualPrefix + kind + "-" + fileName(f.part.name)
		if names[base]++; names[base] > 1 {
			base = fmt.Sprintf("%s-%d", base, names[base])
		}
		if err := a.draw(b, f, filepath.Join(a.opts.Dir, base+".html")); err != nil {
			p.Detail += fmt.Sprintf("; the visualization of %s was not written: %v", f.part.name, err)
			continue
		}
		if p.Visualization == "" {
			p.Visualization = base + ".html"
		}
	}
}

// visualPrefix begins the name of every visualization.
const visualPrefix = "porcupine-"

func removeVisuals(dir string) {
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

// draw writes one page with fewer and fewer operations until it is small enough.
func (a *judgement) draw(b budget, f found, path string) error {
	err := errTooLarge
	for n := maxVisualOps; n >= 30 && errors.Is(err, errTooLarge); n /= 3 {
		err = a.drawSome(b, f, path, n)
	}
	return err
}

func (a *judgement) drawSome(b budget, f found, path string, n int) error {
	ops, init := choose(f, n)
	a.lanes(ops)
	// Even without time left for searching a page is worth a moment.
	timeout := visualSearch
	if b.spent() != "" {
		timeout = time.Second
	}
	model := f.part.model(init)
	_, info := porcupine.CheckOperationsVerbose(model, ops, timeout)
	info.AddAnnotations(a.annotations(ops))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = porcupine.Visualize(model, info, &limited{file: file, left: maxVisualKB << 10})
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}

// limited refuses to write more than left bytes.
type limited struct {
	file *os.File
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, errTooLarge
	}
	return l.file.Write(b)
}

// choose takes at most n operations: of a failing partition the last ones before the
// conflict, else the first ones.
func choose(f found, n int) ([]porcupine.Operation, any) {
	ops, init := f.segment.ops, f.segment.init
	switch {
	case len(ops) <= n:
	case f.result == porcupine.Ok:
		ops = prefix(ops[:n+1], ops[n].Call-1)
	default:
		ops, init = ops[len(ops)-n:], f.part.any
	}
	return slices.Clone(ops), init
}

// firstFault is the segment in which the first fault begins, or the first one.
func (a *judgement) firstFault(pt *partition) segment {
	fault := int64(0)
	if fs := a.Faults; len(fs) > 0 {
		fault = fs[0].From
	}
	var at segment
	for s := range pt.segments {
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
func (a *judgement) lanes(ops []porcupine.Operation) {
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
		ops[i].ClientId, ops[i].Metadata = use.id, describe(a.opts.Dir, src)
	}
}

// annotations are the fault windows that overlap the operations.
func (a *judgement) annotations(ops []porcupine.Operation) []porcupine.Annotation {
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
	for _, f := range a.Faults {
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
