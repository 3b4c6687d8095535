// Package cqltap reads the CQL native protocol on links between workers and nodes: which
// statements are sent, with which consistency and serial consistency, and how many requests
// of which kind were asked and answered. It is the harness's own witness of what a program
// sends: nothing that the program says of itself comes into it, and a program in any language
// is seen alike.
//
// # What is read
//
// Requests PREPARE, QUERY, EXECUTE and BATCH, and of the answers the ids of what was prepared.
// An id stands for its statement on all links: it is a digest of the statement, and drivers
// prepare once and execute on other connections. A statement's shape is its text with its
// literals blanked, as a program may write values into the text, and what it asks for; each
// shape is told once for each node of origin. A batch is told as its distinct statements between
// BEGIN and APPLY BATCH.
//
// Reads at SERIAL and LOCAL_SERIAL are told one by one, with table and row: which of them an
// operation rests on shows only when it was sent.
//
// Protocol versions 3, 4 and 5 are read, without compression and without TLS. Anything else is
// told once for each link as unread, with the reason, so that what was not seen is never taken
// for what was not sent. A client that tries a version and is refused has sent nothing.
//
// # Cost
//
// A frame that is in one piece is read where it lies; only a torn one is kept. Frames that tell
// nothing are skipped by their length. No byte is changed, and none waits for more than that.
package cqltap
