package postgressink

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// header is a resource's row, locked. A new resource has seq 0.
type header struct {
	issuer       string
	highest, seq int64
}

// keyRow is the row of an accepted key.
type keyRow struct {
	token, seq  int64
	fingerprint []byte
	attempt     uuid.UUID
}

// call is one Raise or Accept.
type call struct {
	resource, issuer string
	token            int64
	effect           *sink.Effect // nil: Raise, or Forget
	forget           bool
	fingerprint      []byte
	attempt          uuid.UUID

	uncertain int // copies whose COMMIT was sent and not answered
}

func newCall(resource, issuer string, token int64, e *sink.Effect) (*call, error) {
	c := &call{resource: resource, issuer: issuer, token: token, effect: e, attempt: uuid.New()}
	if err := sink.Check(resource, issuer, token, e); err != nil {
		return nil, c.refused(err)
	}
	if e != nil {
		c.fingerprint = e.Fingerprint()
	}
	return c, nil
}

// decision is what follows from a locked header and the key's row.
type decision struct {
	answer sink.Answer
	err    error
	// raise: the token becomes the highest, which is an entry of its own in the
	// ledger unless the effect is accepted too.
	raise, accept bool
}

// changes tells whether there is something to commit.
func (d decision) changes() bool { return d.raise || d.accept }

// decide: the token is raised first, then an accepted key answers, then a low token
// is stale, else the effect is accepted.
func (c *call) decide(h header, k *keyRow) decision {
	if h.issuer != c.issuer {
		return decision{err: c.refused(&sink.IssuerError{Resource: c.resource, Bound: h.issuer, Used: c.issuer})}
	}
	if k != nil && k.attempt == c.attempt { // an earlier copy of this very call
		return decision{answer: sink.Answer{Result: sink.Applied, FirstToken: k.token, Seen: h.highest, Seq: k.seq}}
	}
	d := decision{raise: c.token > h.highest, accept: c.effect != nil && k == nil && c.token >= h.highest}
	d.answer = sink.Answer{Seen: max(h.highest, c.token), Seq: h.seq}
	if d.changes() {
		d.answer.Seq++
	}
	switch {
	case d.accept:
		d.answer.Result, d.answer.FirstToken = sink.Applied, c.token
	case k != nil && bytes.Equal(k.fingerprint, c.fingerprint):
		d.answer.Result, d.answer.FirstToken, d.answer.Seq = sink.Duplicate, k.token, k.seq
	case k != nil:
		d.answer.Result, d.answer.FirstToken = sink.Conflict, k.token
	case c.token < h.highest:
		d.answer.Result = sink.Stale
		if c.uncertain > 0 {
			d.err = &store.Error{Op: c.op(), Outcome: store.Unknown, Cause: sink.ErrStaleAfterUnknown}
		}
	default: // a raise
		d.answer.Result = sink.Applied
	}
	return d
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
	switch {
	case c.forget:
		return "forget keys of " + c.resource
	case c.effect == nil:
		return fmt.Sprintf("raise %s to %d", c.resource, c.token)
	}
	return fmt.Sprintf("accept %s on %s with token %d", c.effect.Key, c.resource, c.token)
}
