package checker

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// The simulation makes histories of a correct system (or of one with a chosen
// bug): clients on perfect lock rows and a perfect sink, behind a network that
// loses requests and answers, delivers late and answers with timeouts; clients
// pause and processes die. Time is virtual and all of it follows from the seed.

// bug switches one rule of the protocol off.
type bug string

const (
	bugFenceKept    bug = "grants do not raise the fence"
	bugNoWait       bug = "takeover without waiting for the ttl"
	bugRevive       bug = "a late answer revives a lapsed lease"
	bugAnchorReply  bug = "trust counts from the answer"
	bugBlindRelease bug = "release names only the resource"
	bugRenewAttempt bug = "renew changes the attempt"
	bugNoToken      bug = "the sink does not look at tokens"
	bugNoRaise      bug = "the holder does not raise and the sink reads first"
	bugRefuseEqual  bug = "the sink refuses a token equal to the highest"
	bugNoDedupe     bug = "the sink does not know applied keys"
	bugUnknownFail  bug = "an unknown acquire is recorded as failed"
	bugForget       bug = "the sink loses its highest token"
	bugSlowTakeover bug = "a contender waits for three ttl"
	bugNoTakeover   bug = "nobody takes over"
)

type simConfig struct {
	seed                    uint64
	workers, clients, locks int
	shards                  int // of jobs; the clients then enqueue and the workers run them
	ttl                     time.Duration
	length                  time.Duration // of the run; every client then finishes its cycle
	maxEvents               int           // stops earlier; 0: no limit
	noise                   float64       // share of requests that something happens to
	pause, crash            float64       // share of cycles with a pause; crashes a worker
	apart                   time.Duration // between the wall clocks of two workers
	pauseMax                time.Duration // of the loop of a shard's owner; 0: 2 ttl
	bug                     bug
	noted                   bool // plain statements are noted
	pauses                  bool // shards are paused now and then
	// gap is how long a lock or shard may be without a success under the fault, which
	// lasts for a fifth of the run; 0: nothing is said.
	gap       time.Duration
	witnessed bool // the harness reads what the sink answers
}

const (
	simDrift  = 0.01
	simMargin = 20 * time.Millisecond
	simDedupe = 5 // ttl
)

type timer struct {
	at  int64
	seq int
	run func()
}

type timers []timer

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}

func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

// simFile is one process life's history file.
type simFile struct {
	header history.Header
	events []history.Event
	lastID int64
	dead   bool
	asleep int64 // its machine sleeps until then
}

type world struct {
	cfg   simConfig
	rng   *rand.Rand
	now   int64
	seq   int
	queue timers
	files []*simFile
	rows  map[string]history.Version
	sinks map[string]*simSink
	host  *simFile
	done  bool
	away  bool // the run's fault is in force
	// Of jobs; see simjob_test.go.
	shards   []*simShard
	jobs     map[string]*simJob
	draining bool // nothing is enqueued any more
	n        int  // events
	planted  planted
	// back is handed a token by a coroutine that sleeps or ends.
	back chan struct{}
}

// simulate runs a whole run and returns its history.
func simulate(cfg simConfig) *history.History {
	w := &world{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 1)), now: int64(time.Hour),
		rows: map[string]history.Version{}, sinks: map[string]*simSink{}, back: make(chan struct{}), planted: newPlanted(),
	}
	w.host = w.file(history.Harness)
	for i := range cfg.locks {
		name := fmt.Sprintf("lock-%d", i)
		w.rows[name] = history.Version{Absent: true}
		w.sinks["res-"+name] = &simSink{applied: map[string]int64{}}
	}
	w.setUpShards()
	w.coroutine(w.harness)
	for len(w.queue) > 0 {
		t := heap.Pop(&w.queue).(timer)
		w.now = max(w.now, t.at)
		t.run()
	}
	return w.history()
}

func (w *world) file(life string) *simFile {
	f := &simFile{header: history.Header{
		Format: history.Format, Version: history.FormatVersion, Run: "sim", Proc: life, BootID: "sim",
		DriftBound: simDrift, MarginBaseMS: simMargin.Milliseconds(), DedupeMS: simDedupe * w.cfg.ttl.Milliseconds(),
		WallTime: time.UnixMilli(simWall + w.now/1e6).UTC().Format(time.RFC3339Nano), TS: w.now,
	}}
	w.files = append(w.files, f)
	return f
}

// stamp is the time; no two are equal.
func (w *world) stamp() int64 {
	w.now++
	return w.now
}

func (w *world) record(f *simFile, e history.Event) int64 {
	e.TS = w.stamp()
	f.events = append(f.events, e)
	w.n++
	return e.TS
}

func (f *simFile) id() int64 {
	f.lastID++
	return f.lastID
}

func (w *world) at(t int64, run func()) {
	w.seq++
	heap.Push(&w.queue, timer{t, w.seq, run})
}

// task is one coroutine: it runs only while the scheduler waits for it.
type task struct {
	w      *world
	resume chan struct{}
	killed func() bool
}

type killed struct{}

func (w *world) coroutine(f func(*task)) *task {
	t := &task{w: w, resume: make(chan struct{})}
	go func() {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(r)
				}
			}
			w.back <- struct{}{}
		}()
		<-t.resume
		f(t)
	}()
	w.at(w.now, t.run)
	return t
}

func (t *task) run() {
	t.resume <- struct{}{}
	<-t.w.back
}

func (t *task) sleep(d time.Duration) {
	t.w.at(t.w.now+int64(d), t.run)
	t.w.back <- struct{}{}
	<-t.resume
	if t.killed != nil && t.killed() {
		panic(killed{})
	}
}

func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)+1))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// recoveryBound is what the runs allow a takeover beyond the lease.
const recoveryBound = time.Second

// harness is the run itself: phases, workers, one fault, seals, ledger.
func (w *world) harness(t *task) {
	note := func(e history.Event) {
		e.Proc, e.Type = history.Harness, history.Note
		w.record(w.host, e)
	}
	slice := w.cfg.length / 10
	var progress []history.Progress
	if w.cfg.gap > 0 {
		progress = []history.Progress{{Fault: "partition", MinCycles: 1, LongestGapMS: w.cfg.gap.Milliseconds()}}
	}
	note(history.Event{Op: history.NoteExpect, Details: &history.Details{Expect: &history.Expect{
		MinCycles: map[string]int{"before": 1, "recover": 1}, Faults: []string{"f1"}, Workers: w.cfg.workers, Progress: progress,
		Success: []history.Success{{Phase: "recover", Want: history.Some}}, RecoveryBoundMS: recoveryBound.Milliseconds(),
		DrainBoundMS: int64(w.cfg.shards) * 60_000, RowsEnd: w.cfg.shards > 0,
	}}})
	if w.cfg.witnessed {
		note(history.Event{Op: history.NoteWitness, Key: history.WitnessAnswers})
	}
	phase := func(name string) { note(history.Event{Op: history.NotePhase, Details: &history.Details{Phase: name}}) }
	phase("warmup")
	alive := 0
	for i := range w.cfg.workers {
		w.worker(fmt.Sprintf("w%d", i+1), 1, &alive)
	}
	t.sleep(slice)
	phase("before")
	t.sleep(3 * slice)
	phase("fault")
	fault := history.Fault{ID: "f1", Name: "partition", Action: history.ActionInject, Targets: []string{"n1"}}
	note(history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &fault}})
	w.disturb(true)
	t.sleep(2 * slice)
	proof := fault
	proof.Action, proof.Proven, proof.Text = history.ActionEvidence, true, "12 requests were held"
	note(history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &proof}})
	phase("heal")
	heal := fault
	heal.Action = history.ActionHeal
	w.disturb(false)
	note(history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &heal}})
	phase("recover")
	t.sleep(4 * slice)
	if w.cfg.shards > 0 {
		phase("drain")
		w.drain(t)
	}
	phase("settle")
	w.done = true
	for alive > 0 {
		t.sleep(w.cfg.ttl)
	}
	t.sleep(10 * w.cfg.ttl) // what is late has arrived
	phase("seal")
	w.seal(t)
}

func (w *world) seal(t *task) {
	names := make([]string, 0, len(w.rows))
	for name := range w.rows {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		from := w.row(name) // absent: the seal is an insert
		to := history.Version{Fence: from.Fence + 1, Attempt: w.uuid()}
		e := history.Event{Proc: history.Harness, ID: w.host.id(), Type: history.Invoke, Op: history.OpSeal, Key: name, From: &from, To: &to}
		w.record(w.host, e)
		w.rows[name] = to
		w.record(w.host, history.Event{Proc: history.Harness, ID: e.ID, Type: history.OK, Op: history.OpSeal, Key: name})
		r := history.Event{Proc: history.Harness, ID: w.host.id(), Type: history.Invoke, Op: history.OpRead, Key: name}
		w.record(w.host, r)
		r.Type, r.Row = history.OK, &to
		w.record(w.host, r)
		w.finalRead("res-" + name)
	}
	w.sealShards()
}

func (w *world) uuid() string { return fmt.Sprintf("%016x", w.rng.Uint64()) }

// history puts the files together as the reader would.
func (w *world) history() *history.History {
	h := &history.History{}
	for _, f := range w.files {
		h.Headers = append(h.Headers, f.header)
		for i, e := range f.events {
			e.File, e.Line = f.header.Proc+".jsonl", i+2
			h.Events = append(h.Events, e)
		}
	}
	sort.SliceStable(h.Events, func(i, j int) bool { return h.Events[i].TS < h.Events[j].TS })
	return h
}

// simSink is one resource of the sink.
type simSink struct {
	seen, value, seq int64
	applied          map[string]int64
	ledger           []history.LedgerEntry
	read, sent       map[string]int64 // by life: the highest token read last, and sent
}

func (s *simSink) log(e history.LedgerEntry) int64 {
	s.seq++
	e.Seq = s.seq
	s.ledger = append(s.ledger, e)
	return s.seq
}

// call is one execution of a request: an effect if it has a key, else a raise.
func (s *simSink) call(b bug, req history.Event) (result string, seen, seq int64) {
	if b == bugForget && s.seq > 0 && s.seq%7 == 0 {
		s.seen = 0
	}
	if _, dup := s.applied[effectKey(b, req)]; dup && b != bugNoDedupe && b != bugNoKey {
		return past.ResultDuplicate, s.seen, s.seq
	}
	if b == bugSilentRaise && req.EffectKey == "" {
		return past.ResultApplied, req.Token, s.seq
	}
	stale := req.Token < s.seen || b == bugRefuseEqual && req.EffectKey != "" && req.Token <= s.seen
	life := history.Life(req.Proc)
	switch {
	case b == bugCheckRead && req.EffectKey != "":
		stale = req.Token < s.read[life]
	case b == bugProcessMemory && req.EffectKey != "":
		stale = req.Token < s.sent[life]
	}
	if s.sent == nil {
		s.sent, s.read = map[string]int64{}, map[string]int64{}
	}
	s.sent[life] = max(s.sent[life], req.Token)
	if stale && b != bugNoToken {
		return past.ResultStale, s.seen, 0
	}
	raised := req.Token > s.seen
	s.seen = max(s.seen, req.Token)
	if req.EffectKey == "" {
		if raised {
			s.log(history.LedgerEntry{Kind: history.LedgerRaise, Issuer: req.Issuer, Token: req.Token})
		}
		return past.ResultApplied, s.seen, s.seq
	}
	s.value = *req.Value
	s.log(history.LedgerEntry{Kind: history.LedgerAccept, Issuer: req.Issuer, Token: req.Token, EffectKey: req.EffectKey, Value: req.Value})
	s.applied[effectKey(b, req)] = req.Token
	return past.ResultApplied, s.seen, s.seq
}
