package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Outcome says what is known of a request after it ended.
type Outcome int

// The outcomes. The zero value is Unknown: what nobody classified may have
// happened.
const (
	Unknown Outcome = iota // may have happened, may happen later
	OK                     // happened
	Fail                   // certainly did not happen and never will
)

func (o Outcome) String() string {
	if names := [...]string{Unknown: "unknown", OK: "ok", Fail: "fail"}; o >= 0 && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("outcome(%d)", int(o))
}

// Error is a request that ended without its answer. It wraps the driver's error.
type Error struct {
	// Op names the request for people ("cas locks/l1 copy 0").
	Op string
	// Outcome is Fail or Unknown.
	Outcome Outcome
	// ServerTimeout: the coordinator itself answered that it ran into its own
	// time limit or does not know. The attempt is over on the server's side,
	// though its effect is unknown.
	ServerTimeout bool
	// Permanent: the store refuses the request for what it asks, not for the state that
	// it is in: a permission or a table is missing, the statement is invalid. It would
	// refuse every copy until somebody changes that; the cause says what.
	Permanent bool
	// Cause is the driver's or the context's error.
	Cause error
}

func (e *Error) Error() string {
	what := "outcome unknown"
	switch {
	case e.Outcome == Fail && e.Permanent:
		what = "refused for good"
	case e.Outcome == Fail:
		what = "not done"
	case e.ServerTimeout:
		what = "outcome unknown (server timeout)"
	}
	if e.Op == "" {
		return fmt.Sprintf("store: %s: %v", what, e.Cause)
	}
	return fmt.Sprintf("store: %s: %s: %v", e.Op, what, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// OutcomeOf classifies an error: nil is OK, an *Error says it itself, anything
// else is Unknown.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Outcome == Fail {
		return Fail
	}
	return Unknown
}

// IsPermanent reports whether err says that to send the request again is in vain.
func IsPermanent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Permanent
}

// MostNote is how many bytes of an error's text are kept.
const MostNote = 500

// NoteOf shortens an error to what a row holds: valid UTF-8, or the database refuses
// the whole batch.
func NoteOf(err error) string {
	s := strings.ToValidUTF8(err.Error(), "\uFFFD")
	for len(s) > MostNote {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// Refusals counts permanent refusals of one request. A single node can be wrong: one
// that was away may lack a table that all others have.
type Refusals int

// maxRefusals is how many nodes must agree.
const maxRefusals = 3

// Final takes the end of one copy, each sent to another node, and reports whether the
// last three were refused for good. Then who sends them should stop and return err.
func (r *Refusals) Final(err error) bool {
	if !IsPermanent(err) {
		*r = 0
		return false
	}
	*r++
	return *r >= maxRefusals
}

// IsServerTimeout reports whether err is the coordinator's own timeout or
// "unknown" answer.
func IsServerTimeout(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.ServerTimeout
}
