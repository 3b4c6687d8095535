// Package fault is the faults that a run can inject, as plain values.
//
// A Spec (from a scenario file) names a fault with its targets; New makes the
// value. Inject puts it in force and returns an Active, which proves that the
// fault bit (Probe: bytes held or dropped on the very links that were cut,
// process state, answers through the nodes concerned) and ends it (Heal). A fault
// that cannot prove itself makes the run INVALID: a partition that was never in
// force would otherwise be one more PASS.
//
// Every operation is bounded by a watchdog; the tool kills and signals only
// processes that it started.
package fault
