package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// calls are a client's whole calls: they span what others are parts of.
var calls = map[history.Op]bool{history.OpLock: true, history.OpExtend: true, history.OpClose: true, history.OpEnqueue: true, history.OpSchedule: true, history.OpCommand: true}

// timelineBuilder numbers what a history names, and with that makes the columns.
type timelineBuilder struct {
	run   *run
	ops   []history.Operation // of the time line, in the order of their begins
	end   int64               // of the axis, in µs
	lanes *index
	procs *index
	files *index
	names *index
	says  *index
	kinds *index

	issuer map[string]string // by resource
	at     map[string]int    // place among ops, by life and line of the invoke and of the end
}

func newTimelineBuilder(r *run) *timelineBuilder {
	b := &timelineBuilder{
		run: r, lanes: newIndex(), procs: newIndex(), files: newIndex(), names: newIndex(), says: newIndex(""), kinds: newIndex(),
		issuer: map[string]string{}, at: map[string]int{},
	}
	for _, e := range r.history.Events {
		if e.Issuer != "" && e.Key != "" && e.Type == history.Invoke {
			b.issuer[e.Key] = e.Issuer
		}
	}
	return b
}

// us is an instant in µs of the run.
func (b *timelineBuilder) us(ts int64) int64 { return (ts - b.run.Analysis.Start) / 1000 }

func (b *timelineBuilder) laneOf(name string) int {
	if i, ok := b.lanes.at[name]; ok {
		return i
	}
	return -1
}

// row is the fenced row that an operation is about: what its token is of.
func (b *timelineBuilder) row(e history.Event) string {
	switch {
	case e.Issuer != "":
		return e.Issuer
	case e.Job() != nil:
		return e.Job().Shard
	case e.Schedule() != nil:
		return e.Schedule().Shard
	case e.Op == history.OpGet:
		return b.issuer[e.Key]
	}
	return e.Key
}

func (b *timelineBuilder) build() timelineData {
	left := b.collect()
	b.number()
	d := timelineData{
		End: b.end, Noun: "lock", Lanes: b.lanes.list(), Left: left, Kinds: []timelineKind{},
	}
	if len(b.run.Analysis.Owners) > 0 {
		d.Noun = "shard"
	}
	b.holds(&d)
	b.columns(&d)
	b.windows(&d)
	d.Marks = b.marks()
	for i, k := range b.kinds.names {
		op := history.Op(k)
		d.Kinds = append(d.Kinds, timelineKind{Name: measure.OpTitle(op), About: measure.OpAbout(op), Off: calls[op]})
		if h, _, ok := b.run.Analysis.Latencies.Headline(); ok && h.Op == op {
			d.Headline = i
		}
	}
	d.Found = b.violations()
	b.people(&d)
	d.Files, d.Names, d.Says = b.files.list(), b.names.list(), b.says.list()
	return d
}

// collect chooses the operations and the axis's end. What it leaves out it says.
func (b *timelineBuilder) collect() (left string) {
	a := b.run.Analysis
	last := b.last()
	for _, op := range slices.Concat(a.Ops, b.runs()) {
		if op.End.TS != 0 && op.End.TS < a.Start || op.Invoke.TS > last {
			continue // the set-up, and what is read after the run
		}
		b.ops = append(b.ops, op)
	}
	b.end = b.us(last) + 1
	if len(b.ops) > maxTimelineOps {
		n := len(b.ops)
		b.ops = slices.DeleteFunc(b.ops, func(op history.Operation) bool {
			return op.Outcome == history.OK && op.Invoke.Op != history.OpAcquire && op.Invoke.Op != history.OpTake
		})
		b.ops = b.ops[:min(len(b.ops), maxTimelineOps)]
		left = fmt.Sprintf("The run has %s operations, too many to draw: those that ended ok are left out, but for grants. operations.csv "+
			"has all.", measure.FormatCount(n))
	}
	slices.SortStableFunc(b.ops, func(x, y history.Operation) int { return cmp.Compare(x.Invoke.TS, y.Invoke.TS) })
	return left
}

// last is the axis's end: the run's, unless a violation has a later event.
func (b *timelineBuilder) last() int64 {
	last := b.run.Analysis.End
	if b.run.Verdict == nil {
		return last
	}
	for _, p := range b.run.Verdict.Properties {
		for _, v := range p.Violations {
			if p.Status != checker.StatusInvalid {
				_, to := window(v)
				last = max(last, to)
			}
		}
	}
	return last
}

// runs are the runs of jobs, from start to finish; one without a finish is unknown.
func (b *timelineBuilder) runs() []history.Operation {
	type id struct {
		issuer string
		token  int64
	}
	var out []history.Operation
	at := map[id]int{}
	for _, e := range b.run.history.Events {
		if e.Type != history.Note || e.Issuer == "" {
			continue
		}
		k := id{e.Issuer, e.Token}
		switch e.Op {
		case history.NoteStart:
			at[k] = len(out)
			e.Op = measure.OpRun
			out = append(out, history.Operation{Invoke: e, Outcome: history.Unknown})
		case history.NoteFinish:
			i, ok := at[k]
			if !ok {
				continue
			}
			e.Op = measure.OpRun
			out[i].End, out[i].Outcome = e, history.OK
			if e.Error != "" {
				out[i].Outcome = history.Fail
			}
		}
	}
	return out
}

// number gives lanes, processes and kinds their places, in an order for readers.
func (b *timelineBuilder) number() {
	rows, procs, kinds := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, op := range b.ops {
		rows[b.row(op.Invoke)], procs[op.Invoke.Proc], kinds[string(op.Invoke.Op)] = true, true, true
	}
	for _, g := range slices.Concat(b.run.Analysis.Grants, b.run.Analysis.Owners) {
		rows[g.Lock], procs[g.Proc] = true, true
	}
	delete(rows, "")
	fill := func(x *index, set map[string]bool, compare func(a, b string) int) {
		for _, n := range slices.SortedFunc(maps.Keys(set), compare) {
			x.of(n)
		}
	}
	fill(b.lanes, rows, byNumber)
	fill(b.procs, procs, byNumber)
	fill(b.kinds, kinds, func(x, y string) int { return measure.CompareOps(history.Op(x), history.Op(y)) })
}

// columns encodes the operations.
func (b *timelineBuilder) columns(d *timelineData) {
	n := len(b.ops)
	lines := map[int]int{} // by file: the line before
	in := func(i int) history.Event { return b.ops[i].Invoke }
	for i, op := range b.ops {
		b.at[place(op.Invoke)] = i
		if op.End.Type != "" {
			b.at[place(op.End)] = i
		}
	}
	d.Ops = timelineOps{
		N:  n,
		At: steps(n, func(i int) int64 { return b.us(in(i).TS) }),
		Dur: uvarints(n, func(i int) int64 {
			if b.ops[i].End.TS == 0 {
				return 0
			}
			return b.us(b.ops[i].End.TS) - b.us(in(i).TS) + 1
		}),
		Kind:    uvarints(n, func(i int) int64 { return int64(b.kinds.of(string(in(i).Op))) }),
		Outcome: uvarints(n, func(i int) int64 { return int64(slices.Index(outcomes, b.ops[i].Outcome)) }),
		Proc:    uvarints(n, func(i int) int64 { return int64(b.procs.of(in(i).Proc)) }),
		Lane:    uvarints(n, func(i int) int64 { return int64(b.laneOf(b.row(in(i))) + 1) }),
		Name: uvarints(n, func(i int) int64 {
			if key := in(i).Key; key != "" && key != b.row(in(i)) {
				return int64(b.names.of(key) + 1)
			}
			return 0
		}),
		Token: uvarints(n, func(i int) int64 { return max(tokenOf(b.ops[i]), 0) }),
		Say:   uvarints(n, func(i int) int64 { return int64(b.says.of(sayOf(b.ops[i]))) }),
		Line: varints(n, func(i int) int64 {
			f := b.files.of(relative(in(i).File))
			step := in(i).Line - lines[f]
			lines[f] = in(i).Line
			return int64(step)
		}),
		EndLine: uvarints(n, func(i int) int64 { return int64(max(b.ops[i].End.Line-in(i).Line, 0)) }),
	}
}

func place(e history.Event) string { return fmt.Sprintf("%s:%d", relative(e.File), e.Line) }

// outcomes are numbered in this order.
var outcomes = []history.Type{history.OK, history.Fail, history.Unknown}

// tokenOf is the token that an operation is about: what it shows, sets, or gives back.
func tokenOf(op history.Operation) int64 {
	in, end := op.Invoke, op.End
	switch {
	case in.Token != 0:
		return in.Token
	case end.Token != 0:
		return end.Token
	case in.To != nil:
		return in.To.Fence
	case end.Row != nil && op.Outcome == history.OK:
		return end.Row.Fence
	}
	return 0
}

// sayOf is what an operation says besides its columns.
func sayOf(op history.Operation) string {
	in, end := op.Invoke, op.End
	var parts []string
	if in.Takeover {
		parts = append(parts, "takeover")
	}
	if in.Attempt() > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", in.Attempt()))
	}
	switch end.Result {
	case "", "applied":
	case "stale":
		parts = append(parts, fmt.Sprintf("stale: the sink had seen %d", end.Seen))
	default:
		parts = append(parts, end.Result)
	}
	if n := len(end.Sends); n > 1 {
		parts = append(parts, fmt.Sprintf("sent %d times", n))
	}
	if end.Error != "" {
		parts = append(parts, end.Error)
	}
	if op.Outcome == history.Fail && end.Row != nil && end.Error == "" && !end.Row.Absent {
		parts = append(parts, fmt.Sprintf("the row had token %d", end.Row.Fence))
	}
	return strings.Join(parts, "; ")
}

// people lists workers and processes with their colours and files.
func (b *timelineBuilder) people(d *timelineData) {
	var workers []string
	for _, p := range b.procs.names {
		if w := history.Worker(p); w != history.Harness && !slices.Contains(workers, w) {
			workers = append(workers, w)
		}
	}
	slices.SortFunc(workers, byNumber)
	d.Workers, d.Procs = []timelineWorker{}, []timelineProc{}
	for i, w := range workers {
		d.Workers = append(d.Workers, timelineWorker{Name: w, Color: chart.HolderColor(i).Name})
	}
	if slices.ContainsFunc(b.procs.names, func(p string) bool { return history.Worker(p) == history.Harness }) {
		workers = append(workers, history.Harness)
		d.Workers = append(d.Workers, timelineWorker{Name: history.Harness, Color: "line"})
	}
	for _, p := range b.procs.names {
		file := b.files.of(relative(history.Life(p) + ".jsonl"))
		d.Procs = append(d.Procs, timelineProc{Name: p, Worker: slices.Index(workers, history.Worker(p)), File: file})
	}
}
