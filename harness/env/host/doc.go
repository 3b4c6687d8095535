// Package host tells a busy machine from a slow system: how late timers are in the
// harness's own process, and how much processor time was stolen. It also says when somebody sets
// the machine's wall clock, by comparing it with the steady one. All are of the machine, and of
// nothing that is under test.
package host
