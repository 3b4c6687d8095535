// Package reporttest makes run directories for tests of reports: a small
// simulation of clients, locks and a sink writes histories through the real
// recorder, in the shape that real runs have, with faults, takeovers, refused
// writes and lost answers; and, if asked, with the violations of a system whose
// sink checks no tokens or whose paused holder goes on. It is deterministic but
// for what the recorder's header holds (process id, host, wall time).
//
// It is made to be reported, not to be judged: rejected requests show rows of a
// slightly later time, so a checker finds more than was planted.
package reporttest
