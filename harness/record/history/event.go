package history

// Type says which end of an operation an event is, or that it is a note.
type Type string

// The event types. An operation is one Invoke and at most one of OK, Fail and
// Unknown with the same ID; an operation without an end (its process died)
// counts as Unknown.
const (
	Invoke  Type = "invoke"  // about to be sent; written before the first byte leaves
	OK      Type = "ok"      // certainly took effect (a read: certainly answered)
	Fail    Type = "fail"    // certainly did not and never will take effect
	Unknown Type = "unknown" // may have taken effect, or may do so later
	Note    Type = "note"    // something that happened, not an operation
)

// Op names an operation or a note.
type Op string

// Operations on a lock row. Each is one compare-and-set (all its resends
// included) or one SERIAL read.
const (
	OpAcquire Op = "acquire"
	OpRenew   Op = "renew"
	OpRelease Op = "release"
	OpSeal    Op = "seal" // the harness's own last CAS: fence+1, no holder
	OpRead    Op = "read" // SERIAL read of the lock row
)

// Operations on a shard's header row. Each is one conditional batch, all its
// resends included, from one stamp to the next; OpSeal and OpRead are the harness's
// last ones, as on a lock row.
const (
	OpTake     Op = "take"      // takes the shard over: fence+1
	OpTick     Op = "tick"      // the owner's batch, with Changes
	OpHandOver Op = "hand-over" // the owner's last batch
)

// OpEnqueue is a client's whole call that puts a job into its shard or inbox, or
// writes its rows where it has none.
const OpEnqueue Op = "enqueue"

// OpUpdate is what a system without shards writes down about a job that it has locked,
// by plain writes: one change, with all that is written for it. Key is the job's lock.
const OpUpdate Op = "update"

// OpSchedule is a client's whole call that puts or disables a recurring schedule.
const OpSchedule Op = "schedule"

// OpLock is a client's whole call, from asking for the lock to holding it (ok,
// with Token) or giving up (fail, or unknown). It contains the acquire operations.
const OpLock Op = "lock"

// Operations on the sink.
const (
	OpRaise  Op = "raise"  // raise the highest token seen by a resource
	OpGet    Op = "get"    // read a resource's value
	OpEffect Op = "effect" // a fenced write
)

// Notes.
const (
	NoteStart     Op = "start"      // a critical section or a job's run begins: Key (lock or job), Token, DecidedAt
	NoteFinish    Op = "finish"     // it ended; of a run, Error says how if not well
	NoteLeaseLost Op = "lease-lost" // the holder's right ended before release: Key, Token, Error
	NotePhase     Op = "phase"      // a phase of the run begins: Phase
	NoteFault     Op = "fault"      // Fault says inject, heal or evidence
	NotePoint     Op = "point"      // a reach point was passed: Point (and Key, Token)
	NoteLedger    Op = "ledger"     // one row of the sink's ledger, read after the run: Ledger
	NoteRow       Op = "row"        // one row of a shard, read after the run: JobRow
	NoteRowsEnd   Op = "rows-end"   // all rows of a shard (Issuer), or of jobs with a lock each, have been noted
	NoteBook      Op = "book"       // one row of the shop's tables, read after the run: Book
	NoteExpect    Op = "expect"     // what the scenario demands of the run: Expect
	NoteStatement Op = "statement"  // first use of a CQL statement shape: Statement; the harness's have as Key whose link carried it
	NoteAnswer    Op = "answer"     // what the sink answered a worker, as the harness read it on the link: Key (resource), Asked, and what a raise, get or effect has
	NoteHit       Op = "hit"        // a client stood at an armed point before a request: Point, Key (the lock), Hit; TS is when it asked
	NoteWitness   Op = "witness"    // Key is what the harness itself reads on the links from here on; with Error, what of it cannot be read
	NoteCrash     Op = "crash"      // a process was killed: Error says by what
	NoteExit      Op = "exit"       // a process ended of itself
	NoteClock     Op = "clock"      // a worker's clock was changed by a fault: Clock
	NoteLife      Op = "life"       // how a process ended, or that it did not: Life
	NoteHost      Op = "host"       // how busy the machine was in the phase that ends: Host
)

// What the harness reads on the links of workers, the keys of witness notes.
const (
	WitnessStatements = "statements" // statement notes of what is sent to nodes
	WitnessAnswers    = "answers"    // answer notes of all that a sink's service is asked
)

// Points that are noted by schedulers of each other; Key is the member.
const (
	PointMemberGone = "member-gone" // its heartbeats have stood still for a ttl
	PointMemberCame = "member-came"
)

// Version is the whole version of a lock row: what a CAS names in its IF clause
// and what it sets. The zero Version with Absent stands for a row that does not exist.
// Of a shard's header it is the stamp: Beat is the tick, Attempt the nonce, and
// Holder and TTLMS are zero, as no condition names them.
type Version struct {
	Absent  bool   `json:"absent,omitempty"`
	Fence   int64  `json:"fence"`
	Beat    int64  `json:"beat"`
	Attempt string `json:"attempt"`
	Holder  string `json:"holder"`
	TTLMS   int64  `json:"ttl_ms"`
}

// Event is one line of a history file. Which fields are set depends on Op; the
// format is documented in docs/history-format.md and history.schema.json.
type Event struct {
	// TS is the instant in ns on the host's CLOCK_MONOTONIC.
	TS int64 `json:"ts"`
	// Proc is the actor: one life of one process, a slash, and a client within
	// it ("w1.2/c3": worker w1, second life, client 3), or "harness".
	Proc string `json:"proc"`
	// ID links an invoke with its end; unique within one process life.
	ID   int64 `json:"id,omitempty"`
	Type Type  `json:"type"`
	Op   Op    `json:"op"`
	// Key is the lock (lock operations, start, finish, lease-lost) or the
	// sink's resource (raise, get, effect, ledger).
	Key string `json:"key,omitempty"`

	// Lock operations.
	From *Version `json:"from,omitempty"` // invoke: the version that the CAS names
	To   *Version `json:"to,omitempty"`   // invoke: the version that it sets
	Row  *Version `json:"row,omitempty"`  // fail: the row that came back; read ok: the row
	// Sends are the instants (as TS) at which a copy of the request was sent,
	// the first one first; on ends only.
	Sends []int64 `json:"sends,omitempty"`

	// Sink operations, lock, start, finish, lease-lost.
	Token     int64  `json:"token,omitempty"`      // the fencing token handed out or shown
	Issuer    string `json:"issuer,omitempty"`     // the lock that issued the token
	EffectKey string `json:"effect_key,omitempty"` // idempotency key
	Value     *int64 `json:"value,omitempty"`      // effect: the value written; get ok: the value read
	DecidedAt int64  `json:"decided_at,omitempty"` // when the holder last found its lease valid before acting, as TS
	Result    string `json:"result,omitempty"`     // applied, duplicate, stale, conflict; enqueue ok: applied, duplicate, inbox
	Seen      int64  `json:"seen,omitempty"`       // the highest token that the sink knew when it answered
	Seq       int64  `json:"seq,omitempty"`        // ledger sequence number

	*Details // nil if it has none

	// Ends that are not ok.
	Error    string `json:"error,omitempty"`
	Takeover bool   `json:"takeover,omitempty"` // acquire: from another holder's lease that stood still
	// ServerTimeout: every copy sent was answered, the last by the coordinator's
	// own timeout (the attempt is over on the server's side).
	ServerTimeout bool `json:"server_timeout,omitempty"`

	// Line and File say where the reader found the event; not part of the format.
	Line int    `json:"-"`
	File string `json:"-"`
}

// Fault actions.
const (
	ActionInject   = "inject"
	ActionHeal     = "heal"
	ActionEvidence = "evidence"
)

// Fault describes an injection, its end, or the proof that it took effect.
type Fault struct {
	ID     string `json:"id"`     // "f1": one injection of one fault of the plan
	Name   string `json:"name"`   // "partition", "kill-worker" …
	Action string `json:"action"` // inject, heal, evidence
	// Targets are nodes, workers or links.
	Targets []string `json:"targets,omitempty"`
	// DelayMS is the shortest delay that the fault gives to a message, one way, in ms.
	DelayMS int64 `json:"delay_ms,omitempty"`
	// Trigger tells what set it off: an instant of the plan, or an event.
	Trigger string `json:"trigger,omitempty"`
	// Proven (evidence only): the fault demonstrably did what its name says.
	Proven bool `json:"proven,omitempty"`
	// Text is the evidence in words with its numbers.
	Text string `json:"text,omitempty"`
}

// Ledger entry kinds.
const (
	LedgerRaise  = "raise"
	LedgerAccept = "accept"
)

// LedgerEntry is one decision of the sink, in its own order.
type LedgerEntry struct {
	Seq       int64  `json:"seq"`
	Kind      string `json:"kind"` // raise, accept
	Issuer    string `json:"issuer"`
	Token     int64  `json:"token"`
	EffectKey string `json:"effect_key,omitempty"`
	Value     *int64 `json:"value,omitempty"`
	// At is when the sink decided, as TS, by its own reading of the clock; 0: it does not say.
	At int64 `json:"at,omitempty"`
}

// Asked is what a worker's link carried to the sink. The note's TS is when the last byte of
// the answer had come from the sink; without a Result it decided nothing, or no answer came.
type Asked struct {
	Op     Op     `json:"op"` // raise, get, effect
	Worker string `json:"worker"`
	// Sent is when the first byte of the request had come from the worker, as TS.
	Sent int64 `json:"sent"`
}

// Hit is a client at a point that a fault waited for, with what its links carried of the
// request that the point is before.
type Hit struct {
	Proc string `json:"proc"` // the client
	// ID is that of the operation that it had recorded and not ended; 0: there was none.
	ID int64 `json:"id,omitempty"`
	// Go is when it was let go, as TS; 0: it never was.
	Go int64 `json:"go,omitempty"`
	// Sent is when the request first came to a link; 0: it never did.
	Sent int64 `json:"sent,omitempty"`
}

// Statement is the shape of one database statement, for linting.
type Statement struct {
	CQL               string `json:"cql"`
	Consistency       string `json:"consistency"`
	SerialConsistency string `json:"serial_consistency,omitempty"`
	// Datacenter is that of the node to which the link leads; "" if the cluster knows none.
	Datacenter string `json:"datacenter,omitempty"`
}

// Agreement is where and how the processes of a run agree that runs on several data centres:
// another one would decide apart.
type Agreement struct {
	Datacenter string `json:"datacenter"`
	// Nodes are those of the data centre: they alone may be asked, and they alone decide.
	Nodes []string `json:"nodes"`
	// Serial is the consistency of conditional statements and of reads that take part in
	// consensus, Consistency that of commits and other reads.
	Serial      string `json:"serial"`
	Consistency string `json:"consistency"`
}

// Clock is the state of a worker's clocks from the note's instant on, as a fault
// made it. What the worker records (TS, DecidedAt) stays on the true clock.
type Clock struct {
	// OffsetMS is by how much its wall clock is wrong.
	OffsetMS int64 `json:"offset_ms,omitempty"`
	// RatePPM is by how much its lease clock runs too fast, in parts per
	// million (negative: too slow).
	RatePPM int64 `json:"rate_ppm,omitempty"`
	// Suspended: the machine sleeps. The lease clock goes on, timers stand still.
	Suspended bool `json:"suspended,omitempty"`
}

// Expectations of success.
const (
	Some = "some" // at least one operation of the group must succeed in the phase
	None = "none" // none may
	Any  = "any"  // no demand
)

// Expect is what a run must contain to count as a test at all. A run that
// misses any of it is INVALID.
type Expect struct {
	// MinCycles is the least number of lock cycles (releases that are ok) or of jobs
	// completed, by phase.
	MinCycles map[string]int `json:"min_cycles,omitempty" yaml:"min_cycles"`
	// Faults are the ids that must have been injected and proven.
	Faults []string `json:"faults,omitempty" yaml:"-"`
	// Success says which group of workers must succeed in which phase.
	Success []Success `json:"success,omitempty" yaml:"success"`
	// Progress is what must get done while faults are in force (P11).
	Progress []Progress `json:"progress,omitempty" yaml:"-"`
	// Nodes is how many nodes the lock store has; 0: not said, 3.
	Nodes int `json:"nodes,omitempty" yaml:"-"`
	// Agreement says in which data centre the system is to agree; nil: there is only one.
	Agreement *Agreement `json:"agreement,omitempty" yaml:"-"`
	// Must are reach points each hit at least once: the point notes of the
	// workers, and the ones the checker derives itself: takeover, stale-refused,
	// unknown-settled, lease-lost, resend, duplicate, late-answer.
	Must []string `json:"must,omitempty" yaml:"must"`
	// Sometimes are reach points (of the same kind) that need not be hit in every
	// run, but at least once in the last 20 kept runs of the scenario.
	Sometimes []string `json:"sometimes,omitempty" yaml:"sometimes"`
	// Exempt are properties of which nothing may be checked in this run, with the reason:
	// the workload cannot exercise them. Of any other that is promised something must be.
	Exempt map[string]string `json:"exempt,omitempty" yaml:"exempt"`
	// RowsEnd says that the harness ends the rows of each shard that it has read with a
	// rows-end note, so that no rows can be told from rows that were not read.
	RowsEnd bool `json:"rows_end,omitempty" yaml:"-"`
	// Workers is how many worker processes must have recorded operations.
	Workers int `json:"workers,omitempty" yaml:"-"`
	// DrainBoundMS is for how long the run waited, when nothing was enqueued any
	// more, for every job to finish; 0: there are no jobs.
	DrainBoundMS int64 `json:"drain_bound_ms,omitempty" yaml:"drain_bound_ms"`
	// RecoveryBoundMS is what P11 allows beyond ttl + ttl/8 until an orphaned lock
	// is taken over; 0: the checker's default, 5 s + ttl/2.
	RecoveryBoundMS int64 `json:"recovery_bound_ms,omitempty" yaml:"recovery_bound_ms"`
	// Thresholds are bounds on the run's numbers (P15).
	Thresholds []Threshold `json:"thresholds,omitempty" yaml:"-"`
}

// Groups of workers, relative to the faults of the plan.
const (
	GroupTargets = "targets" // the workers that the fault (any fault, by phase) is aimed at
	GroupOthers  = "others"  // all other workers
)

// Success is an expectation for the releases of a group of workers in a phase,
// or while a fault is in force.
type Success struct {
	// Phase or Fault, not both. Fault is a fault's name ("partition-client") or id
	// ("f1"): each of its windows from inject to heal counts.
	Phase string `json:"phase,omitempty" yaml:"phase"`
	Fault string `json:"fault,omitempty" yaml:"fault"`
	// Workers or Group, not both; neither means all workers.
	Workers []string `json:"workers,omitempty" yaml:"workers"`
	Group   string   `json:"group,omitempty" yaml:"group"`
	Want    string   `json:"want" yaml:"want"` // some, none, any
}

// Format and FormatVersion identify a history file in its header line.
const (
	Format        = "fencepost-history"
	FormatVersion = 1
)

// Header is the first line of every history file.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Run     string `json:"run"`
	// Proc is the process life that wrote the file ("w1.2", "harness").
	Proc   string `json:"proc"`
	PID    int    `json:"pid"`
	Host   string `json:"host"`
	BootID string `json:"boot_id"`
	// WallTime (RFC 3339) and TS were read together, to date the monotonic clock.
	WallTime string `json:"wall_time"`
	TS       int64  `json:"ts"`
	// DriftBound is the declared bound on clock-rate error (0.01 is 1 %), and
	// MarginBaseMS the constant part of the lease margin:
	// margin = 2 x DriftBound x ttl + MarginBaseMS.
	DriftBound   float64 `json:"drift_bound"`
	MarginBaseMS int64   `json:"margin_base_ms"`
	// DedupeMS is for how long a job's id is remembered after its end; 0: not said.
	DedupeMS int64 `json:"dedupe_ms,omitempty"`
	// System is the system under test and Promises the properties that it
	// claims; empty means all.
	System   string   `json:"system,omitempty"`
	Promises []string `json:"promises,omitempty"`
}

// Harness is the proc of the run itself: its phases, faults and last operations.
const Harness = "harness"

// Worker returns the worker ("w1") of a proc ("w1.2/c3").
func Worker(proc string) string {
	for i := 0; i < len(proc); i++ {
		if proc[i] == '.' || proc[i] == '/' {
			return proc[:i]
		}
	}
	return proc
}

// Life returns the process life ("w1.2") of a proc ("w1.2/c3").
func Life(proc string) string {
	for i := 0; i < len(proc); i++ {
		if proc[i] == '/' {
			return proc[:i]
		}
	}
	return proc
}
