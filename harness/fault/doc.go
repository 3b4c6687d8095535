// Package fault is the faults that a run can inject, as plain values.
//
// Each kind of fault is a row (Kind), registered by the file with its code: what it acts on,
// the parameters it takes, what a run must have for it, how it is proven, how a swarm draws
// it. Faults that act the same way share a file. Scenarios, their swarms, the lists and
// docs/scenarios.md read the rows. So does a checker, by way of a table that is generated from
// them into package history: it has to judge histories without the harness.
//
// A Spec (from a scenario file) names a fault with its targets; New makes the
// value. Inject puts it in force and returns an Active, which proves that the
// fault bit (Probe), ends it (Heal) and proves that it is over (After). A fault that
// cannot prove itself makes the run INVALID: a partition that was never in force would
// otherwise be one more PASS.
//
// # Proofs
//
// The row of each fault says what must be seen of it. Nobody under test is asked:
// the harness looks into /proc, at the counters of its links, and into rows, and it has
// connections of its own. A trial is a probe in each link, both ends of which are the
// harness's, so that each direction testifies for itself though nobody else may use it.
// Doors are the services behind links, asked through them as clients ask. Reads are SERIAL
// reads through nodes. What must not be possible under a fault is tried before it and
// afterwards too; so Inject takes its control measurements first.
//
// # Actions
//
// All that a fault does to the world goes through Env.do. A known-broken harness leaves the
// actions of one family of faults out (Env.Inert); the proofs stay as they are.
//
// Every operation is bounded by a watchdog; the tool kills and signals only
// processes that it started.
//
// To add a fault: register a Kind in an init and write a Fault whose Inject changes the world
// by Env.do alone, then make docs. A new Family needs a known-broken harness that leaves it out
// (harness/target/system, variants_harness.go); a new parameter is a field of Spec and a row of
// Params.
package fault
