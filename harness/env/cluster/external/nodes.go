package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/login"
)

// endpoint is where a node may be reached.
type endpoint struct {
	point string // as a person wrote it
	host  string // name or IP
	ip    string
	port  int
}

func (e endpoint) addr() string { return net.JoinHostPort(e.ip, strconv.Itoa(e.port)) }

// ParseContactPoint splits host[:port]; the port's default is 9042.
func ParseContactPoint(s string) (host string, port int, err error) {
	host, port = s, cassandra.DefaultPort
	if h, p, splitErr := net.SplitHostPort(s); splitErr == nil {
		host = h
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return "", 0, fmt.Errorf("%q: %q is no port", s, p)
		}
	} else if strings.Contains(s, ":") && net.ParseIP(strings.Trim(s, "[]")) == nil {
		return "", 0, fmt.Errorf("%q is not host or host:port", s)
	} else {
		host = strings.Trim(s, "[]")
	}
	if host == "" || strings.ContainsAny(host, " /@'\"") {
		return "", 0, fmt.Errorf("%q is not host or host:port", s)
	}
	return host, port, nil
}

// resolve returns the addresses of a contact point.
func resolve(ctx context.Context, point string) ([]endpoint, error) {
	host, port, err := ParseContactPoint(point)
	if err != nil {
		return nil, &Error{Where: point, Problem: "no contact point", Remedy: "write host or host:port", Cause: err}
	}
	if ip := net.ParseIP(host); ip != nil {
		return []endpoint{{point, host, ip.String(), port}}, nil
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, &Error{Where: point, Problem: "no such host", Remedy: "check the name in --contact-points, or use the node's IP address", Cause: err}
	}
	var out []endpoint
	for _, ip := range ips {
		out = append(out, endpoint{point, host, ip.IP.String(), port})
	}
	return out, nil
}

// member is a node that was found.
type member struct {
	cassandra.NodeInfo
	addr    string // where it is reached
	tlsName string // of its certificate; "" for its IP
	named   bool   // it is at a contact point
}

// ask asks the node at e for the ring.
func (cfg Config) ask(ctx context.Context, e endpoint) (*cassandra.Ring, error) {
	c := cassandra.Config{
		ContactPoints: []string{e.ip}, Port: e.port, ConnectTimeout: cfg.ConnectTimeout, Logger: cfg.Logger,
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", e.addr())
		},
	}
	if err := cfg.Login.Apply(&c); err != nil {
		return nil, err
	}
	c.LocalDC = ""
	if e.host != e.ip {
		c.TLSNames = map[string]string{e.ip: e.host}
	}
	return cassandra.Discover(ctx, c)
}

// find asks all contact points, and then every node of which one of them told.
func (cfg Config) find(ctx context.Context) (ringName string, members []member, err error) {
	found := map[string]member{}
	var told []cassandra.NodeInfo
	port := 0
	for _, point := range cfg.ContactPoints {
		endpoints, err := resolve(ctx, point)
		if err != nil {
			return "", nil, err
		}
		answered := false
		var refused error
		for _, e := range endpoints {
			ring, err := cfg.ask(ctx, e)
			if err != nil {
				if ctx.Err() != nil {
					return "", nil, context.Cause(ctx)
				}
				refused = connecting(e.at(), cfg.Login, true, err)
				continue // a name may have addresses at which nobody listens
			}
			answered = true
			if port = e.port; ringName != "" && ringName != ring.Name {
				return "", nil, &Error{Where: e.at(), Problem: fmt.Sprintf("it belongs to cluster %q, the contact points before it to %q", ring.Name, ringName), Remedy: "name nodes of one cluster"}
			}
			ringName = ring.Name
			m := member{NodeInfo: ring.Self, addr: e.addr(), named: true}
			if e.host != e.ip {
				m.tlsName = e.host
			}
			if _, again := found[m.ID]; !again {
				found[m.ID] = m
			}
			told = append(told, ring.Peers...)
		}
		if !answered {
			return "", nil, refused
		}
	}
	dc, err := cfg.datacenter(found, told)
	if err != nil {
		return "", nil, err
	}
	for _, p := range told {
		if _, ok := found[p.ID]; ok || p.DC != dc {
			continue
		}
		if p.Port == 0 {
			p.Port = port
		}
		e := endpoint{host: p.IP, ip: p.IP, port: p.Port}
		ring, err := cfg.ask(ctx, e)
		if err != nil {
			return "", nil, connecting(e.at(), cfg.Login, false, err)
		}
		if ring.Self.ID != p.ID {
			return "", nil, &Error{Where: e.at(), Problem: "another node answers here than the cluster says", Remedy: "name all nodes in --contact-points by the addresses that they have from here (host:port)"}
		}
		found[p.ID] = member{NodeInfo: ring.Self, addr: e.addr()}
	}
	for _, m := range found {
		if m.DC == dc {
			members = append(members, m)
		}
	}
	return ringName, members, check(members)
}

func (e endpoint) at() string {
	if e.point != "" && e.host != e.ip {
		return fmt.Sprintf("%s (%s)", e.point, e.addr())
	}
	return e.addr()
}

// datacenter is the one whose nodes are used.
func (cfg Config) datacenter(found map[string]member, told []cassandra.NodeInfo) (string, error) {
	var all []string
	for _, m := range found {
		all = append(all, m.DC)
	}
	for _, p := range told {
		all = append(all, p.DC)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch {
	case cfg.Login.LocalDC != "" && !slices.Contains(all, cfg.Login.LocalDC):
		return "", &Error{Problem: fmt.Sprintf("it has no data centre %q", cfg.Login.LocalDC), Remedy: "--datacenter is one of " + strings.Join(all, ", ")}
	case cfg.Login.LocalDC != "":
		return cfg.Login.LocalDC, nil
	case len(all) > 1:
		return "", &Error{Problem: "it has several data centres: " + strings.Join(all, ", "), Remedy: "say by --datacenter in which of them the run's keyspace and clients shall be"}
	}
	return all[0], nil
}

const minVersion = "Cassandra 4.0 or later"

// check looks whether the nodes can be used, and puts them into their order.
func check(members []member) error {
	slices.SortFunc(members, func(a, b member) int {
		return bytes.Compare(net.ParseIP(a.IP).To16(), net.ParseIP(b.IP).To16())
	})
	for i, m := range members {
		if m.IP == "" || m.ID == "" {
			return &Error{Where: m.addr, Problem: "it announces no address to clients", Remedy: "set rpc_address, or broadcast_rpc_address, in its cassandra.yaml"}
		}
		if i > 0 && m.IP == members[i-1].IP {
			return &Error{Where: m.addr, Problem: fmt.Sprintf("it announces the same address to clients as %s: %s", members[i-1].addr, m.IP), Remedy: "give each node its own rpc_address or broadcast_rpc_address: nodes are told apart by it"}
		}
		major, _, _ := strings.Cut(m.Version, ".")
		if n, err := strconv.Atoi(major); err != nil || n < 4 {
			return &Error{Where: m.addr, Problem: fmt.Sprintf("it runs Cassandra %s", m.Version), Remedy: "fencepost needs " + minVersion}
		}
	}
	if len(members) == 0 {
		return errors.New("external cluster: no node was found")
	}
	return nil
}

// names are those in the nodes' certificates.
func names(l login.Login, members []member) login.Login {
	if l.TLS == nil {
		return l
	}
	t := *l.TLS
	t.Names = map[string]string{}
	for _, m := range members {
		if m.tlsName != "" {
			t.Names[m.IP] = m.tlsName
		}
	}
	l.TLS = &t
	return l
}

// node is a node of somebody else's cluster.
type node struct {
	cluster        *Cluster
	name, ip, addr string

	mu sync.Mutex
	db *cassandra.DB // with this node as the only coordinator; nil before the first use
}

var _ cluster.Node = (*node)(nil)

func (n *node) Name() string { return n.name }

// IP is the address that the node announces to clients; Addr of the cluster is where
// it is reached.
func (n *node) IP() string { return n.ip }

// State is running: nobody here does anything to it.
func (n *node) State() cluster.State { return cluster.Running }

// PID is 0, ProcessState "", LogFile "": they are on the node's own machine.
func (n *node) PID() int             { return 0 }
func (n *node) ProcessState() string { return "" }
func (n *node) LogFile() string      { return "" }

func (n *node) Kill(context.Context) error   { return &ControlError{n.name, "kill"} }
func (n *node) Pause(context.Context) error  { return &ControlError{n.name, "pause"} }
func (n *node) Resume(context.Context) error { return &ControlError{n.name, "resume"} }
func (n *node) Stop(context.Context) error   { return &ControlError{n.name, "stop"} }
func (n *node) Start(context.Context) error  { return &ControlError{n.name, "start"} }
func (n *node) Standing() error              { return &ControlError{n.name, "look at"} }

// session is the node's own, past all links.
func (n *node) session(ctx context.Context) (*cassandra.DB, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.db != nil {
		return n.db, nil
	}
	cfg := n.cluster.base
	cfg.Pin, cfg.NumConns, cfg.RequestTimeout = n.ip, 1, requestTimeout
	db, err := cassandra.Open(ctx, cfg)
	if err == nil {
		n.db = db
	}
	return db, err
}

func (n *node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.db != nil {
		n.db.Close()
		n.db = nil
	}
}

// update makes a conditional update through this node, and reads it back at SERIAL.
func (n *node) update(ctx context.Context) error {
	db, err := n.session(ctx)
	if err != nil {
		return err
	}
	// One row a node: nodes are probed at the same time and must not contend.
	now := time.Now().UnixNano()
	if _, _, err := db.CAS(ctx, 0, store.Statement{CQL: "UPDATE rows SET at = ? WHERE id = ? IF at != ?", Args: []any{now, n.name, now}}); err != nil {
		return err
	}
	_, err = db.Query(ctx, true, "SELECT at FROM rows WHERE id = ?", n.name)
	return err
}

// WaitReady returns when a conditional update and a SERIAL read through this node work.
func (n *node) WaitReady(ctx context.Context) error {
	for {
		err := n.update(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("external cluster: a conditional update through %s (%s) does not work: %w", n.name, n.addr, err)
		case <-time.After(probePoll):
		}
	}
}
