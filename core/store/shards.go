package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ShardID names a partition of the shard table.
type ShardID struct {
	Queue string
	Shard int
}

func (s ShardID) String() string { return fmt.Sprintf("%s/%d", s.Queue, s.Shard) }

// Stamp is the part of a shard's header that every conditional batch names, and
// all of the header that a rejection shows. It is comparable.
type Stamp struct {
	// Fence rises by one with every takeover.
	Fence int64
	// Tick rises by one with every applied batch, takeovers included.
	Tick int64
	// Nonce is the UUID of the batch that set this stamp.
	Nonce string
}

func (s Stamp) String() string {
	return fmt.Sprintf("(fence %d, tick %d, nonce %s)", s.Fence, s.Tick, s.Nonce)
}

// Header is a shard's header row. It is inserted when the queue is created and
// never deleted.
type Header struct {
	Stamp
	// Owner names the process that ticks, for people and logs; "" means that
	// nobody does: never owned, or handed over.
	Owner string
	// Addr is where the owner takes enqueues.
	Addr string
	// TTL is how long a contender must see the stamp stand still, in whole
	// milliseconds.
	TTL time.Duration
	// Read is the owner's read mark: pending rows up to it are in its memory,
	// and no pending row is inserted at or below it.
	Read int64
	// Low marks: no live row of the kind is at or below its mark, and none will
	// be inserted there.
	LowPending, LowRunning, LowEnded int64
	// Wall is the highest reading of any owner's wall clock, in ms since 1970: how
	// far ahead the clocks were by which the rows were placed.
	Wall int64
	// Pause is the shard's last pause.
	Pause Pause
}

// Pause is a time in which a shard's owner claims no runs.
type Pause struct {
	// On: it lasts.
	On bool
	// Since is when it began, in ms since 1970 by its owner's wall clock, and Lasted for
	// how long it was, in ms; zeros: there was none.
	Since, Lasted int64
}

// Kind is a kind of row in a shard's partition.
type Kind int8

// The kinds. The header, kind 0, is not a Row.
const (
	KindPending Kind = 1 // At: scan order, not before the due time; the job's body
	KindRunning Kind = 2 // At: the run id, or a later number under the same fence; the job's body
	KindJob     Kind = 3 // At: 0, so that it is found by the id alone; the job's state
	KindEnded   Kind = 4 // At: when its jobs ended; the index by which job rows are swept, see Row.Indexed
	KindDLQ     Kind = 5 // At: when the job ended; the job's body
	// KindSchedule has two rows for each schedule, whose ID is the schedule's: the
	// definition with At 0, the state with At 1, both in Body.
	KindSchedule Kind = 6
)

// Key is a row's place in its partition.
type Key struct {
	Kind Kind
	At   int64
	ID   string // the job's id
}

func (k Key) String() string { return fmt.Sprintf("%d/%d/%s", k.Kind, k.At, k.ID) }

// Less is the order of rows in a partition.
func (k Key) Less(l Key) bool {
	switch {
	case k.Kind != l.Kind:
		return k.Kind < l.Kind
	case k.At != l.At:
		return k.At < l.At
	}
	return k.ID < l.ID
}

// Row is a row of a shard's partition. Not every kind uses every field.
type Row struct {
	Key
	State   string // KindJob
	Attempt int    // claims so far, since the last redrive
	Run     int64  // id of the last run
	Due     int64  // ms since 1970, by the wall clock of the owner that wrote it: when a pending row fires
	Wait    int64  // KindPending: for how long the job had to wait when the row was written, in ms; 0: not at all, but for its own time
	Place   int64  // KindJob: At of the job's other row, by which it is found; KindPending and KindRunning: how many of the claims before do not count as attempts
	Note    string // reason of the last failure
	Body    []byte // the job; of KindJob its job.Job.Request; of KindEnded see Indexed
}

// MaxIndexed is how many jobs a row of KindEnded names at most.
const MaxIndexed = 7

// Indexed are the ids of the jobs that a row of KindEnded names, which one batch has ended: its own ID,
// and those in its Body. Its Run is the last of theirs.
func (r Row) Indexed() []string { return append([]string{r.ID}, strings.Fields(string(r.Body))...) }

// Each is the row once for each job that it names, with that job's id: several times of KindEnded (Indexed),
// else once.
func (r Row) Each() (out []Row) {
	if r.Kind != KindEnded {
		return []Row{r}
	}
	for _, id := range r.Indexed() {
		r.ID = id
		out = append(out, r)
	}
	return out
}

// OpKind is what an Op does.
type OpKind int8

// The operations of a batch.
const (
	// Put writes the whole row, whether it exists or not.
	Put OpKind = iota + 1
	// PutNew writes the row and makes the whole batch conditional on its absence.
	PutNew
	// Delete removes the row at Row.Key.
	Delete
	// DeleteUpTo removes all rows of Row.Kind at or below Row.At.
	DeleteUpTo
	// DeleteBetween removes the rows of Row.Kind at Row.At with ids after Row.ID and before
	// Before.
	DeleteBetween
	// DeleteWithin removes all rows of Row.Kind above Row.At and below Below.
	DeleteWithin
)

// Op is one change of a batch. A batch must not touch one key twice: a deletion
// and an insertion of one key in one batch carry the same timestamp, and the
// deletion wins.
type Op struct {
	Kind   OpKind
	Row    Row
	Before string // DeleteBetween
	Below  int64  // DeleteWithin
}

// IsRange reports whether the operation is a range deletion: its Row is no row.
func (o Op) IsRange() bool {
	return o.Kind == DeleteUpTo || o.Kind == DeleteBetween || o.Kind == DeleteWithin
}

// Takes reports whether the operation is a range deletion that removes what is at the key.
func (o Op) Takes(k Key) bool {
	switch o.Kind {
	case DeleteUpTo:
		return k.Kind == o.Row.Kind && k.At <= o.Row.At
	case DeleteBetween:
		return k.Kind == o.Row.Kind && k.At == o.Row.At && k.ID > o.Row.ID && k.ID < o.Before
	case DeleteWithin:
		return k.Kind == o.Row.Kind && k.At > o.Row.At && k.At < o.Below
	}
	return false
}

// Batch is a conditional batch on one shard: if the header's stamp is From, and
// no PutNew row exists, the header becomes To and all Ops happen, in one atomic
// step; else nothing does.
type Batch struct {
	From Stamp
	To   Header
	Ops  []Op
}

// MaxOps bounds the operations of a batch.
const MaxOps = 128

// MaxBytes bounds the rows of one batch, and one inbox row, as Bytes measures them:
// a store refuses what is larger with certainty. Cassandra's replicas take mutations
// of up to half a commit log segment (16 MiB by default); they refuse a larger one
// too, but the coordinator of a conditional batch then answers by a write failure,
// whose outcome is unknown: the batch would be sent again and again. The rest is room
// to spare, as replicas store a proposal once more in their Paxos tables.
const MaxBytes = 1 << 20

// RowBytes is about what the key, the numbers and the names of a row take.
const RowBytes = 200

// Bytes is about what the operation takes in its batch.
func (o Op) Bytes() int {
	return RowBytes + len(o.Row.ID) + len(o.Before) + len(o.Row.State) + len(o.Row.Note) + len(o.Row.Body)
}

// Bytes is what the operations of the batch take.
func (b Batch) Bytes() int {
	size := 0
	for _, op := range b.Ops {
		size += op.Bytes()
	}
	return size
}

// CommitResult is the answer to a Batch.
type CommitResult struct {
	Applied bool
	// Stamp is the header's stamp when Applied is false; nil if there is no header.
	Stamp *Stamp
	// Exists holds the keys of PutNew rows that exist, when Applied is false.
	Exists []Key
}

// Range is a bounded scan: rows of Kind after the key (After.At, After.ID) and
// with At <= UpTo, in order, at most Limit of them.
type Range struct {
	Kind    Kind
	AfterAt int64
	AfterID string
	UpTo    int64
	Limit   int
}

// AboveAll is above any job's id.
const AboveAll = "\x7f"

// InboxRow is a job that was enqueued without a reachable owner.
type InboxRow struct {
	ID string
	// Nonce is the UUID of the insert: a deletion names it, so that it cannot
	// hit a later insert of the same job.
	Nonce string
	Body  []byte
}

// Bytes is about what the row takes.
func (r InboxRow) Bytes() int { return RowBytes + len(r.ID) + len(r.Nonce) + len(r.Body) }

// ErrNoQueue: a queue does not exist.
var ErrNoQueue = errors.New("there is no such queue")

// Queue is a queue and its number of shards.
type Queue struct {
	Name string
	// First is how many it had when it was created, which never changes, and Shards how many it
	// has now.
	First, Shards int
}

// QueueNamed is the queue of a list that has a name; ok: there is one.
func QueueNamed(all []Queue, name string) (q Queue, ok bool) {
	if at := slices.IndexFunc(all, func(q Queue) bool { return q.Name == name }); at >= 0 {
		return all[at], true
	}
	return Queue{}, false
}

// Shards is the store of shard partitions and their inboxes. Rows are changed
// by conditional requests only. Implementations are safe for concurrent use.
// Every error is classified by OutcomeOf. Requests end when their context does.
// Copies of one request are identical but for copyNo: 0 is the first, later
// ones go to another node if there is one.
type Shards interface {
	// EnsureQueue stores the queue's number of shards unless it has one, and
	// the headers of its shards, (0, 0) with no owner, unless they exist. It
	// returns what is stored. It may be repeated.
	EnsureQueue(ctx context.Context, queue string, shards int) (Queue, error)
	// RaiseQueue gives a queue that exists more shards, once their headers exist. If it has as
	// many, or more, nothing is changed. It returns what is stored then. It may be repeated.
	RaiseQueue(ctx context.Context, queue string, shards int) (Queue, error)
	// Queues returns all queues, by name. It shows every queue, and every raise, that was
	// acknowledged before it began.
	Queues(ctx context.Context) ([]Queue, error)
	// Look returns the header, or nil if it does not exist. A serial look is
	// linearizable with Commit; the other kind may be late.
	Look(ctx context.Context, s ShardID, serial bool) (*Header, error)
	// Commit sends one copy of a batch. A request that the store will never
	// take, such as a row that is too large, is a Fail.
	Commit(ctx context.Context, s ShardID, b Batch, copyNo int) (CommitResult, error)
	// Scan returns rows. It shows everything that was committed before the
	// last applied Commit whose answer its caller has.
	Scan(ctx context.Context, s ShardID, r Range) ([]Row, error)
	// Count returns how many rows Scan would, at most Limit.
	Count(ctx context.Context, s ShardID, r Range) (int, error)
	// Row returns one row, or nil; as current as Scan.
	Row(ctx context.Context, s ShardID, k Key) (*Row, error)

	// InboxPut inserts the row unless one with its id exists; then existing is
	// that row's nonce.
	InboxPut(ctx context.Context, s ShardID, r InboxRow, copyNo int) (applied bool, existing string, err error)
	// InboxDelete removes the row if its nonce is the named one. gone reports
	// that no such row is there now, whether this call removed it or another.
	InboxDelete(ctx context.Context, s ShardID, id, nonce string, copyNo int) (gone bool, err error)
	// InboxRow returns the row with an id, or nil; as current as InboxScan.
	InboxRow(ctx context.Context, s ShardID, id string) (*InboxRow, error)
	// InboxScan returns rows with ids after one and up to another, in order. It shows
	// every insert that was acknowledged before it began.
	InboxScan(ctx context.Context, s ShardID, after, upTo string, limit int) ([]InboxRow, error)
}
