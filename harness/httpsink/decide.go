package httpsink

import (
	"errors"
	"fmt"

	"fencepost/core/sink"
)

// resource is the state of one.
type resource struct {
	issuer  string
	highest int64
	value   int64
	seq     int64
	keys    map[string]accepted
}

// accepted is an effect that was.
type accepted struct{ token, seq, value int64 }

// call is a raise, or with a key an effect.
type call struct {
	Issuer string `json:"issuer"`
	Token  int64  `json:"token"`
	Key    string `json:"key"`
	Value  *int64 `json:"value"`
	Fenced *bool  `json:"fenced"` // default true
}

func (c call) check(effect bool) error {
	switch {
	case c.Issuer == "":
		return errors.New("issuer is missing: the lock that the token is of")
	case c.Token < 1:
		return fmt.Errorf("token %d: tokens are positive", c.Token)
	case effect && c.Key == "":
		return errors.New("key is missing: without an idempotency key a resend could not be told from a second effect")
	case effect && c.Value == nil:
		return errors.New("value is missing: what is written, a whole number")
	case !effect && (c.Key != "" || c.Value != nil || c.Fenced != nil):
		return errors.New("a raise has issuer and token, nothing else")
	}
	return nil
}

// decide is one atomic decision, by the rules of core/sink; log gets its entries.
// The caller holds the sink's mutex.
func (r *resource) decide(name string, c call, effect bool, log func(sink.Entry)) (sink.Answer, error) {
	if r.issuer == "" {
		r.issuer = c.Issuer
	}
	if r.issuer != c.Issuer {
		return sink.Answer{}, &sink.IssuerError{Resource: name, Bound: r.issuer, Used: c.Issuer}
	}
	add := func(e sink.Entry) {
		r.seq++
		e.Seq, e.Issuer, e.Token = r.seq, r.issuer, c.Token
		log(e)
	}
	old, known := r.keys[c.Key]
	known = known && effect
	accept := effect && !known && (c.Token >= r.highest || c.Fenced != nil && !*c.Fenced)
	if c.Token > r.highest {
		r.highest = c.Token
		if !accept { // the entry of an effect says it too
			add(sink.Entry{Kind: sink.KindRaise})
		}
	}
	switch {
	case accept:
		r.value = *c.Value
		add(sink.Entry{Kind: sink.KindAccept, Key: c.Key, Value: r.value})
		r.keys[c.Key] = accepted{token: c.Token, seq: r.seq, value: r.value}
		return sink.Answer{Result: sink.Applied, FirstToken: c.Token, Seen: r.highest, Seq: r.seq}, nil
	case known && old.value == *c.Value:
		return sink.Answer{Result: sink.Duplicate, FirstToken: old.token, Seen: r.highest, Seq: old.seq}, nil
	case known:
		return sink.Answer{Result: sink.Conflict, FirstToken: old.token, Seen: r.highest, Seq: r.seq}, nil
	case c.Token < r.highest:
		return sink.Answer{Result: sink.Stale, Seen: r.highest, Seq: r.seq}, nil
	}
	return sink.Answer{Result: sink.Applied, Seen: r.highest, Seq: r.seq}, nil // a raise
}
