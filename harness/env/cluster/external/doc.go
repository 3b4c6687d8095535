// Package external is a Cassandra cluster that somebody else runs: the harness is a
// client of it and nothing more.
//
// # Finding the nodes
//
// Every contact point is asked who it is and who its peers are. A node is known by
// the address that it announces to clients (rpc_address or native_address), which is
// how the driver tells nodes apart; it is reached where it answered: at the contact
// point by which it was named, else at what it announces. So behind a translation of
// addresses all nodes have to be named. Each node is asked for its host id, so that a
// node is never taken for another. The names n1, n2 … follow the order of addresses.
//
// Workers get one link a node, which leads to where the node is reached, and a
// connection to anything else is refused by their dialer: they reach nodes through
// links only, whatever addresses the cluster announces.
//
// # What cannot be done
//
// Nodes cannot be killed, paused or cut off from each other: [Node.Kill] and its like
// return a *[ControlError], and there are no internode links. Scenarios with such
// faults are refused before anything starts.
//
// # What is touched
//
// Keyspaces whose names begin with fp_: one for the probes of this package, made by
// [Connect] and dropped by Close, and those that runs make for themselves. One that
// exists already is never used: its name is an error.
//
// # Errors
//
// What a person can mend is an *[Error] with its remedy. Secrets are in none: the
// driver's errors have no password in them, and nothing here adds one.
package external
