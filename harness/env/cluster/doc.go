// Package cluster gives the harness a real Cassandra cluster whose nodes can be
// killed, paused, stopped and started, and whose internode links can be cut one
// direction at a time.
//
// [Cluster] and [Node] are what scenarios and faults see; they do not tell where
// the nodes run. The backend in this package, [StartLocal], runs them as child
// processes inside the sandbox (package sandbox); package docker, below this one, runs
// them in containers, and package external connects to a cluster that is there already.
// How clients reach a cluster, and what they have to show to it, is [Access]. A [Machine]
// is a node that a backend runs itself: its states over the lives of its process, each of
// which is a [Life] that the backend brings. The local backend:
//
//   - a node is one JVM on a sandbox host of its own, with the address
//     10.77.0.11, .12, .13 and the ordinary ports;
//   - a node's connections to port 7000 of a peer are turned, inside the node's
//     own network namespace, to a proxy of this process, one proxy a directed
//     link (package link). The rules are there before the JVM starts, so no
//     connection ever bypasses its proxy;
//   - SIGKILL, SIGSTOP, SIGCONT and SIGTERM are the real ones, and each is
//     verified by what the kernel then says about the process, not assumed.
//
// # Data centres
//
// A [Layout] of several numbers makes several data centres: each node reads its own from
// cassandra-rackdc.properties, keyspaces name all of them, and [Access] tells clients that
// they agree in the first one alone. Whether a client stays there is not enforced by
// anything: its links lead to every node.
//
// # The template
//
// Bootstrapping three nodes is slow, and what comes out is always the same: an
// empty ring. It is done once, kept in the cache under a hash of all that went
// into it, and copied for each start, so that all three nodes start at once.
// The same run also makes a class data sharing archive (JEP 350), which saves a
// JVM the parsing and verifying of some ten thousand classes.
//
// # Ready
//
// A node is ready when a conditional update (LWT) at QUORUM and SERIAL through
// it, and no other coordinator, works. A cluster is healthy when that holds for
// every node and a read at ALL through every node works as well: each node
// then sees each other node.
//
// # Disk
//
// Everything is under [CacheDir]: cassandra/ (jars, by scripts/fetch-cassandra),
// templates/, scratch/ (data of running clusters; an advisory lock tells live
// owners from dead ones, whose data the next start removes) and logs/.
package cluster
