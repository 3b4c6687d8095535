package postgressink

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fencepost/core/store"
)

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
