package history

// Details are the fields that few events have: those of jobs, and those of notes about the
// run. An event has them behind one pointer, nil if none is set, since a history is held in
// memory as a whole and most of its events are of locks. In a file they are fields of the
// event like all others. An event's methods of the same names read them and never panic.
type Details struct {
	// Shard operations. The key of a shard is the name of it as an issuer of tokens.

	// what a batch, or an update, does: one entry a job, or two of one that it enqueues and claims
	Changes []Change `json:"changes,omitempty"`
	// how long a contender must see a shard's stamp stand still; of a lock call the ttl of the
	// lease that it asks for
	TTLMS int64 `json:"ttl_ms,omitempty" is:"span"`

	// Lock calls.

	// after how long the caller gives up
	LimitMS int64 `json:"limit_ms,omitempty" is:"span"`
	// it does not wait for a lock that another holds
	Try bool `json:"try,omitempty"`
	// which lock client of its process is asked, or closed: 1, 2, 3 …; absent: there is one
	Session int `json:"session,omitempty" is:"span"`

	// Jobs. A job's start and finish have Issuer, the shard (or lock) whose token they show.

	// the job that is enqueued
	Job *Job `json:"job,omitempty"`
	// what is asked for
	Schedule *Schedule `json:"schedule,omitempty"`
	// what is asked for
	Command *Command `json:"command,omitempty"`
	// of a command that was refused the state that its job was said to be in; unknown: there
	// is no such job
	Told string `json:"told,omitempty" of:"pending running completed dlq cancelled abandoned unknown"`
	// of a command on many jobs the answer for each
	Answers []Answered `json:"answers,omitempty"`
	// how many there were
	Arrivals *Arrivals `json:"arrivals,omitempty"`
	// the run's number among the job's claims
	Attempt int `json:"attempt,omitempty" is:"span"`
	// when the run was due, ms since 1970
	DueMS int64 `json:"due_ms,omitempty" is:"date"`
	// what the worker's own wall clock showed: of a run at decided_at, of a batch when it was
	// planned
	WallMS int64 `json:"wall_ms,omitempty" is:"date"`
	// the row
	JobRow *JobRow `json:"job_row,omitempty"`
	// the row
	Book *Book `json:"book,omitempty"`

	// Notes about the run.

	// its name
	Phase string `json:"phase,omitempty" is:"name"`
	// its name
	Point string `json:"point,omitempty" is:"name"`
	// what happened to which fault
	Fault *Fault `json:"fault,omitempty"`
	// the entry
	Ledger *LedgerEntry `json:"ledger,omitempty"`
	// what was asked
	Asked *Asked `json:"asked,omitempty"`
	// who stood there
	Hit *Hit `json:"hit,omitempty"`
	// who waited for whom
	Armed *Armed `json:"armed,omitempty"`
	// what is expected
	Expect *Expect `json:"expect,omitempty"`
	// the shape
	Statement *Statement `json:"statement,omitempty"`
	// the read
	SerialRead *SerialRead `json:"serial_read,omitempty"`
	// the clocks' state
	Clock *Clock `json:"clock,omitempty"`
	// how the process ended
	Life *ProcessLife `json:"life,omitempty"`
	// how busy it was
	Host *Host `json:"machine,omitempty"`
	// what it takes
	Usage *Usage `json:"usage,omitempty"`
}

// Those of the event; zero if it has none.
func (e *Event) Changes() []Change       { return e.details().Changes }
func (e *Event) TTLMS() int64            { return e.details().TTLMS }
func (e *Event) LimitMS() int64          { return e.details().LimitMS }
func (e *Event) Try() bool               { return e.details().Try }
func (e *Event) Session() int            { return e.details().Session }
func (e *Event) Job() *Job               { return e.details().Job }
func (e *Event) Schedule() *Schedule     { return e.details().Schedule }
func (e *Event) Attempt() int            { return e.details().Attempt }
func (e *Event) DueMS() int64            { return e.details().DueMS }
func (e *Event) WallMS() int64           { return e.details().WallMS }
func (e *Event) JobRow() *JobRow         { return e.details().JobRow }
func (e *Event) Book() *Book             { return e.details().Book }
func (e *Event) Phase() string           { return e.details().Phase }
func (e *Event) Point() string           { return e.details().Point }
func (e *Event) Fault() *Fault           { return e.details().Fault }
func (e *Event) Ledger() *LedgerEntry    { return e.details().Ledger }
func (e *Event) Asked() *Asked           { return e.details().Asked }
func (e *Event) Hit() *Hit               { return e.details().Hit }
func (e *Event) Armed() *Armed           { return e.details().Armed }
func (e *Event) Expect() *Expect         { return e.details().Expect }
func (e *Event) Statement() *Statement   { return e.details().Statement }
func (e *Event) Clock() *Clock           { return e.details().Clock }
func (e *Event) Life() *ProcessLife      { return e.details().Life }
func (e *Event) Host() *Host             { return e.details().Host }
func (e *Event) Usage() *Usage           { return e.details().Usage }
func (e *Event) SerialRead() *SerialRead { return e.details().SerialRead }
func (e *Event) Command() *Command       { return e.details().Command }
func (e *Event) Arrivals() *Arrivals     { return e.details().Arrivals }
func (e *Event) Told() string            { return e.details().Told }
func (e *Event) Answers() []Answered     { return e.details().Answers }

// OwnDetails are the event's details to be set: its own, and no longer those of an event
// that it is a copy of.
func (e *Event) OwnDetails() *Details {
	d := *e.details()
	e.Details = &d
	return e.Details
}

var noDetails Details

func (e *Event) details() *Details {
	if e.Details == nil {
		return &noDetails
	}
	return e.Details
}
