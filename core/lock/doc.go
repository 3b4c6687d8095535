// Package lock gives out fenced leases on rows that are changed only by
// compare-and-set: core/store's lock rows, lightweight transactions in Cassandra.
//
// A lease is two protections. By time: while clocks run at about the right rate,
// no two holders of a resource are entitled at once. By number: each grant has a
// token greater than all before it, and what the holder changes can refuse a lower
// token than it has seen (core/sink); that needs no clock at all.
//
// # The row
//
// A row is a version (fence, beat, attempt, holder, ttl). It is never deleted and
// never expires by itself: a release sets the holder to "" and keeps the fence. So
// the fence rises for ever, and the token is the row's own fence plus one, taken by
// the very compare-and-set that makes the grant. Every change names the whole
// version that it replaces. Under one fence the beat rises with each change, so a
// version that was left never returns, and a request that comes late, from a
// stalled link or coordinator, finds its condition false for ever.
//
// All processes must agree by one quorum: SERIAL, or LOCAL_SERIAL of one data centre.
// core/store/cassandra sees to it.
//
// # Why no two holders are entitled at once
//
// A contender may take a held row over after it has seen its version stand still
// for the row's ttl on its own clock, counted from the return of the first look
// that showed it. The look was answered after the version was written, and the
// version was written after its holder first sent the request. A holder trusts its
// lease from its own clock before that first send, for ttl minus a margin. So on a
// perfect clock the holder ends a margin, and more, before anyone takes over; the
// margin, 2 x drift x ttl + base, covers clocks whose rates are wrong by up to
// drift. If the holder renews in time, the version changes and the contender's
// compare-and-set is rejected, whenever it arrives. Wall clocks are nowhere compared.
//
// What does not move the trust anchor: a resend, a SERIAL read, an answer that
// comes late. A renewal counts from the first send of the request whose effect is in
// the row. After the deadline the lease is lost, its context ends with a *LostError,
// and no late answer revives it; renewing fails without a request. A grant that
// becomes known after its deadline is given back and reported lost.
//
// The clock must go on while the machine sleeps (clock.System does), and its rate,
// not its setting, must be right within the bound. Where even that fails, as in a virtual
// machine that is paused or migrated, the token alone protects. Go's timers are not trusted: Valid looks at the clock, and a holder
// calls it immediately before it acts.
//
// # Unknown outcomes
//
// A request without an answer may have been applied, or may yet be. Its copy is sent
// again, identical and by another node, after each request timeout, until an answer
// settles it; the rules are in settle. What never settles stays unknown for ever and
// is reported so. A rejection of the only copy that may exist is plainly a failure; a
// rejection after a copy was lost from sight is read by the row that comes with it:
//
//	acquire on (f, b)  ok: the row carries the attempt; fail: the fence is f with a
//	                   later beat, or f+1 with another attempt; else unknown, not held
//	renew of (f, b)    ok: the row is (f, b+1) of the same attempt; else unknown, lost
//	release            ok: the row carries the release's attempt; else unknown
//
// A node that refuses to begin (it sees no quorum) is followed by the next one; if
// three refuse, the operation has failed. An acquire is then started over, unless all
// three refused for good (store.Error.Permanent): a missing permission or table is
// returned at once as ErrRefused. A renewal goes on until its deadline.
//
// An acquire that its caller abandons is settled and released in the background, at
// most one a resource and process; Close waits for it. A release waits for a renewal
// on its way. A lease whose last renewal is unsettled at its deadline is released by
// the version that a SERIAL read shows; that read can confirm the renewal but not
// refute it, so the release names the version, and is repeated if the renewal came
// through after all.
//
// # Waiting and fairness
//
// Within a process and resource one caller looks and the others queue behind it,
// first come, first served. A release hands the known row to the next caller, which
// tries at once without a read: stale knowledge only costs a rejected request. While
// another process holds the lock the looker reads the row (plain QUORUM; the
// compare-and-set decides) after 50 ms, then 100 ms, doubling to 2 s and an eighth of
// the row's ttl at most, with jitter, and starts over when the fence changes: a lock
// that changes hands quickly is looked at often, and a long lease costs little. A
// rejected request is itself a look.
//
// Between processes there is no queue. A process with its own queue would keep the
// lock from pollers for long, so after 4 grants or a ttl in a row (64 grants or 4 ttls
// while no other process was seen for a minute) it stands back once: for 50 ms and as
// long as the last grant lasted, but no longer than the pollers' longest pause.
//
// # Cost
//
// An uncontended acquire is one compare-and-set, plus a read if the row is not
// cached; a renewal one, a quarter to a third of the ttl after the one before (drawn
// again, so that leases granted together are not renewed together); a release one.
package lock
