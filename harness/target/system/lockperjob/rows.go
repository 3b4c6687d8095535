package lockperjob

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

// Row is a job's row.
type Row struct {
	ID      job.ID
	Body    []byte // the job, encoded
	State   job.State
	Attempt int
	Run     job.RunID // the token of its last run, 0 if it had none
	Due     int64     // ms since 1970
	Ended   int64     // ms since 1970; 0 until it ended
	Error   string    // of the last attempt
}

// Pending is the row of a job that waits.
type Pending struct {
	Bucket int
	Due    int64 // ms since 1970
	ID     job.ID
}

// run is a row of the history of runs.
type run struct {
	job            job.ID
	id             job.RunID
	attempt        int
	holder         string
	started, ended int64
	err            string
}

// rows are the tables that plain statements read and write.
type rows interface {
	// due reads rows of a bucket that are due now, the earliest first.
	due(ctx context.Context, bucket int, now int64, limit int) ([]Pending, error)
	addPending(ctx context.Context, p Pending) error
	removePending(ctx context.Context, p Pending) error
	// job returns nil if there is no such row.
	job(ctx context.Context, id job.ID) (*Row, error)
	insert(ctx context.Context, r Row) error
	// save writes all of a row but its body.
	save(ctx context.Context, r Row) error
	began(ctx context.Context, r run) error
	ended(ctx context.Context, r run) error
}

// Rows are the jobs of one queue.
type Rows struct {
	db    *cassandra.DB
	queue string
}

var _ rows = (*Rows)(nil)

// NewRows returns the rows of a queue in db's keyspace.
func NewRows(db *cassandra.DB, queue string) *Rows { return &Rows{db, queue} }

const (
	selectDue     = "SELECT due_ms, id FROM lpj_pending WHERE queue = ? AND bucket = ? AND due_ms <= ? LIMIT ?"
	selectPending = "SELECT due_ms, id FROM lpj_pending WHERE queue = ? AND bucket = ?"
	insertPending = "INSERT INTO lpj_pending (queue, bucket, due_ms, id) VALUES (?, ?, ?, ?)"
	deletePending = "DELETE FROM lpj_pending WHERE queue = ? AND bucket = ? AND due_ms = ? AND id = ?"

	selectJob  = "SELECT id, body, state, attempt, fence, due_ms, ended_ms, last_error FROM lpj_jobs WHERE id = ?"
	selectJobs = "SELECT id, state, attempt, fence, due_ms, ended_ms FROM lpj_jobs"
	insertJob  = "INSERT INTO lpj_jobs (id, body, state, attempt, fence, due_ms, ended_ms, last_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	updateJob  = "UPDATE lpj_jobs SET state = ?, attempt = ?, fence = ?, due_ms = ?, ended_ms = ?, last_error = ? WHERE id = ?"

	insertRun = "INSERT INTO lpj_runs (job, fence, attempt, holder, started_ms) VALUES (?, ?, ?, ?, ?)"
	updateRun = "UPDATE lpj_runs SET ended_ms = ?, error = ? WHERE job = ? AND fence = ?"
)

func (t *Rows) due(ctx context.Context, bucket int, now int64, limit int) ([]Pending, error) {
	return t.pending(ctx, bucket, selectDue, t.queue, bucket, now, limit)
}

// Pending returns all rows of a bucket, whenever they are due.
func (t *Rows) Pending(ctx context.Context, bucket int) ([]Pending, error) {
	return t.pending(ctx, bucket, selectPending, t.queue, bucket)
}

func (t *Rows) pending(ctx context.Context, bucket int, cql string, args ...any) ([]Pending, error) {
	found, err := t.db.Query(ctx, false, cql, args...)
	if err != nil {
		return nil, err
	}
	out := make([]Pending, 0, len(found))
	for _, row := range found {
		due, ok1 := row["due_ms"].(int64)
		id, ok2 := row["id"].(string)
		if !ok1 || !ok2 {
			return nil, malformed(row)
		}
		out = append(out, Pending{Bucket: bucket, Due: due, ID: job.ID(id)})
	}
	return out, nil
}

func (t *Rows) addPending(ctx context.Context, p Pending) error {
	return t.db.Exec(ctx, insertPending, t.queue, p.Bucket, p.Due, string(p.ID))
}

func (t *Rows) removePending(ctx context.Context, p Pending) error {
	return t.db.Exec(ctx, deletePending, t.queue, p.Bucket, p.Due, string(p.ID))
}

func (t *Rows) job(ctx context.Context, id job.ID) (*Row, error) {
	found, err := t.db.Query(ctx, false, selectJob, string(id))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	r, err := rowOf(found[0])
	return &r, err
}

// Jobs returns all jobs of the keyspace, without their bodies and errors. It reads the
// whole table: for when nobody works on it.
func (t *Rows) Jobs(ctx context.Context) ([]Row, error) {
	found, err := t.db.Query(ctx, false, selectJobs)
	if err != nil {
		return nil, err
	}
	out := make([]Row, len(found))
	for i, row := range found {
		if out[i], err = rowOf(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TopToken is above every token that was given out. (The counter's row holds the first
// number that no block contains; see cassandra.IDs.)
func TopToken(ctx context.Context, db *cassandra.DB) (int64, error) {
	const cql, name = "SELECT next_id FROM ids WHERE name = ?", "id/" + tokenName
	found, err := db.QueryBy(ctx, 0, true, store.Statement{CQL: cql, Args: []any{name}, Partition: []any{name}})
	if err != nil {
		return 0, err
	}
	if len(found) == 0 {
		return 1, nil
	}
	next, ok := found[0]["next_id"].(int64)
	if !ok {
		return 0, malformed(found[0])
	}
	return next, nil
}

func rowOf(row map[string]any) (Row, error) {
	id, ok1 := row["id"].(string)
	state, ok2 := row["state"].(string)
	attempt, ok3 := row["attempt"].(int)
	fence, ok4 := row["fence"].(int64)
	due, ok5 := row["due_ms"].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return Row{}, malformed(row)
	}
	r := Row{ID: job.ID(id), State: job.State(state), Attempt: attempt, Run: job.RunID(fence), Due: due}
	r.Body, _ = row["body"].([]byte)
	r.Ended, _ = row["ended_ms"].(int64)
	r.Error, _ = row["last_error"].(string)
	return r, nil
}

func (t *Rows) insert(ctx context.Context, r Row) error {
	return t.db.Exec(ctx, insertJob, string(r.ID), r.Body, string(r.State), r.Attempt, int64(r.Run), r.Due, r.Ended, r.Error)
}

func (t *Rows) save(ctx context.Context, r Row) error {
	return t.db.Exec(ctx, updateJob, string(r.State), r.Attempt, int64(r.Run), r.Due, r.Ended, r.Error, string(r.ID))
}

func (t *Rows) began(ctx context.Context, r run) error {
	return t.db.Exec(ctx, insertRun, string(r.job), int64(r.id), r.attempt, r.holder, r.started)
}

func (t *Rows) ended(ctx context.Context, r run) error {
	return t.db.Exec(ctx, updateRun, r.ended, r.err, string(r.job), int64(r.id))
}

func malformed(row map[string]any) error {
	return &store.Error{Op: "read a job's row", Outcome: store.Unknown,
		Cause: fmt.Errorf("the row is malformed: %v: it was written by something else than this program", row)}
}

// Name is the name of this scheduler as a system under test.
const Name = "lock-per-job"

// tables of the scheduler, beside those of core/store/cassandra, of which it uses ids
// for its tokens. Pending rows come and go fast, so their tombstones are kept for a
// minute only.
var tables = []string{
	`CREATE TABLE IF NOT EXISTS lpj_jobs (
	  id         text PRIMARY KEY,
	  body       blob,    -- the job as it was enqueued
	  state      text,
	  attempt    int,     -- runs so far
	  fence      bigint,  -- token of the last run
	  due_ms     bigint,
	  ended_ms   bigint,  -- 0 until it ended
	  last_error text
	)`,
	`CREATE TABLE IF NOT EXISTS lpj_pending (
	  queue  text,
	  bucket int,
	  due_ms bigint,
	  id     text,
	  PRIMARY KEY ((queue, bucket), due_ms, id)
	) WITH gc_grace_seconds = 60`,
	`CREATE TABLE IF NOT EXISTS lpj_locks (
	  lock       text PRIMARY KEY,
	  holder     text,      -- '' = released
	  fence      bigint,
	  expires_at timestamp  -- by the holder's wall clock
	)`,
	`CREATE TABLE IF NOT EXISTS lpj_runs (
	  job        text,
	  fence      bigint,
	  attempt    int,
	  holder     text,
	  started_ms bigint,
	  ended_ms   bigint,
	  error      text,
	  PRIMARY KEY (job, fence)
	)`,
}

// CreateTables creates the scheduler's tables in db's keyspace, which must have those
// of core/store/cassandra (cassandra.Migrate). It changes nothing that exists.
func CreateTables(ctx context.Context, db *cassandra.DB) error {
	for _, cql := range tables {
		if err := db.Exec(ctx, cql); err != nil {
			return fmt.Errorf("lockperjob: %.45q: %w", cql, err)
		}
	}
	return nil
}

// LockName is the name of a job's lock, which issues the tokens of its runs.
func LockName(queue string, id job.ID) string { return "lock/" + queue + "/" + string(id) }

// Locks is the store of lock rows. A row is (holder, token, expiry); as a
// store.Version the expiry, in ms since 1970, is the Beat, and the Attempt is the
// token's decimal number, as nothing else tells one try from another. The ttl is not
// in the row; all have the one of their scheduler.
type Locks struct {
	db  *cassandra.DB
	ttl time.Duration
}

var _ store.Locks = (*Locks)(nil)

// NewLocks returns the lock rows of db's keyspace for schedulers with this ttl.
func NewLocks(db *cassandra.DB, ttl time.Duration) *Locks { return &Locks{db, ttl} }

// Version is the version of a lock row.
func Version(holder string, token int64, expires time.Time, ttl time.Duration) store.Version {
	return store.Version{Fence: token, Beat: expires.UnixMilli(), Attempt: strconv.FormatInt(token, 10), Holder: holder, TTL: ttl}
}

const (
	readLock   = "SELECT holder, fence, expires_at FROM lpj_locks WHERE lock = ?"
	insertLock = "INSERT INTO lpj_locks (lock, holder, fence, expires_at) VALUES (?, ?, ?, ?) IF NOT EXISTS"
	updateLock = "UPDATE lpj_locks SET holder = ?, fence = ?, expires_at = ? WHERE lock = ? IF holder = ? AND fence = ? AND expires_at = ?"
)

// Read implements store.Locks.
func (l *Locks) Read(ctx context.Context, name string, serial bool) (*store.Version, error) {
	rows, err := l.db.QueryBy(ctx, 0, serial, store.Statement{CQL: readLock, Args: []any{name}, Partition: []any{name}})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return l.version(rows[0])
}

// CAS implements store.Locks.
func (l *Locks) CAS(ctx context.Context, name string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	s := store.Statement{CQL: insertLock, Args: []any{name, to.Holder, to.Fence, time.UnixMilli(to.Beat)}, Partition: []any{name}}
	if from != nil {
		s.CQL = updateLock
		s.Args = []any{to.Holder, to.Fence, time.UnixMilli(to.Beat), name, from.Holder, from.Fence, time.UnixMilli(from.Beat)}
	}
	applied, rows, err := l.db.CAS(ctx, copyNo, s)
	if err != nil || applied || len(rows) == 0 {
		return store.CASResult{Applied: applied}, err
	}
	row, err := l.version(rows[0])
	return store.CASResult{Row: row}, err
}

// version reads a row. One that lacks a column was not written by this package.
func (l *Locks) version(row map[string]any) (*store.Version, error) {
	holder, ok1 := row["holder"].(string)
	token, ok2 := row["fence"].(int64)
	expires, ok3 := row["expires_at"].(time.Time)
	if !ok1 || !ok2 || !ok3 || token < 1 {
		return nil, &store.Error{Op: "read a lock row", Outcome: store.Unknown,
			Cause: fmt.Errorf("the row is malformed: %v: it was written by something else than this program", row)}
	}
	v := Version(holder, token, expires, l.ttl)
	return &v, nil
}
