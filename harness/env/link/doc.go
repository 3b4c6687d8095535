// Package link is the network between the processes of a run: one TCP proxy a
// directed link, each direction of which can be passed, delayed, stalled, dropped
// or closed at any moment, with an exact account of what that did.
//
// # What carries the bytes
//
// Toxiproxy, as a library: each link owns a Toxiproxy proxy, and each direction of
// each connection is one of its ToxicLinks, whose chain holds one toxic of our
// own. Three parts of Toxiproxy are deliberately not used.
//
//   - Editing chains. AddToxic and RemoveToxic hold the proxy's lock until each
//     stream has been interrupted, and a stream that is blocked on its receiver
//     never answers: the proxy then hangs for good. So the toxic is installed before
//     the first connection and stays; what changes is a mode behind an atomic
//     pointer, with a channel that is closed to wake those who wait under the old one.
//   - The accept loop. It dials the upstream in the loop, without a timeout: one
//     unreachable node stops the link for all its clients. Here each client is
//     dialled for on its own, within Options.DialTimeout, and handed to
//     ToxicCollection.StartLink, which is all that the loop does besides.
//   - Ownership of the sockets. The streams get them behind a reader that counts
//     and a writer that is a gate, so that half-closes and resets pass through, and
//     so that a switch is complete when it returns: what the toxic has let go may
//     still be in Toxiproxy's hands, therefore the gate asks the mode once more
//     before each write, and a write that blocks on a full receiver is interrupted.
//
// There is no HTTP server, and no logging: the logger handed to Toxiproxy is
// silent, so zerolog's global level is left alone.
//
// # Directions
//
// The connecting side of a link is From. Up is what it sends, Down what it is
// answered. Cutting Down alone lets requests be executed whose answers never come:
// the source of unknown outcomes. What one node sends to another travels on the
// connections of both, so a one-way partition is Flow(a, b): Up of a->b and Down of
// b->a.
//
// # What peers see
//
// Stall and Drop do not keep connections from being made: the kernel accepts, the
// link connects to the upstream, and then nothing arrives, like a network that dies
// just behind the handshake. They are counted (ConnsBlackholed). Bytes, and a FIN or
// reset behind them, count as under way in their direction: Stall holds them, Drop
// loses the bytes and holds the end. A direction that is stalled for long holds up
// its sender after Options.MaxHeld, as a full send buffer would.
//
// A client that Close refuses, or whose upstream cannot be reached, is accepted and
// then reset: listeners stay open so that refusals can be counted and a port cannot be
// lost. A program that takes a reset for more than a refusal needs Spec.Patience. Whenever
// bytes are lost, both peers get a reset, never an orderly end.
//
// # Probes
//
// A Probe is a connection through the link with both ends in the harness's hands. What it
// shows of a direction it shows at once, on an idle link too, and measured by one clock.
// Its bytes are in no counter.
//
// # Guarantees
//
// When Apply returns nil, no byte is written to a receiver against the new
// modes, whatever was under way. Without Drop and Close, any sequence of modes
// delivers all bytes in order, once. Counters are consistent: received = passed +
// dropped + lost + pending in each snapshot. PassedBytes are those that the receiver's kernel
// took. Locks are never held across anything that can block, and every operation
// is bounded by a watchdog: its expiry is a *WatchdogError, and a run that sees one
// proves nothing.
//
// A Tap reads along what is said on a link, whatever becomes of the bytes: packages cqltap
// and httptap make requests and answers of it.
//
// Jitter is drawn from a generator per mode, link, connection number and direction,
// so that it does not depend on what other connections do.
package link
