// Package history is the record of a run: what was asked of the system under
// test and what it answered, written so that a checker needs nothing else.
//
// A history is a set of JSON Lines files, one a process life: a header line,
// then events. An operation is an invoke, in the kernel before its first byte is
// sent, and its end; what has no end, or ends unknown, may have happened and may
// yet happen. All timestamps are CLOCK_MONOTONIC of one host, so files merge by
// time; that is why histories of two boots are refused.
//
// What a line may be is said once: by the forms (form.go), a table of every operation and
// note with who may write it and the fields of its lines, and by the structs of events: a
// field's tags say its name and values (value.go), the comment above it what it means. The
// reader judges each line by them (object.go); the schema and the tables of
// docs/history-format.md are made from them (format_test.go).
//
// A file may end in a torn line, or be empty, because its writer may be killed at any
// instant: the reader drops and counts it. Anything else malformed is refused
// with file and line, since an event that is skipped is a fact that the checker
// does not know. What only the harness can know counts from its own file alone.
package history
