// Package past says what happened in a run, as its history shows it. It judges no property and
// imports none of the checker's other packages.
//
// [New] builds a [Past] from the history alone, at once, each part from those before it:
//
//   - operations: every invoke joined with its end, filed by row, resource, job and order;
//   - chains: the writes of each row (a lock, or a shard's header) that took effect, walked back
//     from the sealed row (chain.go), with what each version was shown by (rows.go);
//   - grants: who held a row from when to when, by which answer, with which deadline (grants.go);
//   - jobs: the batches of each shard in the order of its chain are the life of every job in it
//     (replay.go). What breaks the rules of that life is a [Finding], with the property for which
//     it counts;
//   - ledgers: the order in which the sink accepted effects, and who asked for them (ledger.go);
//   - times: faults, deaths, when nobody could reach a quorum, who waited for what, successes,
//     and what was asked for meanwhile (reach.go, waiting.go, demand.go).
//
// Nothing is changed afterwards, so checks may read it side by side. What costs much and few
// runs need (the demands) is computed when it is first asked for, once.
//
// Times are nanoseconds of the history's own clock ([history.Event.TS]) unless a name ends in MS.
package past
