package external

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/login"
)

// Error is why a cluster cannot be used, and what to do about it.
type Error struct {
	// Where is the node's address or name; "" if it is none of a single node.
	Where   string
	Problem string
	Remedy  string
	Cause   error // nil if Problem says it all
}

func (e *Error) Error() string {
	s := "external cluster: "
	if e.Where != "" {
		s += e.Where + ": "
	}
	s += e.Problem
	if e.Cause != nil {
		s += " (" + firstLine(e.Cause) + ")"
	}
	return s + "\n  remedy: " + e.Remedy
}

func (e *Error) Unwrap() error { return e.Cause }

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// ControlError says that a node is not the harness's to do this to.
type ControlError struct{ Node, Op string }

func (e *ControlError) Error() string {
	return fmt.Sprintf("cluster: cannot %s %s: it is a node of an external cluster, which the harness only uses", e.Op, e.Node)
}

// Is reports whether target is cluster.ErrState.
func (e *ControlError) Is(target error) bool { return target == cluster.ErrState }

// connecting says why a connection to a node was not made. named: it is at a contact
// point, not where its peers say.
func connecting(where string, l login.Login, named bool, err error) *Error {
	e := &Error{Where: where, Cause: cause(err)}
	switch cassandra.Diagnose(err, l.TLS != nil) {
	case cassandra.NotTrusted:
		e.Problem, e.Remedy = "its certificate is signed by an authority that is not trusted here", "name the file with the authority's certificate (PEM) by --tls-ca"
	case cassandra.OtherName:
		e.Problem, e.Remedy = "its certificate is for another name", "name it in --contact-points by a name that is in its certificate, or give the name that all nodes' certificates have by --tls-server-name"
	case cassandra.BadCertificate:
		e.Problem, e.Remedy = "its certificate does not hold", "renew the certificate, or check this machine's clock; --tls-insecure goes without any verification"
	case cassandra.SpeaksNoTLS:
		e.Problem, e.Remedy = "it does not speak TLS on this port", "leave --tls away, or name the port for TLS in --contact-points (host:port)"
	case cassandra.RefusesTLS:
		e.Problem, e.Remedy = "it refuses the TLS connection", "it may want a client's certificate that it trusts: --tls-cert and --tls-key"
	case cassandra.WantsLogin:
		e.Problem, e.Remedy = "it asks for a login", "--username, and the password in "+PasswordEnv+" or a file named by --password-file"
	case cassandra.WrongLogin:
		e.Problem, e.Remedy = "it refuses user "+l.Username, "check --username, and the password in "+PasswordEnv+" or --password-file"
	case cassandra.MayNotLogin:
		e.Problem, e.Remedy = "user "+l.Username+" may not log in here", "as a superuser: ALTER ROLE "+quoted(l.Username)+" WITH LOGIN = true; and see whether the role may use this data centre"
	case cassandra.OtherProtocol:
		e.Problem, e.Remedy = "it does not speak version 4 of the native protocol", "fencepost needs "+minVersion
	case cassandra.Unreachable:
		e.Problem = "it cannot be reached"
		e.Remedy = "check host and port in --contact-points, that the node runs, and firewalls between here and there"
		if !named {
			e.Remedy = "this is the address that the cluster announces for it: if it has another one from here, name that in --contact-points too (host:port)"
		}
	case cassandra.SpeaksNoCQL:
		e.Problem, e.Remedy = "it takes the connection but does not answer in the native protocol", "it may want TLS: --tls; or this is the port of something else"
	case cassandra.EndsTLS:
		e.Problem, e.Remedy = "it ends the connection before TLS is agreed on", "leave --tls away, or check that the port is one for TLS; it may also want a client's certificate: --tls-cert and --tls-key"
	default:
		e.Problem, e.Remedy = "no connection", "see that cqlsh connects from this machine with the same address, user and certificates"
	}
	return e
}

// using says why a statement through a node failed.
func using(where, what string, l login.Login, err error) *Error {
	e := &Error{Where: where, Cause: cause(err)}
	user := l.Username
	if user == "" {
		user = "anonymous"
	}
	switch cassandra.Refused(err) {
	case cassandra.Unauthorized:
		e.Problem = what + ": user " + user + " may not do that"
		e.Remedy = "as a superuser: " + Grant(user)
	case cassandra.NoQuorum:
		e.Problem = what + ": too few replicas answer"
		e.Remedy = "a run must begin on a healthy cluster: see nodetool status, start what is down, or wait until it is less busy"
	case cassandra.Invalid:
		e.Problem = what + ": the cluster refuses such statements"
		e.Remedy = "fencepost needs conditional statements (IF) and reads at SERIAL, keyspaces and tables: use " + minVersion
	default:
		e.Problem, e.Remedy = what+" failed", "see the node's own log, and that it is not overloaded"
	}
	return e
}

// cause is the innermost error that says something: what is around it is of the
// harness's own making.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		if _, ok := err.(*net.OpError); ok {
			return err // it names the address
		}
		err = inner
	}
}
