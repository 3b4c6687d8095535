// Package sink is the receiving end of fenced side effects.
//
// A lease protects by time, and time can be wrong: a holder may be stopped for
// minutes between its last look at the clock and its write. The sink closes that
// gap. Every write carries the fencing token of its grant, and the sink refuses a
// token lower than the highest that it has seen; the lock hands out rising tokens.
//
// Each call is one atomic decision in this order:
//
//  1. raise the highest token seen to max(highest, token);
//  2. a key that was accepted before answers Duplicate (same intent) or Conflict
//     (another one), whatever the token: a resend after a lost answer is then precise;
//  3. a token below the highest answers Stale;
//  4. else the effect is accepted.
//
// [Decide] is this rule; implementations look a resource's rows up, ask it, and store
// what it says in the same atomic step.
//
// What no sink can do is to refuse a stale holder before it has seen a newer
// token. Hence a holder calls Raise on grant and waits for it before it reads the
// state that it will act on; with the state it reads which of its keys were
// accepted and skips those.
//
// Keys can be forgotten ([Sink].Forget). The tokens that calls have come with are refused
// then ([Seal]): a late copy of an accepted effect would else be accepted again.
//
// Resources that nobody will use again can be removed, without lowering a fence ([Retirer]).
//
// A stale answer certainly means "not accepted" only for the sole copy ever sent
// of a request. After a lost answer it comes with an error whose outcome is unknown.
//
// A resource is bound to the issuer of its tokens by the first call. Every raise
// and acceptance has a place in the resource's ledger, which says afterwards
// what was decided and in which order.
package sink
