package broken

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system/unfenced"
	"fencepost/harness/target/workload"
)

func init() {
	plant("sink-locked-is-done", only(workload.Hooks{Sink: doneIf(lockForWrite+" SKIP LOCKED", func(tag pgconn.CommandTag, err error) bool {
		return err == nil && tag.RowsAffected() == 0
	})}))
	plant("sink-cancelled-is-done", only(workload.Hooks{Sink: doneIf(lockForWrite, refusedBy("57014"))}))
	plant("sink-conflict-is-done", only(workload.Hooks{Sink: doneIf(lockForWrite, refusedBy("40001"))}))
}

const lockForWrite = `SELECT 1 FROM fencepost_sink WHERE resource = $1 FOR UPDATE`

func refusedBy(code string) func(pgconn.CommandTag, error) bool {
	return func(_ pgconn.CommandTag, err error) bool {
		var refused *pgconn.PgError
		return errors.As(err, &refused) && refused.Code == code
	}
}

// doneIf locks the row by a statement before it writes, by the database's defaults, and takes one
// of its ends for a sign that the effect is done: somebody is writing it, or it took long, or
// somebody wrote it.
func doneIf(statement string, done func(pgconn.CommandTag, error) bool) func(workload.Config, unfenced.Writer, sink.Sink) sink.Sink {
	return func(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
		db, ok := past.(interface{ Pool() *pgxpool.Pool })
		if !ok {
			panic(fmt.Sprintf("broken: this variant is one of the sink %s, not of a %T", sinks.Postgres, past))
		}
		return &skippingSink{readingSink: readingSink{uncheckedSink: uncheckedSink{inner, past}}, pool: db.Pool(), statement: statement, done: done}
	}
}

type skippingSink struct {
	readingSink
	pool      *pgxpool.Pool
	statement string
	done      func(pgconn.CommandTag, error) bool
}

func (s *skippingSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	st, known := s.seen.get(resource)
	if tag, err := s.pool.Exec(ctx, s.statement, resource); known && st.Seq > 0 && s.done(tag, err) {
		return sink.Answer{Result: sink.Applied, FirstToken: token, Seen: max(st.Seen, token)}, nil
	}
	return s.Sink.Accept(ctx, resource, issuer, token, e)
}
