//go:build integration

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/core/sink"
)

// TestDecidesOnWhatIsCommitted: an effect waits for a transaction on its resource, and is decided on what that
// leaves behind, not on what there was when it came.
func TestDecidesOnWhatIsCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	retire := func(tx pgx.Tx, resource string) {
		for _, sql := range []string{
			`INSERT INTO fencepost_sink AS s (resource, issuer, highest, last_seq, value, payload) VALUES ('` + sink.FloorOf(resource) + `', '` + resource + `', 9, 0, 0, '')
				ON CONFLICT (resource) DO UPDATE SET highest = greatest(s.highest, excluded.highest)`,
			`DELETE FROM fencepost_sink_keys WHERE resource = '` + resource + `'`,
			`DELETE FROM fencepost_sink_ledger WHERE resource = '` + resource + `'`,
			`DELETE FROM fencepost_sink WHERE resource = '` + resource + `'`,
		} {
			_, err := tx.Exec(w.ctx(), sql)
			w.must(err)
		}
	}
	sql := func(sql string) func(pgx.Tx, string) {
		return func(tx pgx.Tx, resource string) {
			_, err := tx.Exec(w.ctx(), sql, resource)
			w.must(err)
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(tx pgx.Tx, resource string)
		token     int64
		want      sink.Result
		seq       int64
	}{
		"nothing":         {sql(`SELECT FROM fencepost_sink WHERE resource = $1 FOR UPDATE`), 3, sink.Applied, 2},
		"a later token":   {sql(`UPDATE fencepost_sink SET highest = 4 WHERE resource = $1`), 3, sink.Stale, 1},
		"its own token":   {sql(`UPDATE fencepost_sink SET highest = 3 WHERE resource = $1`), 3, sink.Applied, 2},
		"the key":         {sql(`INSERT INTO fencepost_sink_keys SELECT resource, 'k', 3, 1, '', gen_random_uuid(), now() FROM fencepost_sink WHERE resource = $1 FOR UPDATE`), 3, sink.Conflict, 2},
		"it is retired":   {retire, 3, sink.Stale, 0},
		"retired, and up": {retire, 9, sink.Applied, 1},
	} {
		t.Run(name, func(t *testing.T) { // the issuer has the resource's name
			w.answered(sink.Applied)(w.near.Accept(w.ctx(), name, name, 2, effect("before")))
			tx, err := w.direct.Begin(w.ctx())
			w.must(err)
			defer tx.Rollback(w.ctx()) // if it is not committed
			c.meanwhile(tx, name)
			type end struct {
				sink.Answer
				err error
			}
			done := make(chan end, 1)
			go func() {
				a, err := w.near.Accept(context.WithoutCancel(t.Context()), name, name, c.token, effect("k"))
				done <- end{a, err}
			}()
			var waits bool
			for end := time.Now().Add(timeout / 2); !waits; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the effect does not wait")
				}
				w.must(w.direct.QueryRow(w.ctx(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waits))
			}
			w.must(tx.Commit(w.ctx()))
			if e := <-done; e.err != nil || e.Result != c.want || e.Seq != c.seq {
				t.Errorf("%+v (%s), %v; want %s, entry %d", e.Answer, e.Result, e.err, c.want, c.seq)
			}
		})
	}
}
