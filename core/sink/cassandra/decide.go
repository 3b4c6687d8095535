package cassandrasink

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// view is what a decision is made on.
type view struct {
	header sink.Header
	key    *sink.Accepted // nil: does not exist, or was not looked for
	// dropped is up to which entry the ledger was dropped.
	dropped int64
	// serial: header and key are of one linearizable look, so that the key's
	// absence is a fact.
	serial bool
}

// call is one Raise or Accept.
type call struct {
	sink.Call
	attempt string

	uncertain   int  // copies that may have been applied
	unanswered  bool // one of them was not answered by its coordinator
	lastTimeout bool
}

func newCall(of sink.Call) (*call, error) {
	if err := of.Check(); err != nil {
		return nil, &store.Error{Op: of.String(), Outcome: store.Fail, Cause: err}
	}
	return &call{Call: of, attempt: uuid.NewString()}, nil
}

// note counts a copy that ended in an error.
func (c *call) note(err error) {
	if store.OutcomeOf(err) == store.Fail {
		c.lastTimeout = false
		return
	}
	c.uncertain++
	c.lastTimeout = store.IsServerTimeout(err)
	c.unanswered = c.unanswered || !c.lastTimeout
}

// evaluate decides. ok is false if the decision changes nothing and the view is not
// linearizable, so that a better look is needed; a batch decides itself whether what it
// rests on was true.
func (c *call) evaluate(v view) (d sink.Decision, ok bool) {
	if v.key != nil && v.header.Issuer == "" {
		return sink.Decision{Err: errors.New("there is a row for the key but no header: the header was removed by something else than this program")}, v.serial
	}
	d = sink.Decide(v.header, v.key, c.Call)
	return d, d.Kind != "" || v.serial
}

// answer is the call's end by a decision that changes nothing.
func (c *call) answer(d sink.Decision) (sink.Answer, error) {
	issuer := (*sink.IssuerError)(nil)
	switch {
	case errors.As(d.Err, &issuer):
		return sink.Answer{}, &store.Error{Op: c.String(), Outcome: store.Fail, Cause: issuer}
	case d.Err != nil:
		return sink.Answer{}, &store.Error{Op: c.String(), Outcome: store.Unknown, Cause: d.Err}
	case c.uncertain > 0:
		return d.Answer, sink.Unsettled(c.String(), d.Answer)
	}
	return d.Answer, nil
}

const (
	insertHeader = "INSERT INTO sink (resource, kind, seq, key, issuer, highest, last_seq, value, payload) VALUES (?, 0, 0, '', ?, ?, ?, ?, ?) IF NOT EXISTS"
	ifHeader     = " WHERE resource = ? AND kind = 0 AND seq = 0 AND key = '' IF issuer = ? AND highest = ? AND last_seq = ?"
	raiseHeader  = "UPDATE sink SET highest = ?, last_seq = ?" + ifHeader
	writeHeader  = "UPDATE sink SET highest = ?, last_seq = ?, value = ?, payload = ?" + ifHeader
	sealHeader   = "UPDATE sink SET highest = ?, last_seq = ?, entry_seq = ?" + ifHeader
	insertKey    = "INSERT INTO sink (resource, kind, seq, key, fence, fingerprint, attempt, entry_seq, at) VALUES (?, 1, 0, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
	insertRaise  = "INSERT INTO sink (resource, kind, seq, key, issuer, fence, entry, at) VALUES (?, 2, ?, '', ?, ?, 'raise', ?)"
	insertSeal   = "INSERT INTO sink (resource, kind, seq, key, issuer, fence, entry, at) VALUES (?, 2, ?, '', ?, ?, 'seal', ?)"
	insertAccept = "INSERT INTO sink (resource, kind, seq, key, issuer, fence, entry, effect_key, value, at) VALUES (?, 2, ?, '', ?, ?, 'accept', ?, ?, ?)"
)

// statements returns the batch of a decision on a header, whose row comes first: a batch is
// routed by its first statement and rejected by the first condition that fails.
func (c *call) statements(old sink.Header, d sink.Decision, now time.Time) []store.Statement {
	accept, h := d.Kind == sink.KindAccept, d.Header
	value, payload := int64(0), []byte{}
	if accept {
		value, payload = c.Effect.Value, append(payload, c.Effect.Payload...)
	}
	first := store.Statement{Partition: []any{c.Resource}}
	seen := []any{c.Resource, old.Issuer, old.Highest, old.Seq}
	switch {
	case old.Issuer == "":
		first.CQL, first.Args = insertHeader, []any{c.Resource, h.Issuer, h.Highest, h.Seq, value, payload}
	case accept:
		first.CQL, first.Args = writeHeader, append([]any{h.Highest, h.Seq, value, payload}, seen...)
	case h.Sealed:
		first.CQL, first.Args = sealHeader, append([]any{h.Highest, h.Seq, h.Seq}, seen...)
	default:
		first.CQL, first.Args = raiseHeader, append([]any{h.Highest, h.Seq}, seen...)
	}
	if !accept {
		entry := insertRaise
		if h.Sealed {
			entry = insertSeal
		}
		return []store.Statement{first, {CQL: entry, Args: []any{c.Resource, h.Seq, h.Issuer, h.Highest, now}}}
	}
	return []store.Statement{
		first,
		{CQL: insertKey, Args: []any{c.Resource, c.Effect.Key, c.Token, c.Effect.Fingerprint(), c.attempt, h.Seq, now}},
		{CQL: insertAccept, Args: []any{c.Resource, h.Seq, h.Issuer, h.Highest, c.Effect.Key, value, now}},
	}
}
