package cassandrasink

import (
	"bytes"
	"errors"
	"time"

	"github.com/google/uuid"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// header is the header row of a resource.
type header struct {
	issuer       string
	highest, seq int64
}

// keyRow is the row of an accepted key.
type keyRow struct {
	token, seq  int64
	fingerprint []byte
	attempt     string
}

// view is what a decision is made on.
type view struct {
	header *header // nil: does not exist
	key    *keyRow // nil: does not exist, or was not looked for
	// serial: header and key are of one linearizable look, so that the key's
	// absence is a fact.
	serial bool
}

// call is one Raise or Accept.
type call struct {
	resource, issuer string
	token            int64
	effect           *sink.Effect // nil: Raise
	fingerprint      []byte
	attempt          string

	uncertain   int  // copies that may have been applied
	unanswered  bool // one of them was not answered by its coordinator
	lastTimeout bool
}

func newCall(resource, issuer string, token int64, e *sink.Effect) (*call, error) {
	c := &call{resource: resource, issuer: issuer, token: token, effect: e, attempt: uuid.NewString()}
	if err := sink.Check(resource, issuer, token, e); err != nil {
		return nil, &store.Error{Op: c.op(), Outcome: store.Fail, Cause: err}
	}
	if e != nil {
		c.fingerprint = e.Fingerprint()
	}
	return c, nil
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

// decision is what follows from a view: a batch to send, a better look, or the answer.
type decision struct {
	answer      sink.Answer
	err         error
	batch       *batch
	needsSerial bool
}

// evaluate decides: the token is raised first, then an accepted key answers,
// then a low token is stale, else the effect is accepted. An answer that changes
// nothing must come from a linearizable look; a batch decides itself whether what
// it rests on was true.
func (c *call) evaluate(v view) decision {
	d := c.onView(v)
	if d.batch == nil && d.err == nil && !v.serial {
		return decision{needsSerial: true}
	}
	return d
}

func (c *call) onView(v view) decision {
	h := v.header
	switch {
	case h != nil && h.issuer != c.issuer: // never changes
		issuer := &sink.IssuerError{Resource: c.resource, Bound: h.issuer, Used: c.issuer}
		return decision{err: &store.Error{Op: c.op(), Outcome: store.Fail, Cause: issuer}}
	case v.key != nil && h == nil:
		return decision{err: &store.Error{Op: c.op(), Outcome: store.Unknown,
			Cause: errors.New("there is a row for the key but no header: the header was removed by something else than this program")}}
	case v.key != nil && v.key.attempt == c.attempt:
		return decision{answer: sink.Answer{Result: sink.Applied, FirstToken: c.token, Seen: h.highest, Seq: v.key.seq}}
	case h == nil || h.highest < c.token:
		return decision{batch: &batch{old: h, accept: c.effect != nil && v.key == nil}}
	case c.effect == nil && h.highest == c.token:
		return decision{answer: sink.Answer{Result: sink.Applied, Seen: h.highest, Seq: h.seq}}
	case v.key != nil && bytes.Equal(v.key.fingerprint, c.fingerprint):
		return decision{answer: sink.Answer{Result: sink.Duplicate, FirstToken: v.key.token, Seen: h.highest, Seq: v.key.seq}}
	case v.key != nil:
		return decision{answer: sink.Answer{Result: sink.Conflict, FirstToken: v.key.token, Seen: h.highest, Seq: h.seq}}
	case c.token < h.highest:
		return decision{answer: sink.Answer{Result: sink.Stale, Seen: h.highest, Seq: h.seq}}
	}
	return decision{batch: &batch{old: h, accept: true}}
}

// batch is one conditional change: a raise or an acceptance.
type batch struct {
	old    *header // nil: the resource is new
	accept bool
}

func (b *batch) seq() int64 {
	if b.old == nil {
		return 1
	}
	return b.old.seq + 1
}

// after is the view once the batch is applied.
func (b *batch) after(c *call, before view) view {
	v := view{header: &header{issuer: c.issuer, highest: c.token, seq: b.seq()}, key: before.key}
	if b.accept {
		v.key = &keyRow{token: c.token, seq: b.seq(), fingerprint: c.fingerprint, attempt: c.attempt}
	}
	return v
}

const (
	insertHeader = "INSERT INTO sink (resource, kind, seq, key, issuer, highest, last_seq, value, payload) VALUES (?, 0, 0, '', ?, ?, ?, ?, ?) IF NOT EXISTS"
	ifHeader     = " WHERE resource = ? AND kind = 0 AND seq = 0 AND key = '' IF issuer = ? AND highest = ? AND last_seq = ?"
	raiseHeader  = "UPDATE sink SET highest = ?, last_seq = ?" + ifHeader
	writeHeader  = "UPDATE sink SET highest = ?, last_seq = ?, value = ?, payload = ?" + ifHeader
	insertKey    = "INSERT INTO sink (resource, kind, seq, key, fence, fingerprint, attempt, entry_seq, at) VALUES (?, 1, 0, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
	insertRaise  = "INSERT INTO sink (resource, kind, seq, key, issuer, fence, entry, at) VALUES (?, 2, ?, '', ?, ?, 'raise', ?)"
	insertAccept = "INSERT INTO sink (resource, kind, seq, key, issuer, fence, entry, effect_key, value, at) VALUES (?, 2, ?, '', ?, ?, 'accept', ?, ?, ?)"
)

// statements returns the batch, the header first: a batch is routed by its
// first statement and rejected by the first condition that fails.
func (b *batch) statements(c *call, now time.Time) []store.Statement {
	var value int64
	var payload []byte
	if b.accept {
		value, payload = c.effect.Value, c.effect.Payload
	}
	if payload == nil {
		payload = []byte{}
	}
	seq := b.seq()
	first := store.Statement{Partition: []any{c.resource}}
	switch {
	case b.old == nil:
		first.CQL, first.Args = insertHeader, []any{c.resource, c.issuer, c.token, seq, value, payload}
	case b.accept:
		first.CQL = writeHeader
		first.Args = []any{c.token, seq, value, payload, c.resource, c.issuer, b.old.highest, b.old.seq}
	default:
		first.CQL = raiseHeader
		first.Args = []any{c.token, seq, c.resource, c.issuer, b.old.highest, b.old.seq}
	}
	if !b.accept {
		return []store.Statement{first, {CQL: insertRaise, Args: []any{c.resource, seq, c.issuer, c.token, now}}}
	}
	return []store.Statement{
		first,
		{CQL: insertKey, Args: []any{c.resource, c.effect.Key, c.token, c.fingerprint, c.attempt, seq, now}},
		{CQL: insertAccept, Args: []any{c.resource, seq, c.issuer, c.token, c.effect.Key, value, now}},
	}
}
