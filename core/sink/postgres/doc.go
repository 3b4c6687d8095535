// Package postgressink is the fenced sink on PostgreSQL, for programs whose own data
// is there: the fence, the idempotency key and the program's own changes are one
// transaction.
//
// [Sink.ApplyTx] is what it is for. The function that it is given changes any tables
// of the same database, and what it did is there if and only if the fence let it
// pass and the key was new:
//
//	a, err := s.ApplyTx(ctx, "account-7", lease.Resource(), lease.Token(), effect,
//		func(ctx context.Context, tx pgx.Tx) error {
//			_, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance - 10 WHERE id = 7`)
//			return err
//		})
//
// A resource has a header row (whose tokens, highest token seen, number of ledger
// entries, value), a row for each accepted key, and the ledger. A decision locks the
// header row, so decisions on one resource are made one after
// the other, each on what is committed; those on others run beside it.
//
// Most effects are accepted. So Accept and ApplyTx begin with one statement that writes an acceptance: if the
// header has no higher token and no other issuer, and the key is new. It locks the header and sees its
// last committed state; the unique index sees all committed keys. Otherwise it is rolled back, the
// header is locked again (SELECT … FOR UPDATE), and what is read then decides. Both ways have one rule, sink.Decide.
// So a call that is refused, or whose key is there, takes two transactions.
//
// # Outcomes
//
// A transaction that was not told to commit does not: whatever fails before the
// COMMIT is sent has certainly not happened, and is tried again. A COMMIT whose
// answer is lost is unknown. It held the header's row lock, so the next look at the
// header, which waits for that lock, comes after its end: whether it was committed
// shows the attempt id in the key's row. Only if the caller's context ends before
// such a look is the outcome of the call unknown. As with any sink, a call that is
// refused as stale after that is unknown too: its key may have been forgotten since.
//
// A worker that is stopped or cut off in the middle of a transaction holds the row
// lock of one resource until the server ends its session, RequestTimeout after its
// last request: every transaction sets that limit for itself.
//
// # What it needs of the server
//
// Tokens are safe as far as commits are. A primary that fails over to a standby
// which has not got its last commits forgets tokens and keys: use synchronous
// standbys. A session with synchronous_commit off has it switched on for the sink's
// transactions. Where there are synchronous standbys, reads wait for them too: what a
// read shows a fail-over does not take back, also if the wait of the call that wrote it
// was cancelled. They write a message into the log for that (pg_logical_emit_message).
//
// A connection pooler must be in session mode. In transaction mode (PgBouncer) it is not
// supported: statements are prepared in a session, and nobody has tested it. The
// isolation level is READ COMMITTED, whatever the database's default is: what the
// caller's function reads for its decisions it locks itself. A transaction sets its own
// statement_timeout, lock_timeout and idle_in_transaction_session_timeout too. A default
// statement_timeout still holds for reads, and where a statement is prepared: what the
// server ends for it is sent again until the caller's context ends.
package postgressink
