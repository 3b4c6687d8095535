package cassandra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// NodeInfo is a node as the cluster itself describes it.
type NodeInfo struct {
	// ID is its host id.
	ID string
	// IP is the address by which it tells clients to reach it, and by which the
	// driver and Config.Dial know it; Port is that of CQL there, 0 if it is not told.
	IP   string
	Port int
	// DC and Rack are where it stands, Version is its Cassandra release.
	DC, Rack, Version string
}

// Ring is what one node knows of the cluster.
type Ring struct {
	Name  string // of the cluster
	Self  NodeInfo
	Peers []NodeInfo
}

// Discover asks the one node to which cfg leads (its first contact point, by cfg.Dial
// if that is set) who it is and who its peers are. Unlike a session's, its connection
// is not moved to the address that the node names: it may be behind a translation of
// addresses. The error of a connection that was not made wraps the dialer's or the
// server's own (a *net.OpError, a certificate's, a gocql.RequestError).
func Discover(ctx context.Context, cfg Config) (*Ring, error) {
	cfg.Pin = ""
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.ContactPoints = cfg.ContactPoints[:1]
	seen := &connectErrors{}
	g := cfg.cluster(&hostDialer{cfg}, gocql.RoundRobinHostPolicy(), &driverLog{log: cfg.Logger})
	g.DisableInitialHostLookup = true
	g.NumConns = 1
	g.ConnectObserver = seen
	session, err := createSession(ctx, g)
	if err != nil {
		if ctx.Err() == nil {
			err = seen.instead(err)
		}
		return nil, &store.Error{Op: "discover", Outcome: store.Fail, Cause: err}
	}
	defer session.Close()
	read := func(table string) ([]map[string]any, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
		defer cancel()
		rows, err := readRows(session.Query("SELECT * FROM "+table).WithContext(ctx).Consistency(gocql.One).Iter(), nullZero)
		if err != nil {
			return nil, classify(ctx, "read "+table, err)
		}
		return rows, nil
	}
	local, err := read("system.local")
	if err != nil {
		return nil, err
	}
	if len(local) != 1 {
		return nil, fmt.Errorf("cassandra: %d rows in system.local", len(local))
	}
	ring := &Ring{Self: nodeInfo(local[0])}
	ring.Name, _ = local[0]["cluster_name"].(string)
	peers, err := read("system.peers_v2")
	if err != nil && code(err) == gocql.ErrCodeInvalid { // before Cassandra 4
		peers, err = read("system.peers")
	}
	if err != nil {
		return ring, err
	}
	for _, row := range peers {
		// What is left of a node that was removed lacks these; the driver passes it over too.
		if n := nodeInfo(row); n.ID != "" && n.DC != "" && n.IP != "" {
			ring.Peers = append(ring.Peers, n)
		}
	}
	return ring, nil
}

// nodeInfo reads a row of system.local, system.peers_v2 or system.peers. The address
// is chosen as the driver does it.
func nodeInfo(row map[string]any) NodeInfo {
	text := func(name string) string { s, _ := row[name].(string); return s }
	n := NodeInfo{ID: text("host_id"), DC: text("data_center"), Rack: text("rack"), Version: text("release_version")}
	for _, column := range []string{"native_address", "rpc_address", "preferred_ip", "broadcast_address", "peer"} {
		if ip := net.ParseIP(text(column)); ip != nil && !ip.IsUnspecified() {
			n.IP = ip.String()
			break
		}
	}
	for _, column := range []string{"native_port", "rpc_port"} {
		if port, ok := row[column].(int); ok && port > 0 {
			n.Port = port
			break
		}
	}
	return n
}

// connectErrors keeps the last error of a connection: the driver's error for a
// session that cannot be opened has it as text only.
type connectErrors struct{ last atomic.Pointer[error] }

func (c *connectErrors) ObserveConnect(o gocql.ObservedConnect) {
	if o.Err != nil {
		c.last.Store(&o.Err)
	}
}

func (c *connectErrors) instead(err error) error {
	if last := c.last.Load(); last != nil {
		return *last
	}
	return err
}

// Refusal is what a server refused a request or a login for.
type Refusal int

// Refusals. Other is everything else, also that there was no answer at all.
const (
	Other        Refusal = iota
	Credentials          // wrong user name or password
	Unauthorized         // the role lacks a permission
	Exists               // the keyspace or table exists already
	Invalid              // the statement cannot be carried out here
	NoQuorum             // too few replicas are up, or answered in time
)

// Refused says why the server refused what ended with err.
func Refused(err error) Refusal {
	switch code(err) {
	case gocql.ErrCodeCredentials:
		return Credentials
	case gocql.ErrCodeUnauthorized:
		return Unauthorized
	case gocql.ErrCodeAlreadyExists:
		return Exists
	case gocql.ErrCodeInvalid, gocql.ErrCodeConfig, gocql.ErrCodeSyntax, gocql.ErrCodeProtocol:
		return Invalid
	case gocql.ErrCodeUnavailable, gocql.ErrCodeReadTimeout, gocql.ErrCodeWriteTimeout, gocql.ErrCodeCASWriteUnknown:
		return NoQuorum
	}
	return Other
}

// needsLogin begins the driver's error when a node wants a login and there is none to
// show; it has no type.
const needsLogin = "authentication required"

// NeedsLogin reports whether a connection failed because the cluster wants a login.
func NeedsLogin(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), needsLogin) {
			return true
		}
	}
	return false
}
