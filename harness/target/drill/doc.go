// Package drill makes bugs of the database appear on purpose, so that the checker can be tried
// on real ones, and users can see them. A drill is a scenario without workers: the harness is the client, step
// by step.
//
// Most drills are about CASSANDRA-12126, in a release that has it, or in one that is started
// with a Paxos variant that is documented to give up linearizability (docs/paxos.md has the
// commands and what was measured). The others are traps (traps.go): all there is to see is what
// becomes of a lease that is written in a certain way, or on nodes that are set up in a certain
// way (docs/releases.md).
//
// # CASSANDRA-12126
//
// A conditional write whose proposal was accepted by one replica only is neither
// done nor undone. Its coordinator gives it up ("timed out", outcome unknown). A
// later SERIAL read or rejected write through the other two replicas does not see
// it. On a sound variant that operation proposes an empty update with a higher
// ballot, which kills the accepted one for good. An unsafe variant leaves that
// round out. The next operation that asks the first replica finds the old proposal
// and completes it: a write that was given up, and seen not to have happened,
// comes back.
//
// # The recipe
//
// Nothing but links is touched (n1 coordinates the write; "n2 to n1" is all that
// n2 sends to n1, on any connection):
//
//  1. Hold n2 to n1 and n3 to n1. Send the write to n1. Its PREPARE arrives, the
//     promises are held.
//  2. On Paxos v1, which reads the row in a round of its own: deliver what is held,
//     hold on, and wait until the answer to that read is held too.
//  3. Hold n1 to n2 and n1 to n3; then let n2 to n1 and n3 to n1 pass. n1 now has
//     its quorum and proposes, to nobody but itself.
//  4. Wait for the coordinator's timeout. Look whether the attempt is armed.
//  5. Observe through n2. Heal. Observe through n1.
//
// What to wait for is looked at, not guessed: the promises in the replicas' own
// state tables, the held bytes on the links' counters.
//
// # Armed
//
// An attempt counts only if the accident is seen to have been set up: n1 has
// accepted a proposal that n2 and n3 have not, by each node's own table
// system.paxos, the write ended with the coordinator's own timeout, and n2
// answered while n1 was cut off. Anything else would let a run pass that tested
// nothing. Each attempt is a fault with this evidence in the history, and one more
// sums them up; the run demands that one, so that no armed attempt is INVALID.
//
// # Why two encodings
//
// The judge is the ordinary checker (P2) over an ordinary history of lock rows. For
// the first three drills the history is linearizable if a write of unknown outcome
// may take effect at any later time: the write simply happened between the two
// observations. So the open encoding, which is never wrong, cannot find the bug.
// The bounded encoding does: a coordinator that answers with its own timeout has
// ended the attempt, so the write took effect before that answer or never.
//
// # The lease with a TTL
//
// paxos-lease is found by the open encoding too: a renewal demands that the lease
// is there, so it cannot have happened after a read that found the lease expired.
// The core's own protocol cannot show this. Its rows never expire; a lease ends by
// another owner's takeover, a write, and a proposal older than a committed write is
// void on every variant. So this drill has a table of its own, as people write
// leases with the database's TTL: the columns of the version stay, the holder alone
// has a TTL. The expired row is then a version of its own (same fence, beat and
// attempt, no holder), and the expiry a change from one version to another like any
// other. It is recorded for what it is: a release that the holder asked for
// together with the grant, that the server carries out by itself and never answers.
// Its outcome is unknown and its invocation the grant's, so nothing is assumed about
// when it happens or whether.
//
// # The answer that is lost
//
// gocql 1.7 repeats whatever a retry policy lets it repeat, conditional statements too. The
// second copy finds the row as the first has set it and is rejected: the caller is told that
// the write was not applied, and it was. trap-driver-retries has the driver's session on links
// of its own (driver.go). They hold all answers. The one to PREPARE is delivered; when a node
// has answered EXECUTE, and a SERIAL read past the driver shows the row, the other links pass
// and this one closes. So the first copy was certainly carried out, its answer certainly not
// heard, and another copy can come through. An attempt counts if the links' counters say so;
// whether the driver repeats is not part of it. The record has what the driver said, as its
// caller knows nothing else: one send, and a rejection with the row that came with it.
//
// # The node that is killed
//
// A node that syncs its commit log periodically answers before a write can be replayed.
// trap-killed-node (killed.go) makes what it forgets the only thing that matters: n3 is cut off
// while a lease is taken through n2, so that n1 and n2 have it; n1 is killed when the client has its
// answer, n2 is cut off in n3's place, and n1, started again, and n3 are asked. An attempt counts if
// n1's gossip generation is a later one, n3 knew nothing of the row when n1 was killed, and n2 learnt
// nothing more of it. Whether n1 forgets is not part of it. The same on nodes that sync before
// they answer is the run beside it.
//
// # What is judged
//
// There are no workers, no sink and no deadlines here. The header promises P1, P2,
// P8 and P9 only; the rest is n/a rather than passed with nothing to look at.
// Before and after the attempts a plain lock cycle goes through each node.
package drill
