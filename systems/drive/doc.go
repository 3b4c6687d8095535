// Package drive drives locks that are not fencepost's own as its contract for programs wants
// them (docs/own-system.md): the same workload, record and sink for all of them.
//
// A [Locker] is a lock as its users use it, with one try at a time. Everything else is here:
// clients that compete, hold and write to what they protect; the history; the points at which
// faults come; the seal. So two locks differ in nothing but the lock.
package drive
