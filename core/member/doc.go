// Package member tells the processes of a cell of each other by heartbeats. They are
// advice: by them processes agree on who should own what, without talking. Who does own
// it is decided elsewhere, by conditional writes, and a process that is silent but
// keeps its leases keeps what it owns. What there is to own is divided evenly (Share):
// with a hash alone, of four processes and eight shards one would own nothing in two
// of five queues. Each group is divided evenly too: keys of one group have about the same load, and
// those of two may not.
//
// A heartbeat is a plain write of a fresh nonce. A member is present as long as its nonce
// changes, by the observer's own clock: no wall clocks are compared. A process that
// cannot look takes for present whom it saw last.
package member
