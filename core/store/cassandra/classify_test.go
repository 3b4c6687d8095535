package cassandra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// frame is an answer of the server by its code, as the driver returns those
// that have no type of their own (its errorFrame cannot be made outside of it).
type frame struct{ code int }

func (f frame) Code() int       { return f.code }
func (f frame) Message() string { return "message" }
func (f frame) Error() string   { return fmt.Sprintf("code %#x", f.code) }

// blind is what a node answers that cannot read the roles: too few of their replicas are up.
type blind struct{ frame }

func (blind) Error() string {
	return "Unable to perform authorization of permissions: Cannot achieve consistency level LOCAL_ONE"
}

func TestClassify(t *testing.T) {
	t.Parallel()
	serial, localSerial := gocql.Consistency(gocql.Serial), gocql.Consistency(gocql.LocalSerial)
	const sure, server = true, true
	cases := []struct {
		name          string
		err           error
		fail          bool
		serverTimeout bool
	}{
		// Not sent.
		{"no connections", gocql.ErrNoConnections, sure, false},
		{"no streams", gocql.ErrNoStreams, sure, false},
		{"session closed", gocql.ErrSessionClosed, sure, false},
		{"too many statements", gocql.ErrTooManyStmts, sure, false},
		{"argument length", gocql.ErrQueryArgLength, sure, false},
		{"marshal", gocql.MarshalError("can not marshal"), sure, false},
		{"argument count", errors.New("gocql: expected 3 values send got 2"), sure, false},
		{"argument count in a batch", errors.New("gocql: batch statement 1 expected 3 values send got 2"), sure, false},

		// Refused by the coordinator before it began.
		{"invalid", frame{gocql.ErrCodeInvalid}, sure, false},
		{"syntax", frame{gocql.ErrCodeSyntax}, sure, false},
		{"unauthorized", frame{gocql.ErrCodeUnauthorized}, sure, false},
		{"config", frame{gocql.ErrCodeConfig}, sure, false},
		{"bootstrapping", frame{gocql.ErrCodeBootstrapping}, sure, false},
		{"roles cannot be read", blind{frame{gocql.ErrCodeUnauthorized}}, sure, false},
		{"wrapped invalid", fmt.Errorf("x: %w", frame{gocql.ErrCodeInvalid}), sure, false},
		{"unavailable, serial", &gocql.RequestErrUnavailable{Consistency: serial}, sure, false},
		{"unavailable, local serial", &gocql.RequestErrUnavailable{Consistency: localSerial}, sure, false},

		// The coordinator's own timeout or not knowing.
		{"write timeout, CAS", &gocql.RequestErrWriteTimeout{WriteType: "CAS", Consistency: serial}, false, server},
		{"write timeout, SIMPLE (the commit)", &gocql.RequestErrWriteTimeout{WriteType: "SIMPLE", Consistency: gocql.Quorum}, false, server},
		{"read timeout", &gocql.RequestErrReadTimeout{Consistency: serial}, false, server},
		{"CAS write unknown", &gocql.RequestErrCASWriteUnknown{}, false, server},
		{"wrapped write timeout", fmt.Errorf("x: %w", &gocql.RequestErrWriteTimeout{}), false, server},

		// Everything else may have happened.
		{"unavailable, commit", &gocql.RequestErrUnavailable{Consistency: gocql.Quorum}, false, false},
		{"unavailable, local quorum", &gocql.RequestErrUnavailable{Consistency: gocql.LocalQuorum}, false, false},
		{"write failure", &gocql.RequestErrWriteFailure{}, false, false},
		{"read failure", &gocql.RequestErrReadFailure{}, false, false},
		{"cdc write failure", &gocql.RequestErrCDCWriteFailure{}, false, false},
		{"function failure", &gocql.RequestErrFunctionFailure{}, false, false},
		{"already exists", &gocql.RequestErrAlreadyExists{}, false, false},
		{"unprepared", &gocql.RequestErrUnprepared{}, false, false},
		{"overloaded", frame{gocql.ErrCodeOverloaded}, false, false},
		{"server error", frame{gocql.ErrCodeServer}, false, false},
		{"protocol error", frame{gocql.ErrCodeProtocol}, false, false},
		{"truncate error", frame{gocql.ErrCodeTruncate}, false, false},
		{"a code that nobody knows", frame{0x7777}, false, false},
		{"no response", gocql.ErrTimeoutNoResponse, false, false},
		{"connection closed", gocql.ErrConnectionClosed, false, false},
		{"too many timeouts", gocql.ErrTooManyTimeouts, false, false},
		{"not found", gocql.ErrNotFound, false, false},
		{"EOF", io.EOF, false, false},
		{"unexpected EOF", io.ErrUnexpectedEOF, false, false},
		{"reset", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, false, false},
		{"refused while in flight", &net.OpError{Op: "write", Err: syscall.ECONNREFUSED}, false, false},
		{"closed", net.ErrClosed, false, false},
		{"unmarshal", gocql.UnmarshalError("can not unmarshal"), false, false},
		{"no [applied]", errNoApplied, false, false},
		{"context over during the call", context.DeadlineExceeded, false, false},
		{"cancelled during the call", context.Canceled, false, false},
		{"anything", errors.New("anything"), false, false},
	}
	permanent := map[string]bool{}
	for _, name := range []string{"session closed", "too many statements", "argument length", "marshal", "argument count", "argument count in a batch",
		"invalid", "syntax", "unauthorized", "config", "wrapped invalid"} {
		permanent[name] = true
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := classify(t.Context(), "op", c.err)
			want := store.Unknown
			if c.fail {
				want = store.Fail
			}
			if e.Outcome != want || e.ServerTimeout != c.serverTimeout {
				t.Errorf("outcome %s, server timeout %v; want %s, %v", e.Outcome, e.ServerTimeout, want, c.serverTimeout)
			}
			if want := permanent[c.name]; e.Permanent != want || want && e.Cause.Error() == c.err.Error() {
				t.Errorf("permanent %v, want %v with a remedy: %v", e.Permanent, want, e)
			}
			if !errors.Is(e, c.err) {
				t.Errorf("%v does not wrap its cause", e)
			}
			if store.OutcomeOf(fmt.Errorf("wrapped: %w", e)) != want {
				t.Error("OutcomeOf does not see through wrapping")
			}
		})
	}
}

// TestClassifyServerCodes: the same answers by their bare code.
func TestClassifyServerCodes(t *testing.T) {
	t.Parallel()
	for _, code := range []int{gocql.ErrCodeWriteTimeout, gocql.ErrCodeReadTimeout, gocql.ErrCodeCASWriteUnknown} {
		if e := classify(t.Context(), "op", frame{code}); e.Outcome != store.Unknown || !e.ServerTimeout {
			t.Errorf("code %#x: %s, server timeout %v", code, e.Outcome, e.ServerTimeout)
		}
	}
	// An Unavailable without its consistency says nothing.
	if e := classify(t.Context(), "op", frame{gocql.ErrCodeUnavailable}); e.Outcome != store.Unknown {
		t.Errorf("bare unavailable: %s", e.Outcome)
	}
}

// TestClassifyContext: the cause of a context's end says who is to blame.
func TestClassifyContext(t *testing.T) {
	t.Parallel()
	timeout := fmt.Errorf("request timeout: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		cause    error
		canceled bool
	}{
		"time limit":       {timeout, false},
		"the caller's end": {errors.New("caller went away"), true},
		"plain cancel":     {context.Canceled, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(c.cause)
			e := classify(ctx, "op", context.Canceled)
			if e.Outcome != store.Unknown {
				t.Errorf("outcome %s", e.Outcome)
			}
			if got := errors.Is(e, errCanceled); got != c.canceled {
				t.Errorf("cancelled by the caller: %v, want %v (%v)", got, c.canceled, e)
			}
			if !errors.Is(e, c.cause) {
				t.Errorf("%v does not name its cause", e)
			}
		})
	}
}

func TestSplitApplied(t *testing.T) {
	t.Parallel()
	type rows = []map[string]any
	for name, c := range map[string]struct {
		in      rows
		applied bool
		rows    int
		err     bool
	}{
		"applied":                    {rows{{"[applied]": true}}, true, 0, false},
		"rejected, absent row":       {rows{{"[applied]": false}}, false, 0, false},
		"rejected with a row":        {rows{{"[applied]": false, "fence": int64(1)}}, false, 1, false},
		"rejected with rows":         {rows{{"[applied]": false, "a": 1}, {"[applied]": false, "a": 2}}, false, 2, false},
		"no rows at all":             {nil, false, 0, true},
		"no [applied]":               {rows{{"fence": int64(1)}}, false, 0, true},
		"[applied] of another type":  {rows{{"[applied]": "true"}}, false, 0, true},
		"[applied] missing in row 2": {rows{{"[applied]": false, "a": 1}, {"a": 2}}, false, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			applied, out, err := splitApplied(c.in)
			if (err != nil) != c.err || applied != c.applied || len(out) != c.rows {
				t.Errorf("applied %v, %d rows, %v", applied, len(out), err)
			}
		})
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	for want, cause := range map[string]error{
		"too few replicas":    frame{gocql.ErrCodeUnavailable},
		"answered its":        frame{gocql.ErrCodeReadTimeout},
		"no connection":       fmt.Errorf("pool: %w", gocql.ErrNoConnections),
		"no node":             context.DeadlineExceeded,
		"permission":          frame{gocql.ErrCodeUnauthorized},
		"refuses the request": frame{gocql.ErrCodeInvalid},
		"login":               frame{gocql.ErrCodeCredentials},
	} {
		got := Why(&store.Error{Op: "look", Outcome: store.Unknown, Cause: cause})
		if !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", cause, got, want)
		}
	}
	if got := Why(errors.New("SELECT secret FROM 10.0.0.1")); got != "" {
		t.Errorf("%q", got)
	}
}
