package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
)

const (
	// readyKeyspace is replicated to every node (up to three): an LWT in it needs
	// a quorum of them.
	readyKeyspace = "fencepost_ready"
	// reachKeyspace has one replica a row: a scan of its table needs every node.
	reachKeyspace = "fencepost_reach"

	// probeTimeout bounds one request of a probe, probePoll is the pause before
	// the next try.
	probeTimeout = 3 * time.Second
	probePoll    = 50 * time.Millisecond
)

// WaitReady returns when a conditional update through this node has
// an answer: a quorum of replicas has agreed on it.
func (n *localNode) WaitReady(ctx context.Context) error {
	return n.probe(ctx, "a conditional update", n.tryUpdate)
}

// WaitHealthy returns when all nodes are ready and see each other.
func (l *Local) WaitHealthy(ctx context.Context) error {
	return l.each(func(n *localNode) error {
		return n.probe(ctx, "a conditional update and a read from every node", func(ctx context.Context, db *cassandra.DB) error {
			if err := n.tryUpdate(ctx, db); err != nil {
				return err
			}
			_, err := db.Query(ctx, false, "SELECT id FROM "+reachKeyspace+".rows")
			return err
		})
	})
}

func (n *localNode) tryUpdate(ctx context.Context, db *cassandra.DB) error {
	now := time.Now().UnixNano()
	// One row a node: the nodes are probed at the same time and must not contend.
	_, _, err := db.CAS(ctx, 0, store.Statement{
		CQL:  "UPDATE " + readyKeyspace + ".rows SET at = ? WHERE id = ? IF at != ?",
		Args: []any{now, n.name, now},
	})
	return err
}

// probe repeats try through this node alone until it succeeds.
func (n *localNode) probe(ctx context.Context, what string, try func(context.Context, *cassandra.DB) error) error {
	var last error
	var db *cassandra.DB
	defer func() {
		if db != nil {
			db.Close()
		}
	}()
	for {
		n.mu.Lock()
		p, state := n.proc, n.state
		n.mu.Unlock()
		if state != Running && state != Starting {
			return &StateError{n.name, "probe", state}
		}
		last = func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			if db == nil {
				if db, err = n.open(ctx); err != nil {
					return err
				}
			}
			return try(ctx, db)
		}()
		if last == nil {
			n.answered(p)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster: %s is not ready, %s through it did not work (log: %s): %w",
				n.name, what, n.logFile, errors.Join(context.Cause(ctx), last))
		case <-time.After(probePoll):
		}
	}
}

// open connects to this node alone, past all links.
func (n *localNode) open(ctx context.Context) (*cassandra.DB, error) {
	return cassandra.Open(ctx, cassandra.Config{
		Pin: n.ip, Port: n.port, NumConns: 1,
		ConnectTimeout: probeTimeout, RequestTimeout: probeTimeout, Logger: n.local.config.Logger,
	})
}

// furnish creates what the probes need. It is part of the template.
func (l *Local) furnish(ctx context.Context) error {
	first := l.nodes[0]
	db, err := first.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, cql := range furniture(len(l.nodes)) {
		if err := db.Exec(ctx, cql); err != nil {
			return fmt.Errorf("cluster: %s: %w", cql, err)
		}
	}
	// Also warms the classes of the request path into the class archive.
	return l.WaitHealthy(ctx)
}

// furniture are the statements of furnish, for a cluster of that many nodes.
func furniture(nodes int) []string {
	const create = "CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}"
	return []string{
		fmt.Sprintf(create, readyKeyspace, min(3, nodes)),
		fmt.Sprintf(create, reachKeyspace, 1),
		"CREATE TABLE IF NOT EXISTS " + readyKeyspace + ".rows (id text PRIMARY KEY, at bigint)",
		"CREATE TABLE IF NOT EXISTS " + reachKeyspace + ".rows (id int PRIMARY KEY)",
	}
}
