package postgressink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// Each read is one statement, so of one instant.
const (
	// replicated is a row whose transaction ends no sooner than the synchronous standbys have
	// what it has read: rows may be committed here and on no standby, if the wait of the one
	// that wrote them was cancelled. A message in the log makes its COMMIT wait behind theirs,
	// without a lock.
	replicated = `(SELECT pg_is_in_recovery() AS standby, set_config('synchronous_commit', ` + commitSynchronously + `, true),
			CASE WHEN current_setting('synchronous_standby_names') <> '' AND NOT pg_is_in_recovery()
			THEN pg_logical_emit_message(true, 'fencepost', '') END) origin`
	selectState = `SELECT origin.standby, s.issuer, s.highest, s.last_seq, s.value, s.payload, k.key, k.token
		FROM ` + replicated + ` LEFT JOIN fencepost_sink s ON s.resource = $1
		LEFT JOIN fencepost_sink_keys k ON k.resource = s.resource AND k.key = ANY ($2)`
	selectLedger = `SELECT origin.standby, s.last_seq, l.seq, l.kind, l.issuer, l.token, l.key, l.value
		FROM ` + replicated + ` LEFT JOIN fencepost_sink s ON s.resource = $1
		LEFT JOIN LATERAL (SELECT * FROM fencepost_sink_ledger WHERE resource = s.resource AND seq > $2 ORDER BY seq LIMIT $3) l ON true ORDER BY l.seq`
)

// origin is the first column of a read: a standby may be behind.
type origin struct{ Standby bool }

func (o origin) fromStandby() bool { return o.Standby }

// stateRow is a row of selectState: nil where there is nothing.
type stateRow struct {
	origin
	Issuer           *string
	Seen, Seq, Value *int64
	Payload          []byte
	Key              *string
	Token            *int64
}

type ledgerRow struct {
	origin
	Last, Seq    *int64
	Kind, Issuer *string
	Token        *int64
	Key          *string
	Value        *int64
}

var errStandby = errors.New("a standby answered, which may be behind: add target_session_attrs=read-write to the connection string")

// read queries until it is answered or ctx ends.
func read[R interface{ fromStandby() bool }](ctx context.Context, s *Sink, op, query string, args ...any) ([]R, error) {
	var pause sink.Pause
	var last error
	for n := 0; ; n++ {
		if ctx.Err() != nil {
			return nil, &store.Error{Op: op, Outcome: store.Fail, Cause: errors.Join(context.Cause(ctx), last)}
		}
		// A long ledger takes its time: a read that timed out gets more.
		tryCtx, cancel := context.WithTimeout(ctx, s.timeout<<min(n, 4))
		rows, err := readOnce[R](tryCtx, s, query, args)
		cancel()
		if err == nil {
			return rows, nil
		}
		if !passing(err) {
			return nil, &store.Error{Op: op, Outcome: store.Fail, Cause: err}
		}
		last = err
		pause.Wait(ctx)
	}
}

func readOnce[R interface{ fromStandby() bool }](ctx context.Context, s *Sink, query string, args []any) (rows []R, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		leave(ctx, conn.Conn(), err)
		conn.Release()
	}()
	found, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	rows, err = pgx.CollectRows(found, pgx.RowToStructByPos[R])
	if err == nil && len(rows) > 0 && rows[0].fromStandby() {
		err = errStandby
	}
	return rows, err
}

// Read implements sink.Sink.
func (s *Sink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	rows, err := read[stateRow](ctx, s, "read "+resource, selectState, resource, keys)
	if err != nil {
		return sink.State{}, err
	}
	st := sink.State{Applied: map[string]int64{}}
	for _, r := range rows {
		if r.Issuer == nil { // never used
			break
		}
		st.Issuer, st.Seen, st.Seq, st.Value, st.Payload = *r.Issuer, *r.Seen, *r.Seq, *r.Value, r.Payload
		if r.Key != nil {
			st.Applied[*r.Key] = *r.Token
		}
	}
	return st, nil
}

// Ledger implements sink.Sink.
func (s *Sink) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) {
	return s.LedgerAfter(ctx, resource, 0, math.MaxInt)
}

// LedgerAfter implements sink.Pager.
func (s *Sink) LedgerAfter(ctx context.Context, resource string, after int64, n int) ([]sink.Entry, error) {
	op := "read ledger of " + resource
	rows, err := read[ledgerRow](ctx, s, op, selectLedger, resource, after, n)
	if err != nil || len(rows) == 0 || rows[0].Last == nil {
		return nil, err
	}
	out := make([]sink.Entry, 0, len(rows))
	for _, r := range rows {
		next := after + int64(len(out)) + 1
		switch {
		case r.Seq == nil: // there are none
			continue
		case len(out) == 0: // those before it were forgotten
			after = *r.Seq - 1
		case *r.Seq != next:
			return nil, incomplete(op, "entry %d is missing", next)
		}
		out = append(out, sink.Entry{Seq: *r.Seq, Kind: *r.Kind, Issuer: *r.Issuer, Token: *r.Token, Key: *r.Key, Value: *r.Value})
	}
	if last := after + int64(len(out)); len(out) < n && last < *rows[0].Last {
		return nil, incomplete(op, "%d entries, but the header counts %d", last, *rows[0].Last)
	}
	return out, nil
}

func incomplete(op, format string, args ...any) error {
	cause := fmt.Errorf(format+": the tables were changed by something else than this program", args...)
	return &store.Error{Op: op, Outcome: store.Unknown, Cause: cause}
}

const (
	countKeys  = `SELECT count(*) FROM fencepost_sink_keys WHERE resource = $1 AND at < $2`
	deleteKeys = `DELETE FROM fencepost_sink_keys WHERE resource = $1 AND at < $2`
	trimLedger = `DELETE FROM fencepost_sink_ledger WHERE resource = $1 AND seq < (SELECT least(
		(SELECT last_seq FROM fencepost_sink WHERE resource = $1), (SELECT min(seq) FROM fencepost_sink_ledger WHERE resource = $1 AND at >= $2)))`
)

// Forget implements sink.Sink: in one transaction. The instant is compared with the
// server's clock at the acceptance.
func (s *Sink) Forget(ctx context.Context, resource string, before time.Time) (int, error) {
	c := &call{Call: sink.Call{Resource: resource}, what: "forget keys of " + resource}
	dropped := 0
	err := s.try(ctx, c, func(ctx context.Context, tx pgx.Tx) (change bool, err error) {
		h, _, err := c.look(ctx, tx, s.timeout)
		if err != nil {
			return false, err
		}
		var n int
		if err := tx.QueryRow(ctx, countKeys, resource, before).Scan(&n); err != nil {
			return false, err
		}
		if n > 0 || c.uncertain == 0 { // else the COMMIT without an answer has dropped them
			dropped = n
		}
		if d := sink.Seal(h); n > 0 && d.Kind != "" {
			if err := c.write(ctx, tx, d); err != nil {
				return false, err
			}
		}
		if _, err := tx.Exec(ctx, deleteKeys, resource, before); err != nil {
			return false, err
		}
		trimmed, err := tx.Exec(ctx, trimLedger, resource, before)
		return n > 0 || trimmed.RowsAffected() > 0, err
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}

// A floor is a header row of a name of its own, without keys and ledger.
const (
	raiseFloor = `INSERT INTO fencepost_sink AS s (resource, issuer, highest, last_seq, value, payload) VALUES ($1, $2, $3, 0, 0, '')
		ON CONFLICT (resource) DO UPDATE SET highest = greatest(s.highest, excluded.highest)`
	lockBelow    = `SELECT resource FROM fencepost_sink WHERE resource = ANY ($1) AND issuer = $2 AND highest < $3 ORDER BY resource FOR UPDATE`
	dropKeys     = `DELETE FROM fencepost_sink_keys WHERE resource = ANY ($1)`
	dropLedgers  = `DELETE FROM fencepost_sink_ledger WHERE resource = ANY ($1)`
	dropResource = `DELETE FROM fencepost_sink WHERE resource = ANY ($1)`
)

// Retire implements sink.Retirer, in one transaction. After a lost answer the number is of
// what the last try removed.
func (s *Sink) Retire(ctx context.Context, issuer string, below int64, resources ...string) (removed int, err error) {
	c := &call{what: "retire resources of " + issuer}
	if err := sink.CheckRetire(issuer, below, resources); err != nil {
		return 0, c.refused(err)
	}
	err = s.try(ctx, c, func(ctx context.Context, tx pgx.Tx) (change bool, err error) {
		if _, err := tx.Exec(ctx, setLimits, strconv.FormatInt(s.timeout.Milliseconds(), 10)); err != nil {
			return false, err
		}
		if _, err := tx.Exec(ctx, raiseFloor, sink.FloorOf(issuer), issuer, below); err != nil {
			return false, err
		}
		found, err := tx.Query(ctx, lockBelow, resources, issuer, below)
		if err != nil {
			return false, err
		}
		gone, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return false, err
		}
		removed = len(gone)
		// Later statements than the lock's: they see all that was there when it was taken.
		b := &pgx.Batch{}
		for _, drop := range []string{dropKeys, dropLedgers, dropResource} {
			b.Queue(drop, gone)
		}
		return true, tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}
