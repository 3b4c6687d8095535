package past

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"fencepost/harness/record/history"
)

// Op is an operation: its invoke joined with its end. The events are the
// history's own, not copies: a large history is held in memory once.
type Op struct {
	Invoke, End *history.Event // End is nil without an end
	Outcome     history.Type
}

// Past is what happened in a run: its history, sorted by what the properties look at. It is
// built once and not changed afterwards, so it can be read side by side.
type Past struct {
	History *history.History
	// soFar: the history still grows; the sinks' ledgers are not read yet, and what the
	// sinks have answered stands in for them.
	soFar bool

	Ops    []Op
	Lives  map[string]*Life
	Rows   []*Row  // by name
	Sinks  []*Sink // by name
	RowOf  map[string]*Row
	SinkOf map[string]*Sink

	Closes  []*Op // of lock clients
	Expects []*history.Event
	Crashes []*history.Event
	Ends    []*history.Event // life notes
	hosts   []*history.Event // host notes
	Usages  []*history.Event // usage notes
	// Arrivals are the last arrivals note of each life.
	Arrivals []*history.Event
	Points   map[string]int
	Clocks   map[string][]*history.Event // clock notes by life
	walls    map[string][]wallReading    // of clocks that are right, by life; see readWalls
	host     hostClock
	leads    map[string][]leadReading // by life, in order of time; see wallLead
	Shapes   []*history.Event         // statement notes: those of the links, then what workers say
	Witness  Witness
	// Record is what is wrong with the record itself; Lost counts what shows that it lacks
	// events. What is unexplained is then the record's fault and not the system's.
	Record history.Findings
	Lost   int
	// Unrecorded are versions and ledger entries that no recorded operation explains
	// and that no known operation can have caused.
	Unrecorded   []Unrecorded
	FalseAnswers []FalseAnswer // see compareAnswers
	Jobs         Jobs
	Orders       OrderTables
	Decisions    []Decision

	Faults        []history.FaultWindow     // injections
	Stopped       int64                     // when the run begins to stop its processes
	deaths        map[string]int64          // of crashed lives; see died
	requestTime   int64                     // see shortestRequest
	WithoutQuorum []history.Span            // see withoutQuorum
	silent        map[string][]history.Span // by life; see silences
	Successes     []Success
	shardLives    []Wait          // see contending
	Demands       func() []Demand // see findDemands; only some checks need them
}

// Unrecorded is something in the store that nobody recorded asking for.
type Unrecorded struct {
	Key, Message string
	Events       []*history.Event
}

// Life is one process life's record.
type Life struct {
	name      string
	header    history.Header
	first     int64 // TS of its first event
	last      int64 // and of its last
	Exited    bool
	Crashed   bool
	Recording bool // it has operations
}

// Row is everything about one fenced row: a lock's, or a shard's header.
type Row struct {
	Name     string
	Shard    bool
	CAS      []*CAS
	Reads    []Read
	Calls    []*Op // lock
	Extends  []*Op // extend
	Marks    []*history.Event
	Versions []*Version
	byKey    map[versionKey]*Version
	// chain state, see chain.go
	Writes    []*Write
	Chain     []*Write // that took effect, in order
	Sealed    *Write
	Complete  bool // the chain reaches from no row to the seal without a break
	Breaks    []Break
	Grants    []*Grant
	ByToken   map[int64][]*Grant
	ByAttempt map[string]*Grant
	Orphans   []*Op   // lock calls that handed out a token without an acquire
	Replayed  *Replay // of a shard
}

// CAS is one compare-and-set on a fenced row, all its resends included.
type CAS struct {
	Op
	Row      *Row
	From, To *Version
	Shown    *Version // that its end showed, or nil
	Write    *Write
}

func (c *CAS) Kind() history.Op { return c.Invoke.Op }

// New sorts the events of a history, rebuilds the chains and settles what it can.
func New(h *history.History, soFar bool) *Past {
	a := &Past{
		History: h, soFar: soFar, Lives: map[string]*Life{}, RowOf: map[string]*Row{}, SinkOf: map[string]*Sink{},
		Points: map[string]int{}, host: hostClockOf(h), Clocks: map[string][]*history.Event{}, Jobs: newJobs(), Orders: newOrderTables(),
	}
	for _, head := range h.Headers {
		a.life(head.Proc).header = head
	}
	a.join()
	for i := range a.Ops {
		a.sort(&a.Ops[i])
	}
	for e := range Each(h.Events) {
		if e.Type == history.Note {
			a.note(e)
		}
	}
	a.Shapes = slices.Concat(a.Witness.OnLinks, a.Witness.ByWorkers)
	a.Record = history.Lint(h)
	for _, r := range a.Record.Remarks {
		if r.Kind == history.Lost {
			a.Lost++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.RowOf)) {
		a.Rows = append(a.Rows, a.RowOf[name])
	}
	for _, name := range slices.Sorted(maps.Keys(a.SinkOf)) {
		a.Sinks = append(a.Sinks, a.SinkOf[name])
	}
	for _, l := range a.Rows {
		a.buildChain(l)
		a.buildGrants(l)
	}
	a.replay()
	a.findDecisions()
	for _, s := range a.Sinks {
		if soFar {
			s.fromAnswers()
		}
		a.buildLedger(s)
	}
	a.compareAnswers()
	a.derive()
	return a
}

// derive finds what follows from all that is sorted, each from those before it.
func (a *Past) derive() {
	a.Faults = a.History.Faults()
	a.Stopped = a.stopping()
	a.deaths = map[string]int64{}
	for _, e := range a.Crashes {
		a.deaths[history.Life(e.Proc)] = e.TS
	}
	a.requestTime = a.shortestRequest()
	a.WithoutQuorum = a.withoutQuorum()
	a.silent = map[string][]history.Span{}
	for name := range a.Lives {
		a.silent[name] = a.silencesOf(name)
	}
	a.Successes = a.findSuccesses()
	a.shardLives = a.contending()
	a.Demands = sync.OnceValue(a.findDemands)
}

func (a *Past) life(name string) *Life {
	return entry(a.Lives, name, Life{name: name})
}

// Each are pointers to the elements of a slice.
func Each[T any](list []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// entry is what m has for key; if that is nothing yet, as it is when it is new.
func entry[K comparable, V any](m map[K]*V, key K, fresh V) *V {
	v := m[key]
	if v == nil {
		made := fresh // fresh itself would be allocated by every call
		v = &made
		m[key] = v
	}
	return v
}

// join pairs invokes with ends, per process life.
func (a *Past) join() {
	n := 0
	for i := range a.History.Events {
		if a.History.Events[i].Type == history.Invoke {
			n++
		}
	}
	a.Ops = make([]Op, 0, n) // never grows: pointers into it stay valid
	at := map[string]map[int64]int32{}
	for e := range Each(a.History.Events) {
		if e.Op == history.NoteCrash || e.Op == history.NoteClock {
			continue // written by the harness about another life
		}
		name := history.Life(e.Proc)
		l := a.life(name)
		if l.first == 0 {
			l.first = e.TS
		}
		l.last = max(l.last, e.TS)
		switch e.Type {
		case history.Invoke:
			byID := at[name]
			if byID == nil {
				byID = map[int64]int32{}
				at[name] = byID
			}
			byID[e.ID] = int32(len(a.Ops))
			a.Ops = append(a.Ops, Op{Invoke: e, Outcome: history.Unknown})
			l.Recording = true
		case history.OK, history.Fail, history.Unknown:
			if j, ok := at[name][e.ID]; ok {
				a.Ops[j].End, a.Ops[j].Outcome = e, e.Type
				delete(at[name], e.ID)
			}
		}
	}
}

func (a *Past) row(name string) *Row {
	l := a.RowOf[name]
	if l == nil {
		l = &Row{Name: name, Shard: IsShard(name), byKey: map[versionKey]*Version{}}
		l.version(&NoRow)
		a.RowOf[name] = l
	}
	return l
}

func (a *Past) sink(name string) *Sink {
	return entry(a.SinkOf, name, Sink{Name: name})
}

// sort files one operation.
func (a *Past) sort(o *Op) {
	e := o.Invoke
	switch e.Op {
	case history.OpAcquire, history.OpRenew, history.OpRelease, history.OpSeal, history.OpTake, history.OpTick, history.OpHandOver:
		if e.From == nil || e.To == nil {
			return // the reader refuses these
		}
		a.row(e.Key).file(o)
	case history.OpRead:
		if o.Outcome == history.OK && o.End.Row != nil {
			a.row(e.Key).fileRead(o)
		}
	case history.OpLock:
		l := a.row(e.Key)
		l.Calls = append(l.Calls, o)
	case history.OpExtend:
		l := a.row(e.Key)
		l.Extends = append(l.Extends, o)
	case history.OpClose:
		a.Closes = append(a.Closes, o)
	case history.OpEnqueue:
		if e.Job() != nil {
			a.Jobs.call(o)
			a.Orders.call(o)
		}
	case history.OpUpdate:
		a.Jobs.update(o)
	case history.OpSchedule:
		if e.Schedule() != nil {
			a.Jobs.command(o)
		}
	case history.OpCommand:
		if e.Command() != nil {
			a.Jobs.given(o)
		}
	case history.OpRaise:
		s := a.sink(e.Key)
		s.Raises = append(s.Raises, o)
	case history.OpEffect:
		s := a.sink(e.Key)
		s.Effects = append(s.Effects, o)
	case history.OpGet:
		s := a.sink(e.Key)
		s.Gets = append(s.Gets, o)
	case history.OpForget:
		s := a.sink(e.Key)
		s.Forgets = append(s.Forgets, o)
	}
}

// note files one note.
func (a *Past) note(e *history.Event) {
	switch e.Op {
	case history.NoteStart, history.NoteFinish, history.NoteRow:
		if e.Issuer != "" {
			a.Jobs.note(e)
		}
	case history.NoteRowsEnd:
		a.Jobs.Ends[e.Issuer] = true
	case history.NoteBook:
		if e.Book() != nil {
			a.Orders.note(e)
		}
	case history.NoteLeaseLost:
		l := a.row(e.Key)
		l.Marks = append(l.Marks, e)
	case history.NoteLedger:
		if e.Ledger() != nil {
			s := a.sink(e.Key)
			s.Ledger = append(s.Ledger, Entry{LedgerEntry: e.Ledger(), Event: e})
		}
	case history.NoteAnswer:
		if e.Asked() != nil && history.Life(e.Proc) == history.Harness {
			s := a.sink(e.Key)
			s.answers = append(s.answers, e)
		}
	case history.NoteExpect:
		if e.Expect() != nil {
			a.Expects = append(a.Expects, e)
		}
	case history.NotePoint:
		a.Points[e.Point()]++
	case history.NoteClock:
		if life := history.Life(e.Proc); e.Clock() != nil && life != history.Harness {
			a.Clocks[life] = append(a.Clocks[life], e)
		}
	case history.NoteHost:
		if e.Host() != nil && e.Proc == history.Harness {
			a.hosts = append(a.hosts, e)
		}
	case history.NoteUsage:
		if e.Usage() != nil && e.Proc == history.Harness {
			a.Usages = append(a.Usages, e)
		}
	case history.NoteStatement:
		if e.Statement() != nil {
			a.Witness.statement(e)
		}
	case history.NoteSerial:
		if e.SerialRead() != nil && history.Life(e.Proc) == history.Harness {
			a.Witness.Serial = append(a.Witness.Serial, e)
		}
	case history.NoteWitness:
		a.Witness.note(e)
	case history.NoteHit:
		if e.Hit() != nil && history.Life(e.Proc) == history.Harness {
			a.Witness.Hits = append(a.Witness.Hits, e)
		}
	case history.NoteCrash:
		a.life(history.Life(e.Proc)).Crashed = true
		a.Crashes = append(a.Crashes, e)
	case history.NoteLife:
		if e.Proc == history.Harness && e.Life() != nil {
			a.Ends = append(a.Ends, e)
		}
	case history.NoteArrivals:
		if e.Arrivals() != nil {
			life := history.Life(e.Proc)
			a.Arrivals = slices.DeleteFunc(a.Arrivals, func(x *history.Event) bool { return history.Life(x.Proc) == life })
			a.Arrivals = append(a.Arrivals, e)
		}
	case history.NoteExit:
		a.life(history.Life(e.Proc)).Exited = true
	}
}

// Incomplete says that the record provably lacks events.
func (a *Past) Incomplete() bool { return a.Lost+len(a.Unrecorded) > 0 }

// Promised says whether any header claims the property: what one life promises, the run
// is judged by. One without a list promises all.
func (a *Past) Promised(id string) bool {
	for _, head := range a.History.Headers {
		if len(head.Promises) == 0 || slices.Contains(head.Promises, id) {
			return true
		}
	}
	return len(a.History.Headers) == 0
}

// Chained says whether the system promises that its rows are a chain of versions. If not,
// nothing is counted by it.
func (a *Past) Chained() bool { return a.Promised("P2") }

// Events is an operation's two events.
func Events(ops ...*Op) []*history.Event {
	var out []*history.Event
	for _, o := range ops {
		if o != nil {
			out = append(out, o.Invoke, o.End)
		}
	}
	return out
}

// Operation is the one of a life with an id, or nil.
func (a *Past) Operation(proc string, id int64) *Op {
	for o := range Each(a.Ops) {
		if o.Invoke.ID == id && history.Life(o.Invoke.Proc) == history.Life(proc) {
			return o
		}
	}
	return nil
}

// FirstEvents is the events of the first operation.
func FirstEvents(ops []*Op) []*history.Event {
	if len(ops) == 0 {
		return nil
	}
	return Events(ops[0])
}
