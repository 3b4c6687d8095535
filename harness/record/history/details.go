package history

// Details are the fields that few events have: those of jobs, and those of notes about the
// run. An event has them behind one pointer, nil if none is set, since a history is held in
// memory as a whole and most of its events are of locks. In a file they are fields of the
// event like all others. An event's methods of the same names read them and never panic.
type Details struct {
	// Shard operations. The key of a shard is the name of it as an issuer of tokens.
	Changes []Change `json:"changes,omitempty"` // invoke: what the batch (or update) does to jobs
	TTLMS   int64    `json:"ttl_ms,omitempty"`  // take: how long a contender must see the stamp stand still

	// Jobs. A job's start and finish have Issuer, the shard (or lock) whose token they show.
	Job      *Job      `json:"job,omitempty"`      // enqueue invoke
	Schedule *Schedule `json:"schedule,omitempty"` // schedule invoke
	Attempt  int       `json:"attempt,omitempty"`  // start: of the job's claims, from 1
	DueMS    int64     `json:"due_ms,omitempty"`   // start: when the job was due, ms since 1970
	WallMS   int64     `json:"wall_ms,omitempty"`  // start: the worker's own wall clock at DecidedAt; tick invoke: when it was planned
	JobRow   *JobRow   `json:"job_row,omitempty"`  // row
	Book     *Book     `json:"book,omitempty"`     // book

	// Notes about the run.
	Phase     string       `json:"phase,omitempty"`
	Point     string       `json:"point,omitempty"`
	Fault     *Fault       `json:"fault,omitempty"`
	Ledger    *LedgerEntry `json:"ledger,omitempty"`
	Asked     *Asked       `json:"asked,omitempty"` // answer
	Hit       *Hit         `json:"hit,omitempty"`   // hit
	Expect    *Expect      `json:"expect,omitempty"`
	Statement *Statement   `json:"statement,omitempty"`
	Clock     *Clock       `json:"clock,omitempty"`
	Life      *ProcessLife `json:"life,omitempty"`
	Host      *Host        `json:"machine,omitempty"`
}

// Those of the event; zero if it has none.
func (e *Event) Changes() []Change     { return e.details().Changes }
func (e *Event) TTLMS() int64          { return e.details().TTLMS }
func (e *Event) Job() *Job             { return e.details().Job }
func (e *Event) Schedule() *Schedule   { return e.details().Schedule }
func (e *Event) Attempt() int          { return e.details().Attempt }
func (e *Event) DueMS() int64          { return e.details().DueMS }
func (e *Event) WallMS() int64         { return e.details().WallMS }
func (e *Event) JobRow() *JobRow       { return e.details().JobRow }
func (e *Event) Book() *Book           { return e.details().Book }
func (e *Event) Phase() string         { return e.details().Phase }
func (e *Event) Point() string         { return e.details().Point }
func (e *Event) Fault() *Fault         { return e.details().Fault }
func (e *Event) Ledger() *LedgerEntry  { return e.details().Ledger }
func (e *Event) Asked() *Asked         { return e.details().Asked }
func (e *Event) Hit() *Hit             { return e.details().Hit }
func (e *Event) Expect() *Expect       { return e.details().Expect }
func (e *Event) Statement() *Statement { return e.details().Statement }
func (e *Event) Clock() *Clock         { return e.details().Clock }
func (e *Event) Life() *ProcessLife    { return e.details().Life }
func (e *Event) Host() *Host           { return e.details().Host }

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

// detail is for the reader to fill in.
func (e *Event) detail() *Details {
	if e.Details == nil {
		e.Details = new(Details)
	}
	return e.Details
}
