package history

import (
	"fmt"
	"slices"
	"strings"
)

// author says in whose file a line may be.
type author int

const (
	anyone      author = iota
	workers            // of a worker's life about itself
	harnessOnly        // what nobody under test can know, or may testify about
)

func (a author) String() string {
	return [...]string{"any", "worker", "harness"}[a]
}

// form is an operation or a note: who may write it, and what its lines have beside ts, proc,
// type and op (and id, of an operation). A shape names the fields that must be there and not
// be zero, then in brackets those that may. What has two shapes has either.
type form struct {
	op Op
	by author
	// main: it is of a client's main line, which does one thing after the other. Others of
	// the same client may be under way beside it.
	main  bool
	means string
	// shapes by type; other are those of fail and unknown.
	invoke, ok, other, note string

	compiled map[Type][]shape
}

// Ends that are the same for many operations.
const (
	applied   = "key [sends]"
	rejected  = "key [row sends error server_timeout]"
	given     = "key [error sends server_timeout]"
	unheld    = "key [result=held|timeout|cancelled|closed error sends server_timeout]"
	unraised  = "key [result=stale seen seq issuer token error sends server_timeout]"
	refused   = "key [result=stale|conflict seen seq issuer token effect_key error sends server_timeout]"
	committed = "key from to [changes wall_ms]"
)

// forms is the format: each operation and note there is. Other lines are malformed.
var forms = []form{
	{op: OpLock, by: workers, main: true,
		means:  "a client's whole call, from asking for the lock to holding it, or giving up; it contains the acquires",
		invoke: "key [ttl_ms limit_ms try session]", ok: "key token", other: unheld},
	{op: OpExtend, by: workers, main: true,
		means:  "a holder's whole call that renews its lease by hand; it contains the renewals. fail: it is not renewed by it",
		invoke: "key token", ok: "key", other: "key [error]"},
	{op: OpClose, by: workers, main: true,
		means: "a client's whole call that closes the lock client of its process, in favour of a new one. ok: all its leases are over; " +
			"unknown: after limit_ms it gave up leases that were held and requests that were on their way",
		invoke: "session limit_ms", ok: "session", other: "session [error]"},
	{op: OpAcquire, means: "a compare-and-set that takes the lock, with all its resends",
		invoke: "key from to [takeover]", ok: applied, other: rejected},
	{op: OpRenew, means: "a compare-and-set of the holder: beat + 1",
		invoke: "key from to", ok: applied, other: rejected},
	{op: OpRelease, means: "a compare-and-set of the holder: it leaves the lock free",
		invoke: "key from to", ok: applied, other: rejected},
	{op: OpRead, means: "a SERIAL read of a lock's row, or of a shard's header",
		invoke: "key", ok: "key row [sends]", other: given},
	{op: OpSeal, by: harnessOnly,
		means:  "the last compare-and-set on a row or a shard, when all clients have ended: fence + 1, no holder",
		invoke: "key from to", ok: applied, other: rejected},
	{op: OpTake, by: workers, means: "a conditional batch that takes a shard over: fence + 1",
		invoke: "key from to ttl_ms", ok: applied, other: rejected},
	{op: OpTick, by: workers, means: "a conditional batch of a shard's owner, with what it does to jobs",
		invoke: committed, ok: applied, other: rejected},
	{op: OpHandOver, by: workers, means: "the owner's last batch",
		invoke: committed, ok: applied, other: rejected},
	{op: OpEnqueue, by: workers, main: true, means: "a client's whole call that enqueues a job: key is its id",
		invoke: "key job", ok: "key result=applied|duplicate|inbox [sends]", other: given},
	{op: OpUpdate, by: workers, main: true,
		means:  "where each job has a lock: all plain writes that say what became of it; key is the lock",
		invoke: "key changes", ok: applied, other: given},
	{op: OpSchedule, by: workers, main: true, means: "a client's whole call that puts, disables, enables, removes or triggers a schedule: key is the schedule's",
		invoke: "key schedule", ok: "key result=applied|duplicate [sends]", other: given},
	{op: OpCommand, by: workers, main: true,
		means: "a client's whole call that cancels, redrives, hastens or runs a job, pauses or resumes a shard, or redrives the dead jobs of a queue: " +
			"key is the job's id, the shard or the queue; told is the state by which it was refused",
		invoke: "key command", ok: "key result=applied|duplicate [answers sends]", other: "key [told error sends server_timeout]"},
	{op: OpRaise, main: true, means: "raises the highest token that a resource of the sink has seen; key is the resource",
		invoke: "key issuer token", ok: "key result=applied seen [seq issuer token sends]", other: unraised},
	{op: OpGet, main: true, means: "reads a resource's value",
		invoke: "key", ok: "key value [seen seq sends]", other: given},
	{op: OpEffect, by: workers, main: true, means: "a fenced write to a resource",
		invoke: "key issuer token effect_key value decided_at",
		ok:     "key result=applied|duplicate seen [seq issuer token effect_key sends]",
		other:  refused},

	{op: OpForget, by: harnessOnly,
		means: "has a resource forget keys that were accepted long ago, and drop entries of its ledger, which are noted before; value is " +
			"how many keys were dropped",
		invoke: "key", ok: "key value", other: given},

	{op: NoteStart, by: workers,
		means: "a critical section begins (key is the lock), or a job's run (key is the job, issuer its shard or lock, token the run)",
		note:  "key token decided_at or key issuer token decided_at attempt due_ms wall_ms"},
	{op: NoteFinish, by: workers, means: "it has ended; of a run, error says how if not well",
		note: "key token or key issuer token [error]"},
	{op: NoteLeaseLost, by: workers, means: "the holder's right ended before a release",
		note: "key token [error]"},
	{op: NotePoint, by: workers,
		means: "a reach point was passed, none of those that the checker derives; member-gone, member-came: a scheduler no longer " +
			"sees, or sees, another's (key) heartbeats",
		note: "point [key token]"},
	{op: NoteStatement,
		means: "first use of a statement shape: the harness's are what a link carried, with its worker as key; a worker may note its " +
			"own beside them",
		note: "statement [key]"},
	{op: NoteSerial, by: harnessOnly,
		means: "a worker's link (key) carried a read at SERIAL or LOCAL_SERIAL, each one; ts is when its last byte had come from the " +
			"worker",
		note: "key serial_read"},
	{op: NoteArrivals, by: workers,
		means: "how many jobs the life was to enqueue so far, and how many of them it left out: its last counts",
		note:  "arrivals"},
	{op: NoteExit, means: "a life ended in order: its last line",
		note: "[error]"},
	{op: NoteCrash, by: harnessOnly, means: "a process was killed; proc is its life",
		note: "[error]"},
	{op: NoteClock, by: harnessOnly,
		means: "a fault makes a worker's clocks so, from here to the life's next such note; proc is its life; written before a change " +
			"that makes them wrong and after one that sets them right; of the harness: no fault, but somebody has set the host's wall " +
			"clock, by so much since the harness's header",
		note: "clock"},
	{op: NoteLife, by: harnessOnly,
		means: "how a life of a process ended, as the harness saw it that started it, or that it was still there when the run was over",
		note:  "life"},
	{op: NoteAnswer, by: harnessOnly,
		means: "what a worker asked the sink (key is the resource) and was answered, as the harness read it on the worker's link; ts " +
			"is when the last byte of the answer had come from the sink; without a result it decided nothing, or no answer came",
		note: "key asked [issuer token effect_key value result=applied|duplicate|stale|conflict seen seq error]"},
	{op: NoteHit, by: harnessOnly,
		means: "a client of a program of your own stood at a point before a request about a lock (key), for which a fault waited; ts " +
			"is when it asked",
		note: "key point hit"},
	{op: NoteArm, by: harnessOnly,
		means: "a fault waited for a client to come to a point; ts is when one came (key is the lock, shard, job or resource), or when " +
			"the wait was over",
		note: "point armed [key]"},
	{op: NoteWitness, by: harnessOnly,
		means: "what the harness itself reads on the links from here on (key): statements or answers; with error, what of it cannot " +
			"be read, and why",
		note: "key [error]"},
	{op: NoteHost, by: harnessOnly, means: "how busy the machine was in the phase that ends",
		note: "machine"},
	{op: NoteUsage, by: harnessOnly,
		means: "what the life of a worker, or a node (key), takes of the machine at this instant, by the kernel's account; in runs with a threshold of growth",
		note:  "key usage"},
	{op: NotePhase, by: harnessOnly,
		means: "a phase of the run begins: warmup, before, fault, heal, recover, drain (until every job has ended), settle (processes " +
			"are told to stop), seal",
		note: "phase"},
	{op: NoteFault, by: harnessOnly, means: "a fault is injected, healed, or proven to have taken effect",
		note: "fault"},
	{op: NoteExpect, by: harnessOnly, means: "what the run must contain to count as a test; a history without it is INVALID",
		note: "expect"},
	{op: NoteLedger, by: harnessOnly, means: "one entry of the sink's ledger; key is the resource; a seal refuses lower tokens from then on, for a forget",
		note: "key ledger"},
	{op: NoteRow, by: harnessOnly, means: "one row of a shard after it was sealed; key is the job, issuer its shard or lock",
		note: "key issuer job_row"},
	{op: NoteRowsEnd, by: harnessOnly,
		means: "all rows of a shard (issuer) have been noted; without issuer: of all jobs that have a lock each",
		note:  "[issuer]"},
	{op: NoteBook, by: harnessOnly, means: "one row of the shop's tables, in a run with orders",
		note: "book"},
}

// formOf finds the form of an operation or a note.
var formOf = func() map[Op]*form {
	at := make(map[Op]*form, len(forms))
	for i := range forms {
		f := &forms[i]
		f.compiled = map[Type][]shape{}
		for _, t := range types {
			if text := f.text(t); text != "" {
				f.compiled[t] = eventObject.parse(always(t), text)
			}
		}
		at[f.op] = f
	}
	return at
}()

var types = []Type{Invoke, OK, Fail, Unknown, Note}

// always are the fields that every line of a type has.
func always(t Type) string {
	if t == Note {
		return "ts proc type op "
	}
	return "ts proc type op id "
}

// text is the form's shapes of a type, "" if it has no such lines.
func (f *form) text(t Type) string {
	switch t {
	case Invoke:
		return f.invoke
	case OK:
		return f.ok
	case Fail, Unknown:
		return f.other
	}
	return f.note
}

// check holds one event against the format: has and said are its fields, and file the life
// whose file it is in.
func check(e *Event, has, said mask, file string) error {
	f := formOf[e.Op]
	switch {
	case e.Op == "":
		return fmt.Errorf("has no op")
	case f == nil:
		return fmt.Errorf("unknown operation or note %q", e.Op)
	case e.Type == "":
		return fmt.Errorf("has no type")
	}
	shapes := f.compiled[e.Type]
	if shapes == nil {
		return fmt.Errorf("%s is never %s", e.Op, e.Type)
	}
	fit, err := eventObject.fits(shapes, has, said)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s %w", e.Op, e.Type, err)
	case e.Result != "" && !slices.Contains(fit.results, e.Result):
		return fmt.Errorf("%s %s has the result %q: it may be %s", e.Op, e.Type, e.Result, strings.Join(fit.results, ", "))
	}
	if err := f.belongs(e, file); err != nil {
		return err
	}
	return more(e)
}

// belongs says whether the line may be in the file of a life. Ids are counted by life, so
// what is in the wrong file would be joined with what it has nothing to do with; and
// nobody is believed about what only the harness can know.
func (f *form) belongs(e *Event, file string) error {
	life := Life(e.Proc)
	switch {
	case f.by == harnessOnly && file != Harness:
		return fmt.Errorf("%s in the file of %s: only the harness can know it, and says it in its own file", e.Op, file)
	case f.by == workers && file == Harness:
		return fmt.Errorf("%s in the file of the harness: it is a worker's to record", e.Op)
	case e.Op == NoteClock: // proc is whom it is about
	case e.Op == NoteCrash: // the same
		if life == Harness {
			return fmt.Errorf("%s of the harness itself: proc is the life that it is about", e.Op)
		}
	case life != file:
		return fmt.Errorf("%s of %s in the file of %s: a file holds the events of one process life", e.Op, e.Proc, file)
	}
	return nil
}

// more is what else must hold for an event by itself.
func more(e *Event) error {
	switch {
	case e.Op == OpUpdate && e.Type == Invoke && (len(e.Changes()) != 1 || e.Changes()[0].Job == ""):
		return fmt.Errorf("update has %d changes: it has one, of its job", len(e.Changes()))
	case e.Result == "stale" && e.Seen == 0:
		return fmt.Errorf("%s was refused as stale and has no seen, the token that was higher", e.Op)
	case e.Op == NotePoint && Derived(e.Point()):
		return fmt.Errorf("point %q is not for anybody to note: the checker derives it", e.Point())
	}
	for i := range e.Changes() {
		if c := &e.Changes()[i]; c.Job == "" && e.WallMS() == 0 {
			return fmt.Errorf("%s has a %s and no wall_ms", e.Op, c.Do)
		}
	}
	return nil
}

// derived are the reach points that the checker derives itself from what happened.
var derived = []string{
	"takeover", "stale-refused", "unknown-settled", "lease-lost", "resend", "duplicate", "late-answer", "forget",
	"retry", "rescue", "redrive", "hasten", "pause", "dlq", "cancel", "abandon", "sweep", "hand-over", "move", "inbox", "fire", "trigger", "missed",
	"follow", "stop", "overlap", "interrupt",
	"order-shipped", "order-rejected", "order-cancelled",
}

// Derived says whether the checker derives a reach point: nobody may note it.
func Derived(point string) bool { return slices.Contains(derived, point) }
