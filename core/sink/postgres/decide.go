package postgressink

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// call is one Raise or Accept, or what else changes rows.
type call struct {
	sink.Call
	what    string // names what is no Raise or Accept
	attempt uuid.UUID

	uncertain int // copies whose COMMIT was sent and not answered
	slow      int // tries in which the caller's function was cut off by RequestTimeout
}

func newCall(of sink.Call) (*call, error) {
	c := &call{Call: of, attempt: uuid.New()}
	if err := of.Check(); err != nil {
		return nil, c.refused(err)
	}
	return c, nil
}

// answer is the call's end by a decision that was committed, or changes nothing.
func (c *call) answer(d sink.Decision) (sink.Answer, error) {
	switch {
	case d.Err != nil:
		return sink.Answer{}, c.refused(d.Err)
	case c.uncertain > 0:
		return d.Answer, sink.Unsettled(c.op(), d.Answer)
	}
	return d.Answer, nil
}

// refused is a call that was not carried out and never will be.
func (c *call) refused(cause error) error {
	return &store.Error{Op: c.op(), Outcome: store.Fail, Cause: cause}
}

// ended is the error of a call whose context ended before it was answered.
func (c *call) ended(ctx context.Context, last error) error {
	return sink.Ended(ctx, c.op(), last, c.uncertain)
}

func (c *call) op() string {
	if c.what != "" {
		return c.what
	}
	return c.String()
}

// SQLSTATEs, and classes of them (their first two characters).
const (
	classConnection   = "08" // connection exceptions
	classData         = "22" // a value does not fit
	classConstraint   = "23" // integrity constraints
	classRollback     = "40" // serialization failure, deadlock
	classResources    = "53" // too many connections, out of memory, disk full
	classIntervention = "57" // shutdown, starting up, cancelled
	classSystem       = "58" // I/O errors
	classRaised       = "P0" // raised by PL/pgSQL
	classInternal     = "XX"

	unknownCompletion = "40003" // the server itself does not know
	lockNotAvailable  = "55P03" // lock_timeout
	idleTooLong       = "25P03" // idle_in_transaction_session_timeout
	statementTooLong  = "57014" // statement_timeout, or cancelled by an administrator
	readOnly          = "25006" // a standby: another connection may find the primary
)

// commitOutcome says what is known after a COMMIT that ended in an error. Unknown is
// the default; what has certainly not been committed is an allow-list: the request
// was not sent, or the server says that it rolled back for a reason that it finds
// before it commits.
func commitOutcome(err error) store.Outcome {
	if err == nil {
		return store.OK
	}
	if errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err) {
		return store.Fail
	}
	if code, ok := sqlstate(err); ok && code != unknownCompletion {
		switch code[:2] {
		case classData, classConstraint, classRollback, classRaised:
			return store.Fail
		}
	}
	return store.Unknown
}

// passing tells whether what failed before the COMMIT may succeed if it is tried
// again: a lost connection, a server that restarts, a lock that another holds. What
// the server refuses for what it is (no such table, no such right, a violated
// constraint) is refused again.
func passing(err error) bool {
	code, ok := sqlstate(err)
	if !ok {
		var scan pgx.ScanArgError // the tables are not what they were
		// The other: the caller's function kept an error of the server to itself.
		return !errors.As(err, &scan) && !errors.Is(err, pgx.ErrTxCommitRollback)
	}
	switch code {
	case lockNotAvailable, idleTooLong, readOnly:
		return true
	}
	switch code[:2] {
	case classConnection, classRollback, classResources, classIntervention, classSystem, classInternal:
		return true
	}
	return false
}

// outOfTime tells whether the server ended a statement, or the session, as it took longer
// than the limits of the transaction.
func outOfTime(err error) bool {
	code, ok := sqlstate(err)
	return ok && (code == statementTooLong || code == idleTooLong)
}

// sqlstate returns the code of an error that the server sent.
func sqlstate(err error) (code string, ok bool) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return "", false
	}
	return pg.Code, true
}

const (
	// The limits of this transaction: a lock that is waited for, a statement, and
	// silence in between, in ms. A commit must not be told before it is on disk.
	setLimits = `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $1, true),
		set_config('idle_in_transaction_session_timeout', $1, true),
		set_config('synchronous_commit', ` + commitSynchronously + `, true)`
	commitSynchronously = `CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END`
	insertHeader        = `INSERT INTO fencepost_sink (resource, issuer, highest, last_seq, value, payload) VALUES ($1, $2, 0, 0, 0, '') ON CONFLICT (resource) DO NOTHING`
	lockHeader          = `SELECT issuer, highest, last_seq FROM fencepost_sink WHERE resource = $1 FOR UPDATE`
	// Sealed if the ledger ends with a seal.
	selectRest = `SELECT coalesce(l.kind = 'seal', false), coalesce(f.highest, 0), k.token, k.seq, k.fingerprint, k.attempt FROM fencepost_sink s
		LEFT JOIN fencepost_sink f ON f.resource = $3
		LEFT JOIN fencepost_sink_ledger l ON l.resource = s.resource AND l.seq = s.last_seq
		LEFT JOIN fencepost_sink_keys k ON k.resource = s.resource AND k.key = $2 WHERE s.resource = $1`
	raiseHeader  = `UPDATE fencepost_sink SET highest = $2, last_seq = $3 WHERE resource = $1`
	writeHeader  = `UPDATE fencepost_sink SET highest = $2, last_seq = $3, value = $4, payload = $5 WHERE resource = $1`
	insertKey    = `INSERT INTO fencepost_sink_keys (resource, key, token, seq, fingerprint, attempt, at) VALUES ($1, $2, $3, $4, $5, $6, now())`
	insertLedger = `INSERT INTO fencepost_sink_ledger (resource, seq, kind, issuer, token, key, value, at) VALUES ($1, $2, $3, $4, $5, $6, $7, now())`
)

// look takes the header's lock and reads what is then committed: of a later
// statement, since the lock's own sees the key as it was before the wait.
func (c *call) look(ctx context.Context, tx pgx.Tx, limit time.Duration) (h sink.Header, k *sink.Accepted, err error) {
	for {
		b := &pgx.Batch{}
		b.Queue(setLimits, strconv.FormatInt(max(limit.Milliseconds(), 1), 10))
		b.Queue(lockHeader, c.Resource).QueryRow(func(row pgx.Row) error {
			return ignoreNone(row.Scan(&h.Issuer, &h.Highest, &h.Seq))
		})
		key := "" // of no row
		if c.Effect != nil {
			key = c.Effect.Key
		}
		b.Queue(selectRest, c.Resource, key, sink.FloorOf(c.Issuer)).QueryRow(func(row pgx.Row) error {
			var floor int64
			var token, seq *int64
			var fingerprint []byte
			var attempt *uuid.UUID
			err := row.Scan(&h.Sealed, &floor, &token, &seq, &fingerprint, &attempt)
			if h.Issuer != "" && h.Seq == 0 { // its row is new
				fresh := sink.Fresh(floor)
				h.Highest, h.Sealed = fresh.Highest, fresh.Sealed
			}
			if err != nil || token == nil {
				return ignoreNone(err)
			}
			k = &sink.Accepted{Token: *token, Seq: *seq, Fingerprint: fingerprint, Own: *attempt == c.attempt}
			return nil
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return h, nil, err
		}
		if h.Issuer != "" || c.what != "" {
			return h, k, nil
		}
		// Waits for another that is about to make it.
		if _, err := tx.Exec(ctx, insertHeader, c.Resource, c.Issuer); err != nil {
			return h, nil, err
		}
	}
}

func ignoreNone(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// acceptAll writes an acceptance in one statement. If the call is none, it writes less, and that is rolled
// back. It locks the header, or makes it, and then the unique index says whether the key is new. The floor of
// a header that it makes is read in a later statement: a Retire that removed the resource has committed its floor
// by then.
const (
	acceptAll = `WITH h AS (INSERT INTO fencepost_sink AS s (resource, issuer, highest, last_seq, value, payload) VALUES ($1, $2, $3, 1, $4, $5)
		ON CONFLICT (resource) DO UPDATE SET highest = excluded.highest, last_seq = s.last_seq + 1, value = excluded.value, payload = excluded.payload
		WHERE s.issuer = excluded.issuer AND s.highest <= excluded.highest RETURNING last_seq),
		k AS (INSERT INTO fencepost_sink_keys (resource, key, token, seq, fingerprint, attempt, at) SELECT $1, $7, $3, last_seq, $8, $9, now() FROM h
		ON CONFLICT DO NOTHING RETURNING seq)
		INSERT INTO fencepost_sink_ledger (resource, seq, kind, issuer, token, key, value, at) SELECT $1, seq, $6, $2, $3, $7, $4, now() FROM k RETURNING seq`
	readFloor = `SELECT highest FROM fencepost_sink WHERE resource = $1`
)

// errInSteps: the call was not accepted at once. What it wrote is to be rolled back.
var errInSteps = errors.New("sink: to be decided in steps")

// atOnce accepts an effect if its header has the same issuer and no higher token, and its key is new: as
// [sink.Decide] does. For anything else it returns errInSteps.
func (c *call) atOnce(ctx context.Context, tx pgx.Tx, limit time.Duration) (d sink.Decision, err error) {
	e, seq, floor := c.Effect, int64(0), int64(0)
	b := &pgx.Batch{}
	b.Queue(setLimits, strconv.FormatInt(max(limit.Milliseconds(), 1), 10))
	b.Queue(acceptAll, c.Resource, c.Issuer, c.Token, e.Value, append([]byte{}, e.Payload...), sink.KindAccept, e.Key, e.Fingerprint(), c.attempt).
		QueryRow(func(row pgx.Row) error { return ignoreNone(row.Scan(&seq)) })
	b.Queue(readFloor, sink.FloorOf(c.Issuer)).QueryRow(func(row pgx.Row) error { return ignoreNone(row.Scan(&floor)) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return d, err
	}
	h := sink.Header{Issuer: c.Issuer, Highest: c.Token, Seq: seq - 1}
	if seq == 1 {
		h = sink.Fresh(floor)
	}
	if d = sink.Decide(h, nil, c.Call); seq == 0 || d.Kind != sink.KindAccept {
		return d, errInSteps
	}
	return d, nil
}

// write carries a decision out.
func (c *call) write(ctx context.Context, tx pgx.Tx, d sink.Decision) error {
	b := &pgx.Batch{}
	h := d.Header
	if e := c.Effect; d.Kind == sink.KindAccept {
		payload := append([]byte{}, e.Payload...)
		b.Queue(writeHeader, c.Resource, h.Highest, h.Seq, e.Value, payload)
		b.Queue(insertKey, c.Resource, e.Key, c.Token, h.Seq, e.Fingerprint(), c.attempt)
		b.Queue(insertLedger, c.Resource, h.Seq, d.Kind, h.Issuer, h.Highest, e.Key, e.Value)
	} else {
		b.Queue(raiseHeader, c.Resource, h.Highest, h.Seq)
		b.Queue(insertLedger, c.Resource, h.Seq, d.Kind, h.Issuer, h.Highest, "", int64(0))
	}
	return tx.SendBatch(ctx, b).Close()
}
