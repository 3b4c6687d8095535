package reports

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// maxTimelineOps bounds the operations of the interactive time line: what is beyond
// makes a page that no browser likes.
const maxTimelineOps = 300_000

// timelineData is what templates/timeline-*.js draws: the history as columns. A
// column is a run of varints, which JSON holds as base64; the comments say what its
// numbers are. All times are µs of the run.
type timelineData struct {
	End      int64               `json:"end"`
	Noun     string              `json:"noun"` // of a lane: lock, shard
	Lanes    []string            `json:"lanes"`
	Workers  []timelineWorker    `json:"workers"`
	Procs    []timelineProc      `json:"procs"`
	Files    []string            `json:"files"`
	Kinds    []timelineKind      `json:"kinds"`
	Names    []string            `json:"names"` // what operations are on, where it is not the lane
	Says     []string            `json:"says"`  // what an operation says besides; the first is ""
	Ops      timelineOps         `json:"ops"`
	EndedBy  []string            `json:"ended_by"`
	Holds    timelineHolds       `json:"holds"`
	Marks    []timelineMark      `json:"marks"`
	Phases   []timelineWindow    `json:"phases"`
	Faults   []timelineWindow    `json:"faults"`
	Found    []timelineViolation `json:"violations"`
	Headline int                 `json:"headline"` // the kind whose latency is drawn first
	Left     string              `json:"left"`     // what is not in it, "" if all is
}

type timelineWorker struct {
	Name  string `json:"name"`
	Color string `json:"color"` // a CSS variable
}

type timelineProc struct {
	Name   string `json:"name"`
	Worker int    `json:"worker"`
	File   int    `json:"file"`
}

type timelineKind struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Off says that it is not drawn until asked for: it spans what others are parts of.
	Off bool `json:"off"`
}

// timelineOps has the operations in the order of their begins.
type timelineOps struct {
	N       int    `json:"n"`
	At      []byte `json:"at"`       // signed, since the one before
	Dur     []byte `json:"dur"`      // + 1; 0: it has no end
	Kind    []byte `json:"kind"`     // index of kinds
	Outcome []byte `json:"outcome"`  // 0 ok, 1 fail, 2 unknown
	Proc    []byte `json:"proc"`     // index of procs
	Lane    []byte `json:"lane"`     // index of lanes + 1; 0: none
	Name    []byte `json:"name"`     // index of names + 1; 0: the lane's
	Token   []byte `json:"token"`    // 0: none
	Say     []byte `json:"say"`      // index of says
	Line    []byte `json:"line"`     // signed, since the one before in the same file
	EndLine []byte `json:"end_line"` // since Line; 0: it has no end
}

// timelineHolds has the holdings by lane, each lane's in the order of granting.
type timelineHolds struct {
	N     int    `json:"n"`
	Lane  []byte `json:"lane"`
	Proc  []byte `json:"proc"`
	Token []byte `json:"token"`
	From  []byte `json:"from"` // signed, since the one before
	To    []byte `json:"to"`   // since From
	Row   []byte `json:"row"`  // since To, signed: until when the row named the holder
	Ended []byte `json:"ended"`
	Flags []byte `json:"flags"` // 1 a takeover, 2 its client never learnt of it
}

// timelineMark is an instant that is no operation's.
type timelineMark struct {
	At   int64  `json:"at"`
	Name string `json:"name"` // lease-lost, crash, exit, clock
	Proc string `json:"proc"`
	Lane int    `json:"lane"` // -1: all of the process
	Text string `json:"text"`
	File string `json:"file"`
	Line int    `json:"line"`
}

type timelineWindow struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Color  string `json:"color,omitempty"`
	Proven bool   `json:"proven,omitempty"`
}

// uvarints is a column of n numbers.
func uvarints(n int, f func(i int) int64) []byte {
	out := make([]byte, 0, 2*n)
	for i := range n {
		out = binary.AppendUvarint(out, uint64(f(i)))
	}
	return out
}

// varints is a column of n numbers that may be negative.
func varints(n int, f func(i int) int64) []byte {
	out := make([]byte, 0, 2*n)
	for i := range n {
		out = binary.AppendVarint(out, f(i))
	}
	return out
}

// steps is a column of n numbers, each since the one before.
func steps(n int, f func(i int) int64) []byte {
	last := int64(0)
	return varints(n, func(i int) int64 {
		before := last
		last = f(i)
		return last - before
	})
}

// index numbers strings in the order in which they are first asked for.
type index struct {
	names []string
	at    map[string]int
}

func newIndex(names ...string) *index {
	x := &index{at: map[string]int{}}
	for _, n := range names {
		x.of(n)
	}
	return x
}

func (x *index) of(name string) int {
	i, ok := x.at[name]
	if !ok {
		i = len(x.names)
		x.at[name], x.names = i, append(x.names, name)
	}
	return i
}

// list is never null in JSON.
func (x *index) list() []string { return append([]string{}, x.names...) }

// byNumber orders names by the numbers in them: w2 before w10.
func byNumber(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da == 0 || db == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			da, db = 1, 1
		}
		x, errX := strconv.ParseUint(a[:da], 10, 64)
		y, errY := strconv.ParseUint(b[:db], 10, 64)
		if errX == nil && errY == nil && x != y {
			return cmp.Compare(x, y)
		}
		if c := strings.Compare(a[:da], b[:db]); c != 0 {
			return c
		}
		a, b = a[da:], b[db:]
	}
	return len(a) - len(b)
}

func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// timeline makes the interactive time line's data; ok is false if there is nothing to draw.
func (r *run) timeline() (timelineData, bool) {
	if r.history == nil || r.Analysis.End <= r.Analysis.Start || len(r.Analysis.Ops) == 0 {
		return timelineData{}, false
	}
	return newTimelineBuilder(r).build(), true
}

func (b *timelineBuilder) windows(d *timelineData) {
	a := b.run.Analysis
	d.Phases, d.Faults = []timelineWindow{}, []timelineWindow{}
	for _, p := range a.Phases {
		d.Phases = append(d.Phases, timelineWindow{Name: p.Name, From: b.us(p.From), To: min(b.us(p.To), b.end)})
	}
	for _, f := range a.Faults {
		name := f.Fault.Name
		if len(f.Fault.Targets) > 0 {
			name += " " + strings.Join(f.Fault.Targets, ", ")
		}
		d.Faults = append(d.Faults, timelineWindow{
			ID: f.Fault.ID, Name: name, From: b.us(f.From), To: min(b.us(f.To), b.end), Color: chart.FaultColor(f.Fault.Name).Name, Proven: f.Proven,
		})
	}
}

// marks are the notes that explain why something ended.
func (b *timelineBuilder) marks() []timelineMark {
	out := []timelineMark{}
	for _, e := range b.run.history.Events {
		if e.Type != history.Note {
			continue
		}
		switch e.Op {
		case history.NoteLeaseLost, history.NoteCrash, history.NoteClock:
		default:
			continue
		}
		m := timelineMark{At: b.us(e.TS), Name: string(e.Op), Proc: e.Proc, Lane: -1, Text: b.run.eventText(e), File: relative(e.File),
			Line: e.Line}
		if e.Op == history.NoteLeaseLost {
			m.Lane = b.laneOf(e.Key)
		}
		if e.Error != "" && !strings.Contains(m.Text, e.Error) {
			m.Text += ": " + e.Error
		}
		out = append(out, m)
	}
	return out
}

// holds are the holdings, by lane.
func (b *timelineBuilder) holds(d *timelineData) {
	gs := slices.Concat(b.run.Analysis.Grants, b.run.Analysis.Owners)
	slices.SortStableFunc(gs, func(x, y measure.Grant) int { return b.laneOf(x.Lock) - b.laneOf(y.Lock) })
	n, ended := len(gs), newIndex()
	from := func(i int) int64 { return b.us(gs[i].From) }
	d.Holds = timelineHolds{
		N:     n,
		Lane:  uvarints(n, func(i int) int64 { return int64(b.laneOf(gs[i].Lock)) }),
		Proc:  uvarints(n, func(i int) int64 { return int64(b.procs.of(gs[i].Proc)) }),
		Token: uvarints(n, func(i int) int64 { return gs[i].Token }),
		From:  steps(n, from),
		To:    uvarints(n, func(i int) int64 { return max(b.us(gs[i].To)-from(i), 0) }),
		Row:   varints(n, func(i int) int64 { return b.us(gs[i].RowUntil) - b.us(gs[i].To) }),
		Ended: uvarints(n, func(i int) int64 { return int64(ended.of(gs[i].EndedBy)) }),
		Flags: uvarints(n, func(i int) int64 {
			f := int64(0)
			if gs[i].Takeover {
				f |= 1
			}
			if !gs[i].Held {
				f |= 2
			}
			return f
		}),
	}
	d.EndedBy = ended.list()
}

// timelineViolation is a violation as the time line shows it.
type timelineViolation struct {
	ID       string          `json:"id"` // of the element that tells it
	Property string          `json:"property"`
	Heading  string          `json:"heading"`
	Message  string          `json:"message"`
	Key      string          `json:"key"`
	Lane     int             `json:"lane"` // -1: none
	From     int64           `json:"from"`
	To       int64           `json:"to"`
	Tokens   []string        `json:"tokens"`
	Events   []timelineEvent `json:"events"`
}

type timelineEvent struct {
	N  int   `json:"n"`  // its number in the table
	At int64 `json:"at"` // -1: recorded after the run
	Op int   `json:"op"` // its operation's place, -1: none
	// Text says what it is, of one without an operation.
	Text string `json:"text,omitempty"`
}

// violations are those that the page tells, in the same order with the same ids.
func (b *timelineBuilder) violations() []timelineViolation {
	out := []timelineViolation{}
	if b.run.Verdict == nil {
		return out
	}
	for _, p := range b.run.Verdict.Properties {
		if p.Status == checker.StatusInvalid {
			continue
		}
		for i, v := range p.Violations {
			out = append(out, b.violation(p, i, v))
		}
	}
	return out
}

func (b *timelineBuilder) violation(p checker.Property, i int, v checker.Violation) timelineViolation {
	from, to := window(v)
	clamp := func(ts int64) int64 { return min(max(b.us(ts), 0), b.end) }
	out := timelineViolation{
		ID: violationID(p.ID, i), Property: p.ID, Heading: violationHeading(p, i), Message: sentenceCase(v.Message), Key: v.Key,
		Lane: b.laneOf(v.Key), From: clamp(from), To: clamp(to), Tokens: []string{}, Events: []timelineEvent{},
	}
	if row, ok := b.issuer[v.Key]; ok && out.Lane < 0 {
		out.Lane = b.laneOf(row)
	}
	for n, ref := range v.Events {
		e := ref.Event
		e.File, e.Line = ref.File, ref.Line
		te := timelineEvent{N: n + 1, At: clamp(e.TS), Op: -1}
		if e.Op == history.NoteLedger || e.Op == history.NoteRow {
			te.At = -1
		}
		te.Text = b.run.eventText(e)
		if at, ok := b.at[place(e)]; ok {
			te.Op, te.Text = at, ""
			if out.Lane < 0 {
				out.Lane = b.laneOf(b.row(b.ops[at].Invoke))
			}
		}
		for _, t := range eventTokens(e) {
			if s := tokenText(t); !slices.Contains(out.Tokens, s) {
				out.Tokens = append(out.Tokens, s)
			}
		}
		out.Events = append(out.Events, te)
	}
	return out
}

// eventTokens are the tokens that an event names.
func eventTokens(e history.Event) []int64 {
	switch {
	case e.Token != 0:
		return []int64{e.Token}
	case e.Ledger() != nil:
		return []int64{e.Ledger().Token}
	case e.To != nil && e.To.Fence != 0:
		return []int64{e.To.Fence}
	}
	return nil
}

// tokenText writes a token; a job's run id is its shard's fence and a number under it.
func tokenText(t int64) string {
	if t >= 1<<32 {
		return fmt.Sprintf("%d/%d", t>>32, t&(1<<32-1))
	}
	return fmt.Sprint(t)
}
