// Package sinks is the table of the sinks that a run can use: they take the effects
// that its workers' locks and shards protect. SINK= chooses one, whatever the system
// under test, and everything else about a run stays as it is.
//
// A Kind says how its sink is started for a run, how a process connects to it, and how a
// known-broken variant gets past its rules. A sink is one of two:
//
//   - on the run's nodes (cassandra): nothing is started, and each worker has a link of
//     its own to each node for it, apart from those of the lock store;
//   - a service (all others): a separate process in the run's sandbox, which the runner
//     starts and stops, and to which each worker has one link. It can be killed and paused.
//
// Either way links of a worker that lead to the sink have the purpose fleet.SinkPurpose, by
// which faults find them; and what a service acknowledged has to outlive its process, so
// that the run's end can read the ledger from it whatever happened meanwhile.
//
// What a worker asked a service of the HTTP sink and was answered is read on its link
// (Kind.Answer), so that neither the worker's word nor the service's own stands alone.
//
// To add a kind: write core/sink/NAME, implement Kind.Start (osproc.Service does most of it)
// and Kind.Open, append its row to the table, and run make docs. If a machine may lack its
// server, add Kind.Find, and scripts/fetch-NAME with --if-needed. Its tests are the
// conformance suite core/sink/sinktest and TestUnfenced. The help, completion, doctor,
// the nightly run and docs follow from the row.
package sinks
