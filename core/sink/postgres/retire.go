package postgressink

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"fencepost/core/sink"
)

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
