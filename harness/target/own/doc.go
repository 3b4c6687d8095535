// Package own runs a user's own program, in whatever language, as the system under
// test: the contract between the two, and the harness's side of it. For authors it is
// written down in docs/own-system.md.
//
// The contract is what any language can do without a library. The program is told
// everything by environment variables, appends lines to the history file, and makes two
// kinds of HTTP requests to the harness. It is started with one of three tasks:
//
//   - setup, once, before all workers: it makes its tables and prints what it offers;
//   - work, as each life of each worker: its clients compete for locks until SIGTERM;
//   - seal, once, when all workers are gone: it closes each lock's row with a last
//     compare-and-set, so that every outcome that is open can be settled.
//
// The file is the channel: cycles, unknown outcomes and lost leases for live progress are
// read from the history while it is written, by the very reader that the checker uses. So
// a malformed line ends the run when it is written, with file and line, and nothing has to
// be reported twice. The harness writes the file's header, which the program cannot know.
//
// What a file cannot do is to make a client stand still. A fault that is triggered by a
// point ("about to send the effect") needs that, since a fault that comes a millisecond
// later tests something weaker. Hence points are requests: the client asks and goes on when
// it is answered, at once if nobody armed the point. Which points a program asks at it says
// in its setup; a scenario that needs another is refused, not run without it. Requests go
// past all links, as the harness is no part of what is tested.
//
// Everything else is as with fencepost's own workers: it is killed, stopped and continued
// by signals, with all that it has started (package osproc), and has links to every node
// and to the sink (the HTTP sink of package sinks).
package own
