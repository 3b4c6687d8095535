package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// errCanceled marks a request that its own caller cancelled: the node is not to blame.
var errCanceled = errors.New("cancelled by the caller")

// errNoApplied is an answer to a conditional statement without its [applied] column.
var errNoApplied = errors.New("the answer to a conditional statement has no [applied] column")

// classify turns what the driver returned for a request that it may have sent
// into an outcome. Certainty is an allow-list; what is not on it is Unknown.
func classify(ctx context.Context, op string, err error) *store.Error {
	e := &store.Error{Op: op, Outcome: store.Unknown, Cause: err}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		cause := context.Cause(ctx)
		switch {
		case cause == nil:
		case errors.Is(cause, context.DeadlineExceeded):
			e.Cause = cause
		default:
			e.Cause = errors.Join(errCanceled, cause)
		}
		return e
	}
	switch {
	case notSent(err), refused(err):
		e.Outcome = store.Fail
		if remedy := remedy(err); remedy != "" {
			e.Permanent, e.Cause = true, fmt.Errorf("%w: %s", err, remedy)
		}
	case serverTimeout(err):
		e.ServerTimeout = true
	}
	return e
}

// notSent reports errors that the driver raises before a byte leaves.
func notSent(err error) bool {
	for _, known := range []error{
		gocql.ErrNoConnections, gocql.ErrNoStreams, gocql.ErrSessionClosed,
		gocql.ErrTooManyStmts, gocql.ErrQueryArgLength,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.As(err, new(gocql.MarshalError)) || argumentCount(err)
}

// argumentCount recognizes a wrong number of arguments, which has no type.
func argumentCount(err error) bool {
	s := err.Error()
	return strings.HasPrefix(s, "gocql: expected ") && strings.Contains(s, " values send got ") ||
		strings.HasPrefix(s, "gocql: batch statement ") && strings.Contains(s, " values send got ")
}

// refused reports answers by which a coordinator certainly did not begin.
func refused(err error) bool {
	// Unavailable before the first Paxos message carries the serial
	// consistency; with another one it can come from the commit, after the
	// proposal was accepted.
	var unavailable *gocql.RequestErrUnavailable
	if errors.As(err, &unavailable) {
		return unavailable.Consistency == gocql.Consistency(gocql.Serial) ||
			unavailable.Consistency == gocql.Consistency(gocql.LocalSerial)
	}
	switch code(err) {
	case gocql.ErrCodeInvalid, gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized,
		gocql.ErrCodeConfig, gocql.ErrCodeBootstrapping:
		return true
	}
	return false
}

// remedy is what to do about a request that no node will ever take as things are; "" if
// it may be taken later.
func remedy(err error) string {
	switch code(err) {
	case gocql.ErrCodeUnauthorized:
		// What a node says that cannot read the roles, as too few of their replicas are up.
		if strings.Contains(err.Error(), "Unable to perform authorization") {
			return ""
		}
		return "grant this role SELECT and MODIFY on the keyspace"
	case gocql.ErrCodeInvalid, gocql.ErrCodeConfig:
		return "see that the keyspace has the tables of this program's version (Prepare or Migrate make them), and that its replication fits"
	case gocql.ErrCodeSyntax:
		return "use Cassandra 4.0 or later"
	case gocql.ErrCodeBootstrapping:
		return ""
	}
	switch {
	case errors.Is(err, gocql.ErrSessionClosed):
		return "the session was closed: open another one"
	case errors.Is(err, gocql.ErrTooManyStmts), errors.Is(err, gocql.ErrQueryArgLength), errors.As(err, new(gocql.MarshalError)), argumentCount(err):
		return "the statement's arguments do not fit: this is a defect of the program that made it"
	}
	return ""
}

// serverTimeout reports the coordinator's own "ran out of time" and "do not know".
func serverTimeout(err error) bool {
	if errors.As(err, new(*gocql.RequestErrWriteTimeout)) || errors.As(err, new(*gocql.RequestErrReadTimeout)) ||
		errors.As(err, new(*gocql.RequestErrCASWriteUnknown)) {
		return true
	}
	switch code(err) {
	case gocql.ErrCodeWriteTimeout, gocql.ErrCodeReadTimeout, gocql.ErrCodeCASWriteUnknown:
		return true
	}
	return false
}

// code returns the protocol's error code, or -1 if err is not a server's answer.
func code(err error) int {
	var r gocql.RequestError
	if errors.As(err, &r) {
		return r.Code()
	}
	return -1
}

// Trouble is why a connection was not made.
type Trouble int

// Troubles.
const (
	NoneKnown      Trouble = iota
	Unreachable            // nobody answers at the address
	NotTrusted             // the certificate's authority is not one that is trusted here
	OtherName              // the certificate is for another name
	BadCertificate         // the certificate does not hold for another reason
	SpeaksNoTLS            // what answers there speaks no TLS
	RefusesTLS             // it ends the handshake: it may want a client's certificate
	EndsTLS                // it ends the connection before TLS is agreed on
	SpeaksNoCQL            // it takes the connection, and does not answer: it may want TLS
	WantsLogin             // and none was shown
	WrongLogin             // user name or password
	MayNotLogin            // the role may not
	OtherProtocol          // no version 4 of the native protocol
)

// Diagnose says why a connection (see [Discover]) was not made; tls: it was to be one
// with TLS.
func Diagnose(err error, withTLS bool) Trouble {
	var op *net.OpError
	text := err.Error()
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return NotTrusted
	case errors.As(err, new(x509.HostnameError)):
		return OtherName
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return BadCertificate
	case errors.As(err, new(tls.RecordHeaderError)):
		return SpeaksNoTLS
	case strings.Contains(text, "remote error: tls:"):
		return RefusesTLS
	case NeedsLogin(err):
		return WantsLogin
	case Refused(err) == Credentials:
		return WrongLogin
	case Refused(err) == Unauthorized:
		return MayNotLogin
	case Refused(err) == Invalid:
		return OtherProtocol
	case errors.As(err, &op) && op.Op == "dial":
		return Unreachable
	case !withTLS && (ended || strings.Contains(text, "no response to connection startup")):
		return SpeaksNoCQL
	case withTLS && ended:
		return EndsTLS
	}
	return NoneKnown
}

// Why says in some words why a request was not answered, or refused; it tells of no
// address and no statement, so that every client of the probes may read it. "" if there is
// nothing to say but the error itself.
func Why(err error) string {
	switch Refused(err) {
	case Credentials:
		return "it refuses the login"
	case Unauthorized:
		return "it refuses the request, as the role lacks a permission"
	case NoQuorum:
		return "too few replicas are up, or answered its coordinator in time"
	case Exists, Invalid:
		return "it refuses the request"
	}
	switch {
	case errors.Is(err, gocql.ErrNoConnections):
		return "there is no connection to any of its nodes"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, gocql.ErrTimeoutNoResponse):
		return "no node answered in time"
	}
	return ""
}
