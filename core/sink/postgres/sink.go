package postgressink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// DefaultRequestTimeout is the RequestTimeout of a Sink that is given none.
const DefaultRequestTimeout = 5 * time.Second

// Options configure a Sink.
type Options struct {
	// RequestTimeout bounds one try of a transaction, the function of ApplyTx
	// included, on both sides: then the program tries again on another connection,
	// and the server ends what the program left behind, so that its row lock is free
	// again. Default: DefaultRequestTimeout; at least 1 ms.
	RequestTimeout time.Duration
}

// Sink implements sink.Sink. Safe for concurrent use.
type Sink struct {
	pool    *pgxpool.Pool
	timeout time.Duration
	own     bool // the pool
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Pager   = (*Sink)(nil)
	_ sink.Retirer = (*Sink)(nil)
)

// New returns a sink in pool's database; pool stays the caller's to close. The
// tables must be there (Migrate).
func New(pool *pgxpool.Pool, o Options) *Sink {
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	return &Sink{pool: pool, timeout: max(o.RequestTimeout, time.Millisecond)}
}

// Open connects by a connection string, a URL (postgres://user@host:5432/db) or
// key=value pairs, checks the tables and returns a sink with connections of its own;
// Close it. A string can say all that libpq's can, among it login (user, password,
// PGPASSFILE), TLS (sslmode=verify-full, sslrootcert, sslcert, sslkey), the schema
// (search_path) and several hosts (target_session_attrs=read-write); pool_max_conns
// bounds the connections (default: 4, or the number of processors if that is more).
// What is wrong is told at once: the login, the database, missing or foreign tables
// (*[SchemaError]).
func Open(ctx context.Context, conn string, o Options) (*Sink, error) {
	cfg, err := pgxpool.ParseConfig(conn)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	BoundConnects(cfg, o.RequestTimeout)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	if err := checkVersion(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("sink: open: %w", err)
	}
	s := New(pool, o)
	s.own = true
	return s, nil
}

// BoundConnects gives up connecting after d if the connection string does not say when
// (connect_timeout): pgx's two minutes keep a connection's place in the pool for as long
// after a partition. For pools that New is given.
func BoundConnects(cfg *pgxpool.Config, d time.Duration) {
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, d)
}

// Close closes the connections of a sink that Open made, after the calls that are
// under way. It does nothing to one that New made.
func (s *Sink) Close() {
	if s.own {
		s.pool.Close()
	}
}

// Raise implements sink.Sink. A token that is already the highest is Applied.
func (s *Sink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return s.decide(ctx, sink.Call{Resource: resource, Issuer: issuer, Token: token}, nil)
}

// Accept implements sink.Sink.
func (s *Sink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return s.ApplyTx(ctx, resource, issuer, token, e, nil)
}

// ApplyTx is Accept with changes of the caller's own: if and only if the effect is
// accepted, what apply does in tx is committed with it. It is not called for an
// effect that is refused or was accepted before.
//
// apply may be called again, after a connection was lost or the server asked for it
// (deadlock, serialization failure): at most one call's work is committed. So it only
// talks to the database, by tx, is done well within RequestTimeout, and does not
// commit or roll back itself, nor keep an error of the database to itself. Its error
// rolls everything back, the raise of the token too, and comes back wrapped in a
// *store.Error whose outcome is fail. So does [ErrSlow], if it is twice not done in time.
func (s *Sink) ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(ctx context.Context, tx pgx.Tx) error) (sink.Answer, error) {
	return s.decide(ctx, sink.Call{Resource: resource, Issuer: issuer, Token: token, Effect: &e}, apply)
}

// decide tries until there is an answer or ctx ends.
func (s *Sink) decide(ctx context.Context, of sink.Call, apply func(context.Context, pgx.Tx) error) (sink.Answer, error) {
	c, err := newCall(of)
	if err != nil {
		return sink.Answer{}, err
	}
	var d sink.Decision
	first := c.Effect != nil
	err = s.try(ctx, c, func(ctx context.Context, tx pgx.Tx) (change bool, err error) {
		if first {
			first = false
			d, err = c.atOnce(ctx, tx, s.timeout)
		} else {
			d, err = c.inSteps(ctx, tx, s.timeout)
		}
		if err != nil || d.Kind == "" {
			return false, err
		}
		if d.Kind == sink.KindAccept && apply != nil {
			err := apply(ctx, callersTx{tx})
			if err == nil && ctx.Err() != nil { // it has not looked at the clock
				err = context.Cause(ctx)
			}
			if err != nil {
				return false, c.applyError(ctx, tx, err)
			}
		}
		return true, nil
	})
	if err != nil {
		return sink.Answer{}, err
	}
	return c.answer(d)
}

// inSteps looks at what there is, decides, and writes what follows.
func (c *call) inSteps(ctx context.Context, tx pgx.Tx, limit time.Duration) (d sink.Decision, err error) {
	h, k, err := c.look(ctx, tx, limit)
	if err != nil {
		return d, err
	}
	if d = sink.Decide(h, k, c.Call); d.Kind != "" {
		return d, c.write(ctx, tx, d)
	}
	if h.Seq == 0 { // a refusal makes no resource
		_, err = tx.Exec(ctx, dropResource, []string{c.Resource})
	}
	return d, err
}

// finalError is an error after which there is no further try.
type finalError struct{ error }

// ErrSlow is the cause of an ApplyTx that ended since the caller's function took longer
// than RequestTimeout.
var ErrSlow = errors.New("the function of ApplyTx was twice not done within RequestTimeout: raise Options.RequestTimeout, or do less in it")

// errTryEnded is the cause of a try's end, where the caller's own context goes on.
var errTryEnded = errors.New("RequestTimeout is over")

// maxSlow is how often the caller's function may be cut off by RequestTimeout. Once, the
// network or the server may have stood still; the next try gets as far as this only if
// they do not.
const maxSlow = 2

// applyError is the error of the caller's function: final, unless it comes from a
// connection that was lost, a transaction that the server wants to see again, or a first
// try that took too long.
func (c *call) applyError(ctx context.Context, tx pgx.Tx, err error) error {
	if errors.Is(context.Cause(ctx), errTryEnded) || outOfTime(err) {
		if c.slow++; c.slow == maxSlow {
			return finalError{c.refused(errors.Join(ErrSlow, err))}
		}
		return err
	}
	if _, sent := sqlstate(err); ctx.Err() != nil || sent && passing(err) || tx.Conn().IsClosed() {
		return err
	}
	return finalError{c.refused(err)}
}

// work is what one try does in its transaction; it tells whether there is something
// to commit.
type work func(ctx context.Context, tx pgx.Tx) (change bool, err error)

// try runs transactions until one is answered, or ends in a final error, or ctx ends.
func (s *Sink) try(ctx context.Context, c *call, do work) error {
	var pause sink.Pause
	var last error
	for {
		if ctx.Err() != nil {
			return c.ended(ctx, last)
		}
		tryCtx, cancel := context.WithTimeoutCause(ctx, s.timeout, errTryEnded)
		outcome, err := s.once(tryCtx, do)
		cancel()
		var final finalError
		switch {
		case err == nil:
			return nil
		case err == errInSteps:
			continue
		case errors.As(err, &final):
			return final.error
		case outcome == store.Unknown:
			c.uncertain++
		case !passing(err):
			return c.ended(ctx, err)
		}
		last = err
		pause.Wait(ctx)
	}
}

// once runs one transaction. With an error, the outcome is the transaction's: what
// goes wrong before the COMMIT is sent is a fail.
func (s *Sink) once(ctx context.Context, do work) (out store.Outcome, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return store.Fail, err
	}
	defer func() {
		leave(ctx, conn.Conn(), err)
		conn.Release()
	}()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return store.Fail, err
	}
	change, err := do(ctx, tx)
	if err != nil {
		return store.Fail, err
	}
	// Without a change too: the answer rests on rows that may be committed here and not
	// yet on a synchronous standby. The lock has given this transaction an id, so that its
	// COMMIT waits for the standby behind theirs.
	err = tx.Commit(ctx)
	if err != nil && !change {
		return store.Fail, err
	}
	return commitOutcome(err), err
}

// leave ends what a transaction left open. A connection that showed an error which
// may pass is closed: it may lead to a server that is a standby by now.
func leave(ctx context.Context, conn *pgx.Conn, err error) {
	sound := err == nil || err == errInSteps || errors.As(err, new(finalError))
	if sound && conn.PgConn().TxStatus() != 'I' {
		_, err := conn.Exec(ctx, "rollback")
		sound = err == nil
	}
	if !sound {
		_ = conn.Close(ctx) // which rolls back
	}
}

// callersTx is the transaction as the caller's function gets it.
type callersTx struct{ pgx.Tx }

var errNotYours = errors.New("sink: the transaction is the sink's to end: return nil to commit it, an error to roll it back")

func (callersTx) Commit(context.Context) error   { return errNotYours }
func (callersTx) Rollback(context.Context) error { return errNotYours }
