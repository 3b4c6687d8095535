package external

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
)

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
