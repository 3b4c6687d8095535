package postgressink

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// call is one Raise or Accept, or what else changes rows.
type call struct {
	sink.Call
	what    string // names what is no Raise or Accept
	attempt uuid.UUID

	uncertain int // copies whose COMMIT was sent and not answered
	slow      int // tries in which the caller's function was cut off by RequestTimeout
}

func newCall(of sink.Call) (*call, error) {
	c := &call{Call: of, attempt: uuid.New()}
	if err := of.Check(); err != nil {
		return nil, c.refused(err)
	}
	return c, nil
}

// answer is the call's end by a decision that was committed, or changes nothing.
func (c *call) answer(d sink.Decision) (sink.Answer, error) {
	switch {
	case d.Err != nil:
		return sink.Answer{}, c.refused(d.Err)
	case c.uncertain > 0:
		return d.Answer, sink.Unsettled(c.op(), d.Answer)
	}
	return d.Answer, nil
}

// refused is a call that was not carried out and never will be.
func (c *call) refused(cause error) error {
	return &store.Error{Op: c.op(), Outcome: store.Fail, Cause: cause}
}

// ended is the error of a call whose context ended before it was answered.
func (c *call) ended(ctx context.Context, last error) error {
	e := &store.Error{Op: c.op(), Outcome: store.Fail, Cause: last}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(last, cause) {
		e.Cause = errors.Join(cause, last)
	}
	if c.uncertain > 0 {
		e.Outcome = store.Unknown
	}
	return e
}

func (c *call) op() string {
	if c.what != "" {
		return c.what
	}
	return c.String()
}
