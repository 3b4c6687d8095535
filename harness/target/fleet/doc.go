// Package fleet runs the worker processes of a run: real processes, each with
// links of its own to every node, started, killed, stopped and continued one by
// one, and told through their control channel at which points to stand still.
//
// A worker ("w1") has lives ("w1.1", "w1.2"): a process that was killed is
// started again as the next life, with a history file of its own.
//
// The process may be a user's own program (package own): its agent then speaks the
// control channel for it, and it is ended by SIGTERM.
package fleet
