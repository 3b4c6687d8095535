// Package checker turns a history into a verdict: which of the properties
// (docs/properties.md) hold, and if one does not, the few events that show it.
//
// It needs nothing but the history. The order of a lock's grants comes from the
// row itself: every compare-and-set records the whole version that it named and
// the whole version that it set, versions are unique, and the run's last CAS
// seals the row. So the writes that took effect are a chain that can be walked
// back from the sealed row in linear time; being in it proves an operation whose
// outcome was unknown, not being in it refutes it for ever. The order of the
// side effects comes from the sink's ledger in the same way.
//
// A shard's header is such a row too. What the batches of its chain say that they do
// to jobs is replayed: the life of every job, which must be legal, lead to an end, and
// be what the rows show that are left.
//
// The linear-time checks come first because they name the two events that
// contradict each other. On a sealed row they decide: every write, read and
// rejection has its place in the chain. Porcupine runs beside them as a second,
// independent oracle, and alone over what they do not look at (the sink, rows
// without a seal), in two encodings of an unknown outcome:
//
//   - open: it may take effect at any later time. Never a false alarm, but blind
//     to a write that its coordinator gave up and that surfaces later;
//   - bounded: if the coordinator itself answered with a timeout, it took effect
//     before that answer or never. True on linearizable Paxos variants, and what
//     finds CASSANDRA-12126.
//
// Unknown outcomes are settled by the chain before Porcupine sees them, as about
// a dozen of them in one failing partition exceed any budget. It sees a row in
// segments, cut at places of the chain (docs/decisions/0012-segments.md). Its
// budget is CPU time. What it alone can judge and does not finish is never a pass:
// the verdict is then UNKNOWN. A history that could not have shown a violation, or
// that has lost events, is INVALID (P14).
//
// Recovery (P11) is judged against the clients that waited: only what certainly
// stood still, under somebody who was certainly able to act, counts. So a noisy
// machine cannot fail it, and what cannot be judged is counted with its reason.
// Statements (P13) are linted by their tokens.
//
// What a process says of itself is compared with what the harness read on its links, where
// it did (witness notes): the statements that were sent, and what the sink answered.
//
// A result's [Answer] is the verdict in words: for a FAIL what happened and, from the mechanisms
// that fit (see [Explain]), because of what; else what was missing, or what a PASS rests on.
// Everything that shows a verdict prints it first, and nothing else makes such a sentence.
//
// [CheckInChild] runs the check in a process of its own with a limit on memory
// and time, since the search can exceed either. [Watch] looks at a run that still goes on.
//
// This package is the face of the others: some seventy files import it alone, so its parts can move
// without them. Each of these knows only those after it: explain
// (ranking what explains a verdict), property (one file a property), linear (the search by
// Porcupine), past (what happened, derived once and then only read) and phrase (numbers in
// sentences). CONTRIBUTING.md tells how to add a property.
package checker
