package postgressink

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fencepost/core/sink"
)

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
