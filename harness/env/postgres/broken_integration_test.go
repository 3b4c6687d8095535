//go:build integration

package postgres

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/sink/sinktest"
)

// outside is a sink that decides outside of the transaction in which it writes: on what
// it read before, and on the parts of it that are named.
type outside struct {
	*postgressink.Sink
	pool         *pgxpool.Pool
	tokens, keys bool
}

func (s outside) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	st, err := s.Read(ctx, resource, e.Key)
	if err != nil {
		return sink.Answer{}, err
	}
	if first, known := st.Applied[e.Key]; known && s.keys {
		return sink.Answer{Result: sink.Duplicate, FirstToken: first, Seen: st.Seen, Seq: st.Seq}, nil
	}
	if s.tokens && token < st.Seen {
		return sink.Answer{Result: sink.Stale, Seen: st.Seen, Seq: st.Seq}, nil
	}
	time.Sleep(20 * time.Millisecond) // what lies between a look and a write
	a := sink.Answer{Result: sink.Applied, FirstToken: token}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `INSERT INTO fencepost_sink AS s VALUES ($1, $2, $3, 1, $4, '')
			ON CONFLICT (resource) DO UPDATE SET last_seq = s.last_seq + 1, highest = greatest(s.highest, $3), value = $4
			RETURNING last_seq, highest`, resource, issuer, token, e.Value).Scan(&a.Seq, &a.Seen)
		if err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, `INSERT INTO fencepost_sink_ledger VALUES ($1, $2, 'accept', $3, $4, $5, $6, now())`, resource, a.Seq, issuer, token, e.Key, e.Value); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO fencepost_sink_keys VALUES ($1, $2, $3, $4, '', gen_random_uuid(), now()) ON CONFLICT DO NOTHING`, resource, e.Key, token, a.Seq)
		return err
	})
	return a, err
}

// failures counts those of one case.
type failures struct{ n atomic.Int64 }

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n.Add(1) }

// TestSuiteFindsBroken: each of them fails the case that is about its mistake.
func TestSuiteFindsBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		sink outside
		by   string
	}{
		"no token check":                        {outside{keys: true}, "a lower token than the highest seen is stale"},
		"no key check":                          {outside{tokens: true}, "an applied key answers duplicate, whatever the token"},
		"the checks are not in the transaction": {outside{tokens: true, keys: true}, "of many accepts of one key one is applied"},
	} {
		c.sink.Sink, c.sink.pool = w.near, w.direct
		found := false
		for _, rule := range sinktest.Cases() {
			if rule.Name != c.by {
				continue
			}
			var f failures
			rule.Run(w.ctx(), &f, c.sink, name)
			found = f.n.Load() > 0
		}
		if !found {
			t.Errorf("%s: the case %q passes, or there is none", name, c.by)
		}
	}
}
