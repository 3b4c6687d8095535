// Package history is the record of a run: what was asked of the system under
// test and what it answered, written so that a checker needs nothing else.
//
// A history is a set of JSON Lines files, one a process life: a header line,
// then events. An operation is an invoke, in the kernel before its first byte is
// sent, and its end; what has no end, or ends unknown, may have happened and may
// yet happen. All timestamps are CLOCK_MONOTONIC of one host, so files merge by
// time; that is why histories of two boots are refused.
//
// A file may end in a torn line, because its writer may be killed at any
// instant: the reader drops and counts it. Anything else malformed is refused
// with file and line, since an event that is skipped is a fact that the checker
// does not know.
package history
