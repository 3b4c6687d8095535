// Package httpsink is the fenced sink of a remote service: the rules of core/sink as
// headers of HTTP requests, a client that speaks them (Sink), and a handler that enforces
// them in front of any sink.Sink (Handler; core/cmd/httpsinkd serves a durable one).
//
// # The contract
//
// What a caller claims is in the headers of its request, so that a service can check it
// before it looks at the body, whatever that is:
//
//	Fencing-Resource  what the effect is done to: up to 512 printable ASCII characters
//	Fencing-Token     the token of the caller's grant: a whole number above 0, in decimal, up to 2^63-2
//	Fencing-Issuer    whose token it is; without it, the resource's own (of its name)
//	Idempotency-Key   of an effect: the same in each copy of it, and in no other effect
//	Fencing-Intent    of an effect: what of it makes it the same again (64 hex digits, a SHA-256);
//	                  without it, its body
//	Fencing-Value     of an effect: the resource's new value, a whole number; without it, 0
//
// The scheduler's HTTP jobs (core/service/handlers) send the first two and the key, so that this
// handler fences them as it is.
//
//	POST /raise    makes the token known
//	POST /effects  an effect; the body, up to 1 MiB, is kept as the resource's payload
//	GET  /state    the resource's state, as JSON; with Idempotency-Key, which may come more than
//	               once, also which of these were accepted
//	GET  /ledger   its ledger, as JSON; ?after=SEQ for what comes after an entry
//	POST /forget   drops the keys accepted before the body's {"before": RFC 3339}
//	POST /retire   removes what is over: {"issuer": …, "below": its lowest token that may still be
//	               at work, "resources": […]} (sink.Retirer)
//
// A decision has these headers in its answer. The status alone decides nothing, as proxies
// and gateways answer with statuses too: an answer without Fencing-Result is no decision.
//
//	Fencing-Result  status
//	applied         200     accepted, or the token raised
//	duplicate       200     accepted before, with this intent
//	stale           412     a higher token was seen before, or keys were forgotten since: refused
//	conflict        422     the key was used before for another intent: refused
//	issuer          409     the resource is bound to another issuer (Fencing-Issuer): refused
//	invalid         400     can never be carried out; nothing was done. The body says why
//
// Each answer repeats Fencing-Resource, Fencing-Token and Idempotency-Key as the request had them
// (of what may come more than once, nothing). What does not is the answer to another request: of
// a cache, or of a proxy that mixes its connections up. The client asks again. A service must
// repeat them before its clients ask for it: upgrade services first.
//
// A request whose body did not arrive is answered without a decision (503): its next copy may
// arrive. No answer may be cached (Cache-Control: no-store).
//
//	Fencing-Seen    the highest token that the sink knows; lower ones are refused
//	Fencing-First   the token of the accepted effect (applied, duplicate, conflict)
//	Fencing-Seq     the number of the decision in the resource's ledger
//
// # No answer
//
// A request without a decision is unknown: it may have been carried out, and it may still be,
// when what held it up lets go. The client sends the identical request again, on another
// connection, until it is answered or its context ends, and the caller settles an unknown
// effect by the same call again: an effect that was accepted is then a duplicate. Only a
// request that certainly left nothing behind is a failure: no connection was made, or the
// first and only copy was refused. Some answers without a decision would be given to the next
// copy too: wrong URL (301, 308, 404, 405, 410, 501), no right (401, 403), too large (413, 414,
// 431). The client returns them at once, with what to do (store.IsPermanent). Go's own transport
// repeats requests that it takes for idempotent; it is kept from that, since a copy that nobody
// counts makes a stale answer look final that is not.
package httpsink
