// Package host tells a busy machine from a slow system: how late timers are in the
// harness's own process, and how much processor time was stolen. Both are of the machine,
// and of nothing that is under test.
package host
