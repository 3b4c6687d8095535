// Package servers runs the servers of stores other than Cassandra as a cluster of the
// sandbox, for systems under test that keep their locks there.
//
// A store is a row, a [Kind]: where its program is found, what each server is started with,
// by what it is asked for health, through which ports its servers reach each other, and
// which of them is the one that decides. Everything else is the same for all: each server is
// a process on a sandbox host of its own, with one proxy a directed link between two servers
// (package link); it is killed, paused and started as every node is (cluster.Machine).
//
// The harness asks servers itself, with a few bytes of their own protocol, past all links
// (PostgreSQL by the driver that the sink has anyway). The core's module gets no client library
// for that.
package servers
