package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/gocql/gocql"
)

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
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var op *net.OpError
	text := err.Error()
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case errors.As(err, &unknown):
		return NotTrusted
	case errors.As(err, &host):
		return OtherName
	case errors.As(err, &verify):
		return BadCertificate
	case errors.As(err, &record):
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
