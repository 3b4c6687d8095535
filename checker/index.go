package checker

import (
	"maps"
	"slices"
	"sync"

	"fencepost/harness/record/history"
)

// op is an operation: its invoke joined with its end. The events are the
// history's own, not copies: a large history is held in memory once.
type op struct {
	inv, end *history.Event // end is nil without an end
	outcome  history.Type
}

// past is what happened in a run: its history, sorted by what the properties look at. It is
// built once and not changed afterwards, so it can be read side by side.
type past struct {
	h *history.History
	// soFar: the history still grows; the sinks' ledgers are not read yet, and what the
	// sinks have answered stands in for them.
	soFar bool

	ops   []op
	lives map[string]*life
	rows  []*rowLog  // by name
	sinks []*sinkLog // by name
	row   map[string]*rowLog
	sink  map[string]*sinkLog

	expects []*history.Event
	crashes []*history.Event
	ends    []*history.Event // life notes
	hosts   []*history.Event // host notes
	points  map[string]int
	clocks  map[string][]*history.Event // clock notes by life
	shapes  []*history.Event            // statement notes: those of the links, then what workers say
	told    witness
	// record is what is wrong with the record itself; lost counts what shows that it lacks
	// events. What is unexplained is then the record's fault and not the system's.
	record history.Findings
	lost   int
	// stray are versions and ledger entries that no recorded operation explains
	// and that no known operation can have caused.
	stray     []stray
	lies      []lie // see compareAnswers
	jobs      jobs
	orders    shopBooks
	decisions []decision

	faults      []history.FaultWindow     // injections
	stopped     int64                     // when the run begins to stop its processes
	deaths      map[string]int64          // of crashed lives; see died
	requestTime int64                     // see longestRequest
	quorumAway  []history.Span            // see withoutQuorum
	silent      map[string][]history.Span // by life; see silences
	successes   []success
	shardLives  []wait          // see contending
	demands     func() []demand // see findDemands; only some checks need them
}

// stray is something in the store that nobody recorded asking for.
type stray struct {
	key, message string
	events       []*history.Event
}

// life is one process life's record.
type life struct {
	name      string
	header    history.Header
	first     int64 // TS of its first event
	last      int64 // and of its last
	exited    bool
	crashed   bool
	recording bool // it has operations
}

// rowLog is everything about one fenced row: a lock's, or a shard's header.
type rowLog struct {
	name     string
	shard    bool
	cas      []*cas
	reads    []read
	calls    []*op // lock
	marks    []*history.Event
	versions []*version
	byKey    map[versionKey]*version
	// chain state, see chain.go
	writes    []*write
	chain     []*write // that took effect, in order
	sealed    *write
	whole     bool // the chain reaches from no row to the seal without a break
	breaks    []chainBreak
	grants    []*grant
	byToken   map[int64][]*grant
	byAttempt map[string]*grant
	orphans   []*op        // lock calls that handed out a token without an acquire
	replayed  *shardReplay // of a shard
}

// cas is one compare-and-set on a fenced row, all its resends included.
type cas struct {
	op
	log      *rowLog
	from, to *version
	row      *version // that its end showed, or nil
	w        *write
}

func (c *cas) kind() history.Op { return c.inv.Op }

// newPast sorts the events of a history, rebuilds the chains and settles what it can.
func newPast(h *history.History, soFar bool) *past {
	a := &past{
		h: h, soFar: soFar, lives: map[string]*life{}, row: map[string]*rowLog{}, sink: map[string]*sinkLog{},
		points: map[string]int{}, clocks: map[string][]*history.Event{}, jobs: newJobs(), orders: newBooks(),
	}
	for _, head := range h.Headers {
		a.life(head.Proc).header = head
	}
	a.join()
	for i := range a.ops {
		a.sort(&a.ops[i])
	}
	for i := range h.Events {
		if e := &h.Events[i]; e.Type == history.Note {
			a.note(e)
		}
	}
	a.shapes = slices.Concat(a.told.sent, a.told.said)
	a.record = history.Lint(h)
	for _, r := range a.record.Remarks {
		if r.Kind == history.Lost {
			a.lost++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.row)) {
		a.rows = append(a.rows, a.row[name])
	}
	for _, name := range slices.Sorted(maps.Keys(a.sink)) {
		a.sinks = append(a.sinks, a.sink[name])
	}
	for _, l := range a.rows {
		a.buildChain(l)
		a.buildGrants(l)
	}
	a.replay()
	a.findDecisions()
	for _, s := range a.sinks {
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
func (a *past) derive() {
	a.faults = a.h.Faults()
	a.stopped = a.stopping()
	a.deaths = map[string]int64{}
	for _, e := range a.crashes {
		a.deaths[history.Life(e.Proc)] = e.TS
	}
	a.requestTime = a.longestRequest()
	a.quorumAway = a.withoutQuorum()
	a.silent = map[string][]history.Span{}
	for name := range a.lives {
		a.silent[name] = a.silencesOf(name)
	}
	a.successes = a.findSuccesses()
	a.shardLives = a.contending()
	a.demands = sync.OnceValue(a.findDemands)
}

func (a *past) life(name string) *life {
	l := a.lives[name]
	if l == nil {
		l = &life{name: name}
		a.lives[name] = l
	}
	return l
}

// join pairs invokes with ends, per process life.
func (a *past) join() {
	n := 0
	for i := range a.h.Events {
		if a.h.Events[i].Type == history.Invoke {
			n++
		}
	}
	a.ops = make([]op, 0, n) // never grows: pointers into it stay valid
	at := map[string]map[int64]int32{}
	for i := range a.h.Events {
		e := &a.h.Events[i]
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
			byID[e.ID] = int32(len(a.ops))
			a.ops = append(a.ops, op{inv: e, outcome: history.Unknown})
			l.recording = true
		case history.OK, history.Fail, history.Unknown:
			if j, ok := at[name][e.ID]; ok {
				a.ops[j].end, a.ops[j].outcome = e, e.Type
				delete(at[name], e.ID)
			}
		}
	}
}

func (a *past) rowLog(name string) *rowLog {
	l := a.row[name]
	if l == nil {
		l = &rowLog{name: name, shard: isShard(name), byKey: map[versionKey]*version{}}
		l.version(&noRow)
		a.row[name] = l
	}
	return l
}

func (a *past) sinkLog(name string) *sinkLog {
	s := a.sink[name]
	if s == nil {
		s = &sinkLog{name: name}
		a.sink[name] = s
	}
	return s
}

// sort files one operation.
func (a *past) sort(o *op) {
	e := o.inv
	switch e.Op {
	case history.OpAcquire, history.OpRenew, history.OpRelease, history.OpSeal, history.OpTake, history.OpTick, history.OpHandOver:
		if e.From == nil || e.To == nil {
			return // the reader refuses these
		}
		a.rowLog(e.Key).file(o)
	case history.OpRead:
		if o.outcome == history.OK && o.end.Row != nil {
			a.rowLog(e.Key).fileRead(o)
		}
	case history.OpLock:
		l := a.rowLog(e.Key)
		l.calls = append(l.calls, o)
	case history.OpEnqueue:
		if e.Job() != nil {
			a.jobs.call(o)
			a.orders.call(o)
		}
	case history.OpUpdate:
		a.jobs.update(o)
	case history.OpSchedule:
		if e.Schedule() != nil {
			a.jobs.command(o)
		}
	case history.OpRaise:
		s := a.sinkLog(e.Key)
		s.raises = append(s.raises, o)
	case history.OpEffect:
		s := a.sinkLog(e.Key)
		s.effects = append(s.effects, o)
	case history.OpGet:
		s := a.sinkLog(e.Key)
		s.gets = append(s.gets, o)
	}
}

// note files one note.
func (a *past) note(e *history.Event) {
	switch e.Op {
	case history.NoteStart, history.NoteFinish, history.NoteRow:
		if e.Issuer != "" {
			a.jobs.note(e)
		}
	case history.NoteRowsEnd:
		a.jobs.ends[e.Issuer] = true
	case history.NoteBook:
		if e.Book() != nil {
			a.orders.note(e)
		}
	case history.NoteLeaseLost:
		l := a.rowLog(e.Key)
		l.marks = append(l.marks, e)
	case history.NoteLedger:
		if e.Ledger() != nil {
			s := a.sinkLog(e.Key)
			s.ledger = append(s.ledger, entry{LedgerEntry: e.Ledger(), ev: e})
		}
	case history.NoteAnswer:
		if e.Asked() != nil && history.Life(e.Proc) == history.Harness {
			s := a.sinkLog(e.Key)
			s.answers = append(s.answers, e)
		}
	case history.NoteExpect:
		if e.Expect() != nil {
			a.expects = append(a.expects, e)
		}
	case history.NotePoint:
		a.points[e.Point()]++
	case history.NoteClock:
		if e.Clock() != nil {
			life := history.Life(e.Proc)
			a.clocks[life] = append(a.clocks[life], e)
		}
	case history.NoteHost:
		if e.Host() != nil && e.Proc == history.Harness {
			a.hosts = append(a.hosts, e)
		}
	case history.NoteStatement:
		if e.Statement() != nil {
			a.told.statement(e)
		}
	case history.NoteWitness:
		a.told.note(e)
	case history.NoteHit:
		if e.Hit() != nil && history.Life(e.Proc) == history.Harness {
			a.told.hits = append(a.told.hits, e)
		}
	case history.NoteCrash:
		a.life(history.Life(e.Proc)).crashed = true
		a.crashes = append(a.crashes, e)
	case history.NoteLife:
		if e.Proc == history.Harness && e.Life() != nil {
			a.ends = append(a.ends, e)
		}
	case history.NoteExit:
		a.life(history.Life(e.Proc)).exited = true
	}
}
