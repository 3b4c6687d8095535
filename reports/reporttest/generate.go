package reporttest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// Options say what run to make. Zero values mean what the comment says.
type Options struct {
	Seed    uint64
	Workers int // 4
	Clients int // 3
	Locks   int // 10
	// Fault is pause-worker, kill-worker, lost-replies, or "" for none.
	Fault string
	// Broken makes the system misbehave: SinkNoTokenCheck or TwoHolders.
	Broken string
	// Phase is the length of the phases before, fault and recover: 6 s.
	Phase time.Duration
	TTL   time.Duration // 6 s
	Hold  time.Duration // 20 ms
	// Unproven leaves the fault without its proof.
	Unproven bool
	// Verdict is PASS, FAIL, INVALID, UNKNOWN, or "" for no verdict.json.
	Verdict string
}

// Ways in which the simulated system can be broken.
const (
	SinkNoTokenCheck = "sink-no-token-check"
	TwoHolders       = "trust-from-answer"
)

const (
	drift      = 0.01
	marginBase = 100 * time.Millisecond
)

type sim struct {
	o     Options
	rng   *rand.Rand
	recs  map[string]*history.Recorder
	dir   string
	start int64
	marks map[string]int64 // phases' begins
	end   int64            // of the clients
	fault struct {
		from, to int64
		worker   string
	}
	locks   []*lockState
	clients []*clientState
	ledger  map[string][]history.LedgerEntry
	seen    map[string]int64
	value   map[string]int64
	grants  int
	last    int64 // the latest event so far
	crashed map[string]bool
	err     error
}

type lockState struct {
	name     string
	row      history.Version
	freeAt   int64
	takeover bool
	absent   bool
}

type clientState struct {
	worker string
	life   int
	n      int
	free   int64
	done   bool
}

func (c *clientState) proc() string { return fmt.Sprintf("%s.%d/c%d", c.worker, c.life, c.n) }

// Write makes a run's directory below parent and returns its path.
func Write(parent string, o Options) (dir string, err error) {
	o = defaults(o)
	s := &sim{
		o: o, rng: rand.New(rand.NewPCG(o.Seed, 7)), recs: map[string]*history.Recorder{}, marks: map[string]int64{}, crashed: map[string]bool{},
		ledger: map[string][]history.LedgerEntry{}, seen: map[string]int64{}, value: map[string]int64{}, start: 5000 * int64(time.Second),
	}
	name := fmt.Sprintf("20250102-030405-%s-%d", scenarioName(o), o.Seed)
	s.dir = filepath.Join(parent, name)
	for _, sub := range []string{rundir.HistoryDir, rundir.LogDir} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	defer func() {
		for _, r := range s.recs {
			err = errors.Join(err, r.Close())
		}
	}()
	if err := s.run(); err != nil {
		return "", err
	}
	if err := s.writeInfo(name); err != nil {
		return "", err
	}
	return s.dir, s.writeVerdict(name)
}

func defaults(o Options) Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Workers, 4)
	def(&o.Clients, 3)
	def(&o.Locks, 10)
	dur := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	dur(&o.Phase, 6*time.Second)
	dur(&o.TTL, 6*time.Second)
	dur(&o.Hold, 20*time.Millisecond)
	return o
}

func scenarioName(o Options) string {
	if o.Fault == "" {
		return "steady"
	}
	return o.Fault
}

// record writes an event to its process life's file, a crash to the harness's. The first
// error sticks.
func (s *sim) record(e history.Event) {
	s.last = max(s.last, e.TS)
	file := history.Life(e.Proc)
	if e.Op == history.NoteCrash {
		s.crashed[e.Proc] = true
		file = history.Harness
	}
	if r := s.rec(file); r != nil {
		r.Record(e)
	}
}

// newID returns an operation id of proc's life.
func (s *sim) newID(proc string) int64 {
	if r := s.rec(history.Life(proc)); r != nil {
		return r.NewID()
	}
	return 0
}

// rec returns the recorder of a process life, nil after an error.
func (s *sim) rec(life string) *history.Recorder {
	if r, ok := s.recs[life]; ok || s.err != nil {
		return r
	}
	r, err := history.NewRecorder(filepath.Join(s.dir, rundir.HistoryDir, life+".jsonl"), history.Header{
		Run: "synthetic", Proc: life, System: s.system(), DriftBound: drift, MarginBaseMS: marginBase.Milliseconds(),
	})
	if err != nil {
		s.err = err
		return nil
	}
	s.recs[life] = r
	return r
}

func (s *sim) system() string {
	if s.o.Broken != "" {
		return "broken/" + s.o.Broken
	}
	return "core"
}

func (s *sim) note(ts int64, proc string, e history.Event) {
	e.TS, e.Proc, e.Type = ts, proc, history.Note
	s.record(e)
}

// op records an invoke and, unless end is 0, its end; it returns the end.
func (s *sim) op(from, end int64, inv, fin history.Event) int64 {
	inv.TS, inv.Type, inv.ID = from, history.Invoke, s.newID(inv.Proc)
	s.record(inv)
	if end == 0 {
		return 0
	}
	fin.TS, fin.ID, fin.Proc, fin.Op, fin.Key = end, inv.ID, inv.Proc, inv.Op, inv.Key
	s.record(fin)
	return end
}

// lwt draws the latency of a lightweight transaction in ns: log-normal around
// 14 ms, slower in the fault phase.
func (s *sim) lwt(at int64) int64 {
	v := 14e6 * math.Exp(0.35*s.rng.NormFloat64())
	if s.rng.Float64() < 0.01 {
		v *= 4 + 3*s.rng.Float64()
	}
	if at > s.fault.from && at < s.fault.to {
		v *= 1.9
	}
	return int64(v)
}

func (s *sim) uuid() string { return fmt.Sprintf("%016x", s.rng.Uint64()) }

func (s *sim) run() error {
	sec := int64(time.Second)
	p := int64(s.o.Phase)
	t := s.start
	for _, ph := range []struct {
		name string
		d    int64
	}{{"warmup", 3 * sec / 2}, {"before", p}, {"fault", max(p, int64(s.o.TTL)*3/2)}, {"heal", sec / 3}, {"recover", p}, {"settle", sec / 4},
		{"seal", sec / 5}} {
		s.marks[ph.name] = t
		t += ph.d
	}
	s.end = s.marks["settle"]
	// The fault begins when a client of its worker is in its critical section.
	s.fault.worker, s.fault.from, s.fault.to = "w2", math.MaxInt64, math.MaxInt64
	for i := range s.o.Locks {
		s.locks = append(s.locks, &lockState{name: fmt.Sprintf("lock-%02d", i+1), freeAt: s.start, absent: true})
	}
	for w := range s.o.Workers {
		for c := range s.o.Clients {
			s.clients = append(s.clients, &clientState{worker: fmt.Sprintf("w%d", w+1), life: 1, n: c + 1, free: s.start + int64(s.rng.IntN(30e6))})
		}
	}
	for {
		c := slices.MinFunc(s.clients, func(a, b *clientState) int {
			if a.done != b.done {
				if a.done {
					return 1
				}
				return -1
			}
			return int(min(max(a.free-b.free, -1), 1))
		})
		if c.done || c.free >= s.end {
			break
		}
		s.cycle(c)
	}
	for _, life := range slices.Sorted(maps.Keys(s.recs)) {
		if !s.crashed[life] {
			s.note(s.last+1e6, life, history.Event{Op: history.NoteExit})
		}
	}
	s.marks["seal"] = max(s.marks["seal"], s.last+50e6) // when all clients are done
	s.harnessNotes()
	s.finish()
	return s.err
}

// begin puts the fault in force at ts, if it is due and was not yet.
func (s *sim) begin(worker string, ts int64) {
	due := s.marks["fault"] + int64(time.Second)/2
	if s.o.Fault == "" || worker != s.fault.worker || s.fault.from != math.MaxInt64 || ts < due || ts >= s.marks["heal"] {
		return
	}
	s.fault.from = ts
	s.fault.to = max(s.marks["heal"]-int64(time.Second)/4, ts+int64(s.o.TTL)*5/4)
}

// harnessNotes writes the phases and the fault, in time order within the file.
func (s *sim) harnessNotes() {
	expect := history.Expect{MinCycles: map[string]int{"before": 20}, Workers: s.o.Workers}
	if s.o.Fault != "" {
		expect.Faults = []string{"f1"}
	}
	s.note(s.start-2e9, "harness", history.Event{Op: history.NoteExpect, Details: &history.Details{Expect: &expect}})
	for _, name := range []string{"warmup", "before", "fault", "heal", "recover", "settle", "seal"} {
		s.note(s.marks[name], "harness", history.Event{Op: history.NotePhase, Details: &history.Details{Phase: name}})
	}
	if s.o.Fault == "" || s.fault.from == math.MaxInt64 {
		return
	}
	f := history.Fault{ID: "f1", Name: s.o.Fault, Targets: []string{s.fault.worker},
		Trigger: s.fault.worker + ".1/c1 at point holding of lock-01"}
	add := func(ts int64, action, text string, proven bool) {
		g := f
		g.Action, g.Text, g.Proven = action, text, proven
		s.note(ts, "harness", history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &g}})
	}
	add(s.fault.from, history.ActionInject, "", false)
	if s.o.Unproven {
		add(s.fault.to-1e8, history.ActionEvidence, "/proc shows the process in state S, not T: it was not stopped", false)
	} else {
		add(s.fault.to-1e8, history.ActionEvidence, "the process was in state T for the whole window (12 of 12 looks), 0 events of it in "+
			"between", true)
	}
	add(s.fault.to, history.ActionHeal, "", false)
}

func (s *sim) finish() {
	seal := s.marks["seal"]
	for _, l := range s.locks {
		if l.absent {
			continue
		}
		from := l.row
		l.row = history.Version{Fence: from.Fence + 1, Attempt: s.uuid(), TTLMS: from.TTLMS}
		to := l.row
		e := s.op(seal, seal+12e6, history.Event{Proc: "harness", Op: history.OpSeal, Key: l.name, From: &from, To: &to},
			history.Event{Type: history.OK, Sends: []int64{seal + 1000}})
		s.op(e+1e6, e+9e6, history.Event{Proc: "harness", Op: history.OpRead, Key: l.name}, history.Event{Type: history.OK, Row: &to})
		for _, entry := range s.ledger["res-"+l.name] {
			x := entry
			s.note(e+20e6+x.Seq, "harness", history.Event{Op: history.NoteLedger, Key: "res-" + l.name, Details: &history.Details{Ledger: &x}})
		}
	}
}

func (s *sim) writeInfo(name string) error {
	contention := map[int]string{1: "high", 10: "medium"}[s.o.Locks]
	if contention == "" {
		contention = "low"
	}
	started := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.WriteFile(filepath.Join(s.dir, rundir.LogDir, "w1.1.log"), []byte(strings.Repeat("time=… level=INFO msg=started\n", 20)),
		0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, rundir.PlanFile), []byte("seed: 1\n"), 0o644); err != nil {
		return err
	}
	return rundir.WriteJSON(filepath.Join(s.dir, rundir.InfoFile), rundir.Info{
		Run: name, Scenario: scenarioName(s.o), About: "a worker is stopped past its lease and goes on afterwards; its late write must be " +
			"refused",
		Seed: s.o.Seed, System: s.system(), Cluster: "local", Contention: contention, Workers: s.o.Workers, Clients: s.o.Clients,
		Locks: s.o.Locks,
		TTL:   s.o.TTL, Hold: s.o.Hold, Started: started, Ended: started.Add(time.Duration(s.marks["seal"]-s.start) + 4*time.Second),
		Command: fmt.Sprintf("fencepost chaos %s --seed %d --system %s --cluster local --contention %s", scenarioName(s.o), s.o.Seed,
			s.system(), contention),
		Versions: map[string]string{"fencepost": "4be0c11", "go": "go1.26.8", "cassandra": "5.0.6", "paxos_variant": "v2",
			"replication": "SimpleStrategy, 3"},
		Machine: map[string]string{"cores": "2", "memory": "7.8 GiB", "kernel": "6.1.0", "load": "1.9 2.2 1.7"},
	})
}
