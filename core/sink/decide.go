package sink

import "bytes"

// Header is what a sink keeps of a resource for its decisions; the zero Header is a
// resource that was never used.
type Header struct {
	Issuer  string
	Highest int64 // token: lower ones are refused
	Seq     int64 // of the last entry in the ledger
	// Sealed: a Forget raised Highest above the tokens that it had to refuse, and no call
	// has come with Highest itself yet.
	Sealed bool
}

// Accepted is what a sink keeps of an accepted key.
type Accepted struct {
	Token, Seq  int64
	Fingerprint []byte // of the effect's intent
	// Own: accepted by an earlier copy of the very call that is decided.
	Own bool
}

// Call is a Raise, or an Accept if it has an effect.
type Call struct {
	Resource, Issuer string
	Token            int64
	Effect           *Effect
}

// Decision is what follows from a call: the answer, and what must be stored with it in
// one atomic step.
type Decision struct {
	Answer Answer
	// Err is an *IssuerError: nothing is stored and there is no answer.
	Err error
	// Kind is that of the entry to add to the ledger, with the number Header.Seq and the
	// token Header.Highest: KindRaise, KindSeal, or KindAccept with the effect's key and
	// value. "" if nothing changes.
	Kind string
	// Header is the resource's afterwards.
	Header Header
}

// Decide is the rule of every sink (see the package comment). k is what is kept of the
// effect's key, nil if it was not accepted. Header and key are of one instant, at which
// the decision is stored.
func Decide(h Header, k *Accepted, c Call) Decision {
	if h.Issuer != "" && h.Issuer != c.Issuer {
		return Decision{Header: h, Err: &IssuerError{Resource: c.Resource, Bound: h.Issuer, Used: c.Issuer}}
	}
	if k != nil && k.Own {
		return Decision{Header: h, Answer: Answer{Result: Applied, FirstToken: k.Token, Seen: h.Highest, Seq: k.Seq}}
	}
	d := Decision{Header: h}
	switch {
	case c.Effect != nil && k == nil && c.Token >= h.Highest:
		d.Kind = KindAccept
	case c.Token > h.Highest || h.Sealed && c.Token == h.Highest:
		d.Kind = KindRaise
	}
	if d.Kind != "" {
		d.Header = Header{Issuer: c.Issuer, Highest: c.Token, Seq: h.Seq + 1}
	}
	d.Answer = Answer{Result: Applied, Seen: d.Header.Highest, Seq: d.Header.Seq}
	switch {
	case d.Kind == KindAccept:
		d.Answer.FirstToken = c.Token
	case k != nil && bytes.Equal(k.Fingerprint, c.Effect.Fingerprint()):
		d.Answer.Result, d.Answer.FirstToken, d.Answer.Seq = Duplicate, k.Token, k.Seq
	case k != nil:
		d.Answer.Result, d.Answer.FirstToken = Conflict, k.Token
	case c.Token < h.Highest:
		d.Answer.Result = Stale
	}
	return d
}

// Seal is the rule of Forget: it refuses the tokens that calls have come with, so that no
// late copy of one is accepted after its key is gone, and no other. Sealed twice is as
// sealed once: grants to come are not locked out.
func Seal(h Header) Decision {
	if h.Issuer == "" || h.Sealed || h.Highest > MaxToken { // a token that high is never taken
		return Decision{Header: h}
	}
	return Decision{Kind: KindSeal, Header: Header{Issuer: h.Issuer, Highest: h.Highest + 1, Seq: h.Seq + 1, Sealed: true}}
}
