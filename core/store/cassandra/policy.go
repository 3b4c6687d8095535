package cassandra

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// route is the wish for a coordinator, carried by a request's context, and the
// answer to who it was.
type route struct {
	copyNo int
	key    []byte // serialized partition key; nil: ask the driver
	ip     string // only this node
	host   *gocql.HostInfo
}

type routeKey struct{}

// candidates is how many nodes a request considers before it takes them as
// they come: enough for every replica of a partition.
const candidates = 8

// Suspicion of a node that did not answer: others are asked first for a while.
const (
	suspectMin = time.Second
	suspectMax = 8 * time.Second
)

// coordinators chooses the coordinator of a request: replica n of the partition
// for copy n, in ring order and never shuffled, so that all clients send the
// first copies for one partition through one node. There conditional
// statements queue up; through several nodes they would fight by ballots.
//
// A node that left a request without an answer, or that cannot reach a quorum,
// is asked after the others for 1 s, then 2 s, up to 8 s, until it answers again.
//
// With a local data centre no other node is ever asked, whatever has failed: LOCAL_SERIAL
// means the coordinator's data centre, and the other one would decide apart. The driver's
// own policy prefers local nodes only.
type coordinators struct {
	gocql.HostSelectionPolicy
	now   func() time.Time
	local string // data centre; "" for all
	dcOf  func(*gocql.HostInfo) string

	mu      sync.Mutex
	dcs     map[string]bool // of the nodes that were there at first
	hosts   map[string]bool // by IP: the driver holds a connection, as far as known
	suspect map[string]suspicion
}

type suspicion struct {
	until time.Time
	wait  time.Duration
}

func newCoordinators(cfg Config) *coordinators {
	fallback := gocql.RoundRobinHostPolicy()
	if cfg.LocalDC != "" {
		fallback = gocql.DCAwareRoundRobinPolicy(cfg.LocalDC)
	}
	return &coordinators{
		HostSelectionPolicy: gocql.TokenAwareHostPolicy(fallback),
		now:                 time.Now,
		local:               cfg.LocalDC,
		dcOf:                (*gocql.HostInfo).DataCenter,
		dcs:                 map[string]bool{},
		hosts:               map[string]bool{},
		suspect:             map[string]suspicion{},
	}
}

// AddHosts passes the driver's bulk registration on; without it, the replica
// map would be computed once a host.
func (c *coordinators) AddHosts(hosts []*gocql.HostInfo) {
	c.mu.Lock()
	for _, h := range hosts {
		c.dcs[c.dcOf(h)] = true
	}
	c.mu.Unlock()
	if bulk, ok := c.HostSelectionPolicy.(interface{ AddHosts([]*gocql.HostInfo) }); ok {
		bulk.AddHosts(hosts)
		return
	}
	for _, h := range hosts {
		c.HostSelectionPolicy.AddHost(h)
	}
}

func (c *coordinators) HostUp(h *gocql.HostInfo) {
	c.HostSelectionPolicy.HostUp(h)
	c.setUp(h, true)
}

func (c *coordinators) HostDown(h *gocql.HostInfo) {
	c.HostSelectionPolicy.HostDown(h)
	c.setUp(h, false)
}

func (c *coordinators) RemoveHost(h *gocql.HostInfo) {
	c.HostSelectionPolicy.RemoveHost(h)
	c.setUp(h, false)
}

func (c *coordinators) setUp(h *gocql.HostInfo, up bool) {
	ip := h.ConnectAddress().String()
	up = up && c.isLocal(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if up {
		c.hosts[ip] = true
	} else {
		delete(c.hosts, ip)
	}
	delete(c.suspect, ip)
}

// isLocal reports whether a node may be a coordinator.
func (c *coordinators) isLocal(h *gocql.HostInfo) bool {
	return c.local == "" || h != nil && c.dcOf(h) == c.local
}

// nobody reports a local data centre without nodes, which is a wrong name.
func (c *coordinators) nobody() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.local == "" || c.dcs[c.local] {
		return nil
	}
	return &ReplicasError{DC: c.local, Known: slices.Sorted(maps.Keys(c.dcs))}
}

// pick is the driver's choice among the nodes that may be coordinators.
func (c *coordinators) pick(q gocql.ExecutableQuery) gocql.NextHost {
	next := c.HostSelectionPolicy.Pick(q)
	return func() gocql.SelectedHost {
		for h := next(); h != nil; h = next() {
			if c.isLocal(h.Info()) {
				return h
			}
		}
		return nil
	}
}

// up returns the IPs of the possible coordinators that the session is connected to.
func (c *coordinators) up() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.hosts))
}

// Pick implements gocql.HostSelectionPolicy.
func (c *coordinators) Pick(q gocql.ExecutableQuery) gocql.NextHost {
	if q == nil {
		return c.pick(q)
	}
	r, _ := q.Context().Value(routeKey{}).(*route)
	if r == nil {
		return c.pick(q)
	}
	key := r.key
	if key == nil {
		key = routingKey(q)
	}
	next := c.pick(routed{q, key})
	hosts := c.order(r, next)
	return func() gocql.SelectedHost {
		var h gocql.SelectedHost
		if len(hosts) > 0 {
			h, hosts = hosts[0], hosts[1:]
		} else if r.ip == "" {
			h = next()
		}
		r.host = nil
		if h != nil {
			r.host = h.Info()
		}
		return h
	}
}

// order returns the first candidates in the order in which to try them.
func (c *coordinators) order(r *route, next gocql.NextHost) []gocql.SelectedHost {
	var hosts []gocql.SelectedHost
	if r.ip != "" {
		for h := next(); h != nil; h = next() {
			if h.Info().ConnectAddress().String() == r.ip {
				return append(hosts, h)
			}
		}
		return nil
	}
	for len(hosts) < candidates {
		h := next()
		if h == nil {
			break
		}
		hosts = append(hosts, h)
	}
	if len(hosts) < 2 {
		return hosts
	}
	first := r.copyNo % len(hosts)
	out := make([]gocql.SelectedHost, 0, len(hosts))
	var late []gocql.SelectedHost
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for i := range hosts {
		h := hosts[(first+i)%len(hosts)]
		if s, ok := c.suspect[h.Info().ConnectAddress().String()]; ok && now.Before(s.until) {
			late = append(late, h)
			continue
		}
		out = append(out, h)
	}
	return append(out, late...)
}

// answered ends the suspicion of the node that served r.
func (c *coordinators) answered(r *route) {
	if r.host == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.suspect, r.host.ConnectAddress().String())
}

// failed suspects the node that served r if the failure is its own or its links'.
func (c *coordinators) failed(r *route, e *store.Error) {
	switch {
	case r.host == nil:
		return
	case e.ServerTimeout || errors.As(e.Cause, new(*gocql.RequestErrUnavailable)):
	case errors.As(e.Cause, new(gocql.RequestError)):
		return // it answered
	case e.Outcome == store.Fail, errors.Is(e.Cause, errCanceled):
		return
	}
	ip := r.host.ConnectAddress().String()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.suspect[ip]
	now := c.now()
	if now.Before(s.until) {
		return // one of several requests that failed together
	}
	s.wait = min(max(2*s.wait, suspectMin), suspectMax)
	s.until = now.Add(s.wait)
	c.suspect[ip] = s
}

// routed is a query with its routing key given. The driver would otherwise
// prepare the statement on an arbitrary node to learn which argument is the key:
// that can hang on a node that does not answer, and after "no connection" it is
// cached as an error for good, which ends token awareness for that statement.
type routed struct {
	gocql.ExecutableQuery
	key []byte
}

func (r routed) GetRoutingKey() ([]byte, error) { return r.key, nil }

// routingKey asks the driver for the routing key, which panics when a statement
// has fewer arguments than its partition key needs. Without one the request goes
// to any node, where the driver then reports the wrong number of arguments.
func routingKey(q gocql.ExecutableQuery) (key []byte) {
	defer func() {
		if recover() != nil {
			key = nil
		}
	}()
	key, err := q.GetRoutingKey()
	if err != nil {
		return nil
	}
	return key
}

// partitionKey serializes a partition key as the partitioner hashes it.
func partitionKey(values []any) ([]byte, error) {
	if len(values) == 0 {
		return nil, nil
	}
	parts := make([][]byte, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			parts[i] = []byte(v)
		case []byte:
			parts[i] = v
		case int32:
			parts[i] = binary.BigEndian.AppendUint32(nil, uint32(v))
		case int64:
			parts[i] = binary.BigEndian.AppendUint64(nil, uint64(v))
		default:
			return nil, fmt.Errorf("cassandra: partition key component %d has type %T: use string, []byte, int32 (CQL int) or int64 (CQL bigint)", i, v)
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	var key []byte
	for _, p := range parts {
		key = binary.BigEndian.AppendUint16(key, uint16(len(p)))
		key = append(key, p...)
		key = append(key, 0)
	}
	return key, nil
}
