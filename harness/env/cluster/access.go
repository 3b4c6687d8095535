package cluster

import (
	"net"
	"strconv"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/login"
)

// Access is how the harness reaches a cluster, and how it makes keyspaces there.
type Access struct {
	// Config is a session's past all links, without a keyspace.
	Config cassandra.Config
	// Login is what workers have to show or to know; nil: nothing.
	Login *login.Login
	// Replication is that of a keyspace of the harness's own.
	Replication cassandra.Replication
	// Shared: others have keyspaces there too, so one that exists is not ours.
	Shared bool
	// Notes are what weakens a verdict that is found there.
	Notes []string
}

// accessible is a Cluster that is not simply reached at its nodes' IPs.
type accessible interface {
	Access() Access
	Addr(node string) string
}

// AccessTo says how a cluster is reached.
func AccessTo(c Cluster) Access {
	if a, ok := c.(accessible); ok {
		return a.Access()
	}
	return direct(c)
}

// maxReplicas is the number of replicas of a row in a data centre that has so many nodes.
const maxReplicas = 3

// direct is the access to a cluster at its nodes' IPs.
func direct(c Cluster) Access {
	var ips []string
	for _, n := range c.Nodes() {
		ips = append(ips, n.IP())
	}
	return Access{
		Config:      cassandra.Config{ContactPoints: ips, Port: c.CQLPort()},
		Replication: Layout{len(ips)}.replication(maxReplicas),
	}
}

// AddrOf is host:port at which a node's native protocol is reached.
func AddrOf(c Cluster, n Node) string {
	if a, ok := c.(accessible); ok {
		return a.Addr(n.Name())
	}
	return net.JoinHostPort(n.IP(), strconv.Itoa(c.CQLPort()))
}
