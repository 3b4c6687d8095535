package sink

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// Result is a sink's decision.
type Result int

// The decisions.
const (
	// Applied: the effect was accepted by this call, or the token raised (or
	// already known to be the highest).
	Applied Result = iota + 1
	// Duplicate: an effect with this key and intent was accepted before;
	// Answer.FirstToken is the token that it carried.
	Duplicate
	// Stale: a higher token was seen before, or keys were forgotten since this one was;
	// lower ones than Answer.Seen are refused.
	Stale
	// Conflict: the key was used before for another intent.
	Conflict
)

var results = [...]string{Applied: "applied", Duplicate: "duplicate", Stale: "stale", Conflict: "conflict"}

// ResultOf is the result with that name; 0: there is none.
func ResultOf(name string) Result { return Result(max(slices.Index(results[:], name), 0)) }

func (r Result) String() string {
	if r > 0 && int(r) < len(results) {
		return results[r]
	}
	return fmt.Sprintf("result(%d)", int(r))
}

// Answer is the sink's answer to Raise or Accept.
type Answer struct {
	Result Result
	// FirstToken is the token of the accepted effect (Applied, Duplicate, Conflict).
	FirstToken int64
	// Seen is the highest token that the sink knew when it answered; after a Forget, one
	// more. Lower ones are refused.
	Seen int64
	// Seq is the ledger's sequence number of the decision: of the acceptance
	// (Applied, Duplicate), of the raise, or the last one known (Stale, Conflict).
	Seq int64
}

// Effect is a fenced write.
type Effect struct {
	// Key is the idempotency key: one effect is accepted for each key.
	Key string
	// Intent describes the operation and its arguments, never values computed
	// from state that was read: a legitimate re-run computes other values. Two
	// effects with one key and different intents are a Conflict.
	Intent string
	// Value is the resource's new value.
	Value int64
	// Payload is stored beside Value; nil is stored as empty.
	Payload []byte
}

// State is what a holder reads before it acts; in JSON as core/sink/http sends it.
type State struct {
	Value   int64  `json:"value"`
	Payload []byte `json:"payload"`
	// Seen is the highest token seen, Seq the last ledger sequence number.
	Seen int64 `json:"seen"`
	Seq  int64 `json:"seq"`
	// Issuer is the lock or shard whose tokens the resource accepts; "" while
	// it was never used.
	Issuer string `json:"issuer"`
	// Applied maps those of the asked keys that were accepted to the token of
	// their acceptance.
	Applied map[string]int64 `json:"applied"`
}

// Kinds of ledger entries.
const (
	KindRaise  = "raise"
	KindAccept = "accept"
	KindSeal   = "seal" // Forget refuses what is below the token
)

// Entry is one line of a resource's ledger: the sink's decisions that changed
// it, in the order in which they were made. Seq has no gaps.
type Entry struct {
	Seq    int64  `json:"seq"`
	Kind   string `json:"kind"` // KindRaise, KindAccept or KindSeal
	Issuer string `json:"issuer"`
	Token  int64  `json:"token"`
	Key    string `json:"key,omitempty"`   // KindAccept only
	Value  int64  `json:"value,omitempty"` // KindAccept only
	// At is when the sink decided, in ns on the CLOCK_MONOTONIC of its own host, so within one
	// boot; 0 where no one process decides, or as it was not written down.
	At int64 `json:"at,omitempty"`
}

// Sink accepts fenced side effects. Implementations are safe for concurrent
// use. Errors are classified by store.OutcomeOf; an *IssuerError is a Fail. A
// Stale answer that comes together with an error is unknown: an earlier copy
// of the request may have been accepted.
type Sink interface {
	// Raise makes token the highest that the resource has seen, so that lower
	// ones are refused from its return on. A holder calls it on grant and waits
	// for it before it reads the state that it will act on.
	Raise(ctx context.Context, resource, issuer string, token int64) (Answer, error)
	// Accept raises the token and then, in the same atomic decision, accepts
	// the effect or refuses it. It resends the identical request until it is
	// answered or ctx ends; then the outcome is unknown, and the caller must
	// settle it (call Accept again with the same effect) before its next Read
	// under this token, or stop using the token.
	Accept(ctx context.Context, resource, issuer string, token int64, e Effect) (Answer, error)
	// Read returns the state and which of the keys were accepted. It is
	// linearizable with Raise and Accept.
	Read(ctx context.Context, resource string, keys ...string) (State, error)
	// Ledger returns the entries in the order of Seq, without those that Forget dropped.
	Ledger(ctx context.Context, resource string) ([]Entry, error)
	// Forget drops the keys that were accepted before the instant and returns
	// how many, and the entries of the ledger that were made before it, up to the last
	// one, which stays. It first refuses the highest token that was seen, since a late copy
	// of an accepted effect could otherwise be accepted again (Seal): a holder that
	// is at work then gets Stale, the next grant does not. Call it with an instant
	// further back than the longest time for which anything may be retried.
	Forget(ctx context.Context, resource string, before time.Time) (int, error)
}

// Pager is a Sink that reads a part of a ledger without the rest of it.
type Pager interface {
	// LedgerAfter returns up to n entries of the ledger, from the first that follows number
	// after and was not dropped. n is at least 1.
	LedgerAfter(ctx context.Context, resource string, after int64, n int) ([]Entry, error)
}

// LedgerAfter is that of a Pager; of any other sink it reads the whole ledger.
func LedgerAfter(ctx context.Context, s Sink, resource string, after int64, n int) ([]Entry, error) {
	if p, ok := s.(Pager); ok {
		return p.LedgerAfter(ctx, resource, after, n)
	}
	all, err := s.Ledger(ctx, resource)
	if err != nil {
		return nil, err
	}
	rest := all[sort.Search(len(all), func(i int) bool { return all[i].Seq > after }):]
	return rest[:min(n, len(rest))], nil
}

// IssuerError is a token of another issuer than the one that the resource is
// bound to. Tokens of different locks or shards are not comparable; to fence a
// resource by another lock, use another resource.
type IssuerError struct {
	Resource    string
	Bound, Used string
}

func (e *IssuerError) Error() string {
	return fmt.Sprintf("sink: resource %q accepts tokens of issuer %q only, not of %q: give each issuer a resource of its own", e.Resource, e.Bound, e.Used)
}

// MaxToken is the highest token that a sink takes: Forget must be able to refuse it.
const MaxToken = math.MaxInt64 - 1

// Check says what is wrong with a call that can never be carried out, for
// implementations.
func (c Call) Check() error {
	switch {
	case c.Resource == "" || c.Issuer == "":
		return fmt.Errorf("sink: resource %q, issuer %q: both must be named", c.Resource, c.Issuer)
	case IsFloor(c.Resource):
		return fmt.Errorf("sink: resource %q: names that begin with %q are the sink's own", c.Resource, floorPrefix)
	case c.Token < 1 || c.Token > MaxToken:
		return fmt.Errorf("sink: token %d: tokens are between 1 and %d", c.Token, int64(MaxToken))
	case c.Effect != nil && c.Effect.Key == "":
		return errors.New("sink: the effect has no idempotency key: without one a resend could not be told from a second effect")
	}
	return nil
}

// String names the call for errors.
func (c Call) String() string {
	if c.Effect == nil {
		return fmt.Sprintf("raise %s to %d", c.Resource, c.Token)
	}
	return fmt.Sprintf("accept %s on %s with token %d", c.Effect.Key, c.Resource, c.Token)
}

// Fingerprint is the digest of the intent that a sink stores: two effects with one key and different
// fingerprints are a Conflict.
func (e *Effect) Fingerprint() []byte {
	sum := sha256.Sum256([]byte(e.Intent))
	return sum[:]
}

// ErrStaleAfterUnknown is the cause of the unknown outcome of a call that was
// answered Stale after an earlier copy of it had been lost from sight.
var ErrStaleAfterUnknown = errors.New("refused as stale, but an earlier copy of the request may have been accepted")

// Unsettled is the error of an answer to a call of which an earlier copy was lost from
// sight: nil, unless that copy may have been accepted all the same.
func Unsettled(op string, a Answer) error {
	if a.Result != Stale {
		return nil
	}
	return &store.Error{Op: op, Outcome: store.Unknown, Cause: ErrStaleAfterUnknown}
}

// Ended is the error of a call that ended without an answer: its context ended, or no other
// copy would help. So many of its copies may have been carried out.
func Ended(ctx context.Context, op string, last error, uncertain int) *store.Error {
	e := &store.Error{Op: op, Outcome: store.Fail, Cause: last}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(last, cause) {
		e.Cause = errors.Join(cause, last)
	}
	if uncertain > 0 {
		e.Outcome = store.Unknown
	}
	return e
}

// OutcomeOf classifies a call: ok if the effect is in place (Applied,
// Duplicate), fail if it is certainly not, else unknown.
func OutcomeOf(a Answer, err error) store.Outcome {
	switch {
	case errors.As(err, new(*IssuerError)):
		return store.Fail
	case err != nil:
		return store.OutcomeOf(err)
	case a.Result == Applied || a.Result == Duplicate:
		return store.OK
	}
	return store.Fail
}

// Pause is the time between copies of a request that was answered by an error: 20 ms at first,
// doubling to 1 s, with jitter of half of it either way. The zero value is ready.
type Pause struct{ next time.Duration }

// Wait waits, or until ctx ends.
func (p *Pause) Wait(ctx context.Context) {
	d := max(p.next, 20*time.Millisecond)
	_ = clock.Go().Sleep(ctx, d/2+rand.N(d))
	p.next = min(2*d, time.Second)
}

// Retirer is a Sink whose resources can be removed for good, so that what is stored does
// not grow with every resource that was ever used.
type Retirer interface {
	// Retire removes resources that nobody will use again, keys, value and ledger, and
	// returns how many. below is a token of their issuer: no call with a lower one is at
	// work any more, or will be. It is kept for the issuer, as its floor, and never falls:
	// a resource that is not there takes no lower token of that issuer. A resource is
	// removed only if its highest token is lower than below, so no fence falls by its
	// removal, and a late Retire removes nothing that was used since; others are kept, and
	// so are those of another issuer. What was removed reads as never used.
	//
	// Do not retire what may be used again: of a removed key nobody knows that it was
	// accepted. Call it after the longest time for which anything may be retried, and again if it
	// failed. Of an issuer that retires one row remains.
	Retire(ctx context.Context, issuer string, below int64, resources ...string) (removed int, err error)
}

// floorPrefix begins the names under which sinks keep floors.
const floorPrefix = "\x01floor/"

// FloorOf is the name under which a sink keeps the floor of an issuer: as a header, whose
// highest token it is. No call may have it for its resource.
func FloorOf(issuer string) string { return floorPrefix + issuer }

// IsFloor tells whether a name is one of FloorOf.
func IsFloor(resource string) bool { return strings.HasPrefix(resource, floorPrefix) }

// Fresh is the header, for Decide, of a resource that is not there; floor is that of the
// call's issuer, 0 if it has none.
func Fresh(floor int64) Header { return Header{Highest: floor, Sealed: floor > 0} }

// CheckRetire says what is wrong with the arguments of a Retire, for implementations.
func CheckRetire(issuer string, below int64, resources []string) error {
	if issuer == "" {
		return errors.New("sink: retire: the issuer must be named")
	}
	if below < 1 || below > MaxToken {
		return fmt.Errorf("sink: retire below token %d: tokens are between 1 and %d", below, int64(MaxToken))
	}
	for _, r := range resources {
		if r == "" || IsFloor(r) {
			return fmt.Errorf("sink: retire %q: not the name of a resource", r)
		}
	}
	return nil
}
