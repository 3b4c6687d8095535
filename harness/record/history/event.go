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

// OpSchedule is a client's whole call that puts, disables, enables or removes a recurring
// schedule.
const OpSchedule Op = "schedule"

// OpCommand is a client's whole call that cancels, redrives, hastens or runs a job, pauses or
// resumes a shard, or redrives the dead jobs of a queue.
const OpCommand Op = "command"

// OpLock is a client's whole call, from asking for the lock to holding it (ok,
// with Token) or giving up (fail, or unknown). It contains the acquire operations.
const OpLock Op = "lock"

// OpExtend is a holder's whole call that renews its lease by hand.
const OpExtend Op = "extend"

// OpClose is a client's whole call that closes the lock client of its process. Another one follows.
const OpClose Op = "close"

// Why a lock call handed out nothing: a TryAcquire found the lock held, its limit was over, or its
// caller ended it.
const (
	ResultHeld      = "held"
	ResultTimeout   = "timeout"
	ResultCancelled = "cancelled"
	ResultClosed    = "closed" // the lock client was
)

// Operations on the sink.
const (
	OpRaise  Op = "raise"  // raise the highest token seen by a resource
	OpGet    Op = "get"    // read a resource's value
	OpEffect Op = "effect" // a fenced write
	OpForget Op = "forget" // the harness has a resource forget old keys, and drop old entries of its ledger
)

// Notes.
const (
	NoteStart     Op = "start"       // a critical section or a job's run begins: Key (lock or job), Token, DecidedAt
	NoteFinish    Op = "finish"      // it ended; of a run, Error says how if not well
	NoteLeaseLost Op = "lease-lost"  // the holder's right ended before release: Key, Token, Error
	NotePhase     Op = "phase"       // a phase of the run begins: Phase
	NoteFault     Op = "fault"       // Fault says inject, heal or evidence
	NotePoint     Op = "point"       // a reach point was passed: Point (and Key, Token)
	NoteLedger    Op = "ledger"      // one row of the sink's ledger, read after the run: Ledger
	NoteRow       Op = "row"         // one row of a shard, read after the run: JobRow
	NoteRowsEnd   Op = "rows-end"    // all rows of a shard (Issuer), or of jobs with a lock each, have been noted
	NoteBook      Op = "book"        // one row of the shop's tables, read after the run: Book
	NoteExpect    Op = "expect"      // what the scenario demands of the run: Expect
	NoteStatement Op = "statement"   // first use of a CQL statement shape: Statement; the harness's have as Key whose link carried it
	NoteSerial    Op = "serial-read" // a read in consensus that a link carried: Key (whose), SerialRead
	NoteAnswer    Op = "answer"      // what the sink answered a worker, as the harness read it: Key, Asked, and what a raise, get or effect has
	NoteHit       Op = "hit"         // a client stood at an armed point before a request: Point, Key (the lock), Hit; TS is when it asked
	NoteArm       Op = "arm"         // a point that a fault waited for: Point, Armed and, of a client that came, Key; TS is when it came, or the wait ended
	NoteWitness   Op = "witness"     // Key is what the harness itself reads on the links from here on; with Error, what of it cannot be read
	NoteCrash     Op = "crash"       // a process was killed: Error says by what
	NoteExit      Op = "exit"        // a process ended of itself
	NoteClock     Op = "clock"       // a worker's clock was changed by a fault, or the host's by somebody: Clock
	NoteLife      Op = "life"        // how a process ended, or that it did not: Life
	NoteHost      Op = "host"        // how busy the machine was in the phase that ends: Host
	NoteUsage     Op = "usage"       // what a process takes of the machine now: Key (a life, or a node), Usage
	NoteArrivals  Op = "arrivals"    // how many jobs a life was to enqueue so far, and how many it left out: Arrivals
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
	// true: there is no row; the other fields then mean nothing
	Absent bool `json:"absent,omitempty"`
	// the token of the grant
	Fence int64 `json:"fence" is:"count zero"`
	// what a renewal raises; of a shard its tick
	Beat int64 `json:"beat" is:"count zero"`
	// unique to the operation that set it; of a shard the nonce
	Attempt string `json:"attempt" is:"name zero"`
	// the proc of the holder, empty: free; of a shard always empty
	Holder string `json:"holder" is:"name zero"`
	// the lease time; of a shard 0, as no condition names it
	TTLMS int64 `json:"ttl_ms" is:"span zero"`
}

// Event is one line of a history file. Which fields are set depends on Op, see forms. The
// comments above the fields of this struct and of those within it are in
// docs/history-format.md and history.schema.json, so they use the names of the format.
type Event struct {
	// ns on the host's CLOCK_MONOTONIC
	TS int64 `json:"ts" is:"instant"`
	// a process life, a slash and a client: w1.2/c3 is worker w1, its second life, client 3;
	// or a life alone
	Proc string `json:"proc" is:"name"`
	// links an invoke with its end: 1, 2, 3 … within a process life
	ID int64 `json:"id,omitempty" is:"count"`
	// invoke: about to be sent; ok: certainly took effect (a read: was answered); fail:
	// certainly did not and never will; unknown: may have, or may do so later; note: something
	// that happened, not an operation
	Type Type `json:"type" of:"invoke ok fail unknown note"`
	// the operation or note
	Op Op `json:"op" is:"name"`
	// the lock, shard, job, schedule or resource: see the tables above
	Key string `json:"key,omitempty" is:"name"`

	// Lock operations.

	// the whole version that a compare-and-set names
	From *Version `json:"from,omitempty"`
	// the whole version that it sets
	To *Version `json:"to,omitempty"`
	// of a rejected compare-and-set the row that came back, of a read the row
	Row *Version `json:"row,omitempty"`
	// when each copy of the request left, the first first
	Sends []int64 `json:"sends,omitempty"`

	// Sink operations, lock, start, finish, lease-lost.

	// the fencing token that was handed out or is shown; of a run its id
	Token int64 `json:"token,omitempty" is:"token"`
	// the lock or shard that issued the token
	Issuer string `json:"issuer,omitempty" is:"name"`
	// the idempotency key, fresh for each grant
	EffectKey string `json:"effect_key,omitempty"`
	// what is written, or was read
	Value *int64 `json:"value,omitempty"`
	// when the holder last found its lease valid before it decided: read from the clock before
	// that look
	DecidedAt int64 `json:"decided_at,omitempty" is:"instant"`
	// what was answered; of a lock call that handed out nothing, why
	Result string `json:"result,omitempty" of:"applied duplicate stale conflict inbox held timeout cancelled closed"`
	// the highest token that the sink knew
	Seen int64 `json:"seen,omitempty" is:"token"`
	// the number of the sink's decision in its ledger
	Seq int64 `json:"seq,omitempty" is:"count"`

	*Details // nil if it has none

	// Ends that are not ok.

	// why not
	Error string `json:"error,omitempty"`
	// the acquire takes another holder's lease
	Takeover bool `json:"takeover,omitempty"`
	// every copy was answered, the last by the coordinator's own timeout: on the server's side
	// the attempt is over
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
	// one injection of one fault of the plan: f1
	ID string `json:"id" is:"name"`
	// the fault: partition, kill-worker …
	Name string `json:"name" is:"name"`
	// what happened
	Action string `json:"action" of:"inject heal evidence"`
	// nodes, workers or links
	Targets []string `json:"targets,omitempty" is:"names"`
	// of latency: the shortest delay that it gives to a message, one way
	DelayMS int64 `json:"delay_ms,omitempty" is:"span"`
	// of overload: how many times as many jobs come as ended under the saturate before
	Times float64 `json:"times,omitempty" below:"1e9"`
	// what set it off: an instant of the plan, or an event
	Trigger string `json:"trigger,omitempty"`
	// it demonstrably did what its name says
	Proven bool `json:"proven,omitempty"`
	// the evidence in words, with its numbers
	Text string `json:"text,omitempty"`
}

// Ledger entry kinds.
const (
	LedgerRaise  = "raise"
	LedgerAccept = "accept"
	LedgerSeal   = "seal" // a forget refuses the tokens that had been seen: raises, by no call with a token
)

// LedgerEntry is one decision of the sink, in its own order.
type LedgerEntry struct {
	// its number: 1, 2, 3 …
	Seq int64 `json:"seq" is:"count"`
	// what was decided
	Kind string `json:"kind" of:"raise accept seal"`
	// the lock that issued the token
	Issuer string `json:"issuer" is:"name"`
	// the token that was shown; of a seal the lowest that is not refused
	Token int64 `json:"token" is:"token"`
	// the effect's idempotency key
	EffectKey string `json:"effect_key,omitempty"`
	// what was written
	Value *int64 `json:"value,omitempty"`
	// when the sink decided, by its own reading of the clock; absent: it does not say
	At int64 `json:"at,omitempty" is:"instant"`
}

// Asked is what a worker's link carried to the sink. The note's TS is when the last byte of
// the answer had come from the sink; without a Result it decided nothing, or no answer came.
type Asked struct {
	// what it was
	Op Op `json:"op" of:"raise get effect"`
	// whose link
	Worker string `json:"worker" is:"name"`
	// when the first byte of the request had come from the worker
	Sent int64 `json:"sent" is:"instant"`
}

// Hit is a client at a point that a fault waited for, with what its links carried of the
// request that the point is before.
type Hit struct {
	// the client
	Proc string `json:"proc" is:"name"`
	// of the operation that it had recorded and not ended; absent: there was none
	ID int64 `json:"id,omitempty" is:"count"`
	// when it was let go; absent: it never was
	Go int64 `json:"go,omitempty" is:"instant"`
	// when the request first came to a link of its worker; absent: it never did
	Sent int64 `json:"sent,omitempty" is:"instant"`
}

// Armed is a point that a fault waited for, in every process that could get there.
type Armed struct {
	// the injection: f1
	Fault string `json:"fault" is:"name"`
	// its fault
	Name string `json:"name" is:"name"`
	// when it began to wait
	Since int64 `json:"since" is:"instant"`
	// the client that came, and stood there until it was let go; absent: none came in time
	Proc string `json:"proc,omitempty" is:"name"`
	// the fault was in force already, and lasted until somebody came
	Ends bool `json:"ends,omitempty"`
}

// Statement is the shape of one database statement, for linting.
type Statement struct {
	// its text
	CQL string `json:"cql"`
	// its consistency level
	Consistency string `json:"consistency"`
	// that of its condition
	SerialConsistency string `json:"serial_consistency,omitempty"`
	// of the node to which the link leads, in a cluster of several data centres
	Datacenter string `json:"datacenter,omitempty" is:"name"`
}

// SerialRead is a read at SERIAL or LOCAL_SERIAL that a worker's link carried: one request. The
// note's TS is when its last byte had come from the worker.
type SerialRead struct {
	// the table that it reads, without its keyspace
	Table string `json:"table" is:"name"`
	// the first value that it carries, by which the row is found; absent: it is no text, or
	// none is carried
	Row string `json:"row,omitempty"`
}

// Clock is the state of a worker's clocks from the note's instant on, as a fault
// made it. What the worker records (TS, DecidedAt) stays on the true clock.
type Clock struct {
	// by how much the wall clock is wrong
	OffsetMS int64 `json:"offset_ms,omitempty" is:"offset"`
	// by how much the lease clock runs too fast, in parts per million; negative: too slow
	RatePPM int64 `json:"rate_ppm,omitempty" is:"rate"`
	// the machine sleeps: the lease clock goes on, timers stand still
	Suspended bool `json:"suspended,omitempty"`
}

// Format and FormatVersion identify a history file in its header line.
const (
	Format        = "fencepost-history"
	FormatVersion = 1
)

// Header is the first line of every history file.
type Header struct {
	// fencepost-history
	Format string `json:"format"`
	// 1
	Version int `json:"version" is:"count"`
	// the run's name, the same in all its files
	Run string `json:"run" is:"name"`
	// the process life that wrote the file: w1.2, harness
	Proc string `json:"proc" is:"name"`
	// its process id
	PID int `json:"pid" is:"count zero"`
	// its host
	Host string `json:"host" is:"name zero"`
	// files of two boots cannot be merged: their clocks have nothing in common
	BootID string `json:"boot_id" is:"name"`
	// RFC 3339, read together with ts, to date the monotonic clock
	WallTime string `json:"wall_time"`
	// ns on CLOCK_MONOTONIC
	TS int64 `json:"ts" is:"instant"`
	// the declared bound on the clocks' rate error; 0.01 is 1 %
	DriftBound float64 `json:"drift_bound" below:"0.5" is:"zero"`
	// the constant part of the lease margin, which is 2 x drift_bound x ttl + margin_base_ms
	MarginBaseMS int64 `json:"margin_base_ms" is:"span zero"`
	// for how long a job's id is remembered after its end; absent: not said
	DedupeMS int64 `json:"dedupe_ms,omitempty" is:"span"`
	// the system under test
	System string `json:"system,omitempty"`
	// the properties that it claims; absent: all. A run is judged by those of all its headers
	// together
	Promises []string `json:"promises,omitempty" is:"properties"`
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
