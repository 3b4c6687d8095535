// Package osproc runs the processes that a run is made of: workers, programs of users'
// own, the sink's service, nodes.
//
// A [Process] is one life, with all that descends from it. It is killed, stopped and
// continued whole, whatever sessions and groups its descendants are in, and tells how it
// ended and who had asked it to (history.ProcessLife): property P18 rests on that.
//
// What descends from a process is found by its parents in /proc. A program that is not
// fencepost's own has a guard for parent, this very executable ([Init]), which does three
// things that nothing else can. Orphans become its children, so that no descendant is
// lost. It ends only when none is left, which proves that a killed program is gone. And
// it kills them all when the harness is gone, whatever ended that.
//
// A descendant that has become another user's (setuid) can be signalled by root only.
package osproc
