package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/login"
)

const (
	// readyKeyspace is replicated to every node (up to three of a data centre): an LWT
	// in it needs a quorum of them.
	readyKeyspace = "fencepost_ready"
	// reachKeyspace has one replica a row and data centre: a scan of its table at QUORUM
	// needs every node (of three data centres or more, most).
	reachKeyspace = "fencepost_reach"

	// probeTimeout bounds one request of a probe, probePoll is the pause before
	// the next try.
	probeTimeout = 3 * time.Second
	probePoll    = 50 * time.Millisecond
)

// Prober asks a node, and no other coordinator, what a node of a healthy cluster can
// answer. Backends in packages of their own use it too.
type Prober struct {
	Name, IP string
	Port     int    // of CQL
	LogFile  string // for the error
	Logger   *slog.Logger
	Login    login.Login // what the node wants to see
	// Attempt is called before each try. Its error ends the probing; answered is
	// called when the node has answered that try.
	Attempt func() (answered func(), err error)
}

// Ready returns when a conditional update through the node has an answer: a
// quorum of replicas has agreed on it.
func (p Prober) Ready(ctx context.Context) error {
	return p.repeat(ctx, "a conditional update", p.tryUpdate)
}

// Healthy returns when the node is ready and sees every other.
func (p Prober) Healthy(ctx context.Context) error {
	return p.repeat(ctx, "a conditional update and a read from every node", func(ctx context.Context, db *cassandra.DB) error {
		if err := p.tryUpdate(ctx, db); err != nil {
			return err
		}
		_, err := db.Query(ctx, false, "SELECT id FROM "+reachKeyspace+".rows")
		return err
	})
}

// Furnish creates what Ready and Healthy need, when the node knows of all others: it refuses to replicate to a
// data centre that it has not heard of, which may be right after the last node has started.
func (p Prober) Furnish(ctx context.Context, l Layout) error {
	if err := p.repeat(ctx, "a look at its peers", func(ctx context.Context, db *cassandra.DB) error {
		rows, err := db.Query(ctx, false, "SELECT data_center FROM system.peers")
		if err != nil {
			return err
		}
		known := 1 // itself
		for _, row := range rows {
			if dc, _ := row["data_center"].(string); dc != "" {
				known++
			}
		}
		if known < l.Nodes() {
			return fmt.Errorf("it knows of %d of %d nodes", known, l.Nodes())
		}
		return nil
	}); err != nil {
		return err
	}
	db, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	statements, err := furniture(l)
	if err != nil {
		return err
	}
	for _, cql := range statements {
		if err := db.Exec(ctx, cql); err != nil {
			return fmt.Errorf("cluster: %s: %w", cql, err)
		}
	}
	return nil
}

// Release asks the node which version of Cassandra it is.
func (p Prober) Release(ctx context.Context) (string, error) {
	db, err := p.open(ctx)
	if err != nil {
		return "", err
	}
	defer db.Close()
	rows, err := db.Query(ctx, false, "SELECT release_version FROM system.local")
	if err != nil {
		return "", fmt.Errorf("cluster: version of %s: %w", p.Name, err)
	}
	if len(rows) != 1 {
		return "", fmt.Errorf("cluster: version of %s: %d rows in system.local", p.Name, len(rows))
	}
	return fmt.Sprint(rows[0]["release_version"]), nil
}

func (p Prober) tryUpdate(ctx context.Context, db *cassandra.DB) error {
	now := time.Now().UnixNano()
	// One row a node: the nodes are probed at the same time and must not contend.
	_, _, err := db.CAS(ctx, 0, store.Statement{
		CQL:  "UPDATE " + readyKeyspace + ".rows SET at = ? WHERE id = ? IF at != ?",
		Args: []any{now, p.Name, now},
	})
	return err
}

// repeat repeats try through this node alone until it succeeds.
func (p Prober) repeat(ctx context.Context, what string, try func(context.Context, *cassandra.DB) error) error {
	var db *cassandra.DB
	defer func() {
		if db != nil {
			db.Close()
		}
	}()
	return until(ctx, p.Name, p.LogFile, what, p.Attempt, func(ctx context.Context) (err error) {
		if db == nil {
			if db, err = p.open(ctx); err != nil {
				return err
			}
		}
		return try(ctx, db)
	})
}

// until repeats try until it succeeds; attempt is as a Prober's.
func until(ctx context.Context, name, log, what string, attempt func() (func(), error), try func(context.Context) error) error {
	for {
		answered, err := attempt()
		if err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, probeTimeout)
		err = try(once)
		cancel()
		if err == nil {
			answered()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster: %s is not ready, %s through it did not work (log: %s): %w", name, what, log, errors.Join(context.Cause(ctx), err))
		case <-time.After(probePoll):
		}
	}
}

// open connects to this node alone, past all links.
func (p Prober) open(ctx context.Context) (*cassandra.DB, error) {
	cfg := cassandra.Config{
		Pin: p.IP, Port: p.Port, NumConns: 1,
		ConnectTimeout: probeTimeout, RequestTimeout: probeTimeout, Logger: p.Logger,
	}
	if err := p.Login.Apply(&cfg); err != nil {
		return nil, err
	}
	return cassandra.Open(ctx, cfg)
}

// WaitHealthy returns when all nodes are ready and see each other.
func (l *Local) WaitHealthy(ctx context.Context) error {
	return l.nodes.Each(func(n *localNode) error { return n.Healthy(ctx) })
}

// furnish creates what the probes need. It is part of the template.
func (l *Local) furnish(ctx context.Context) error {
	if err := l.nodes[0].Prober().Furnish(ctx, l.config.Layout); err != nil {
		return err
	}
	// Also warms the classes of the request path into the class archive.
	return l.WaitHealthy(ctx)
}

// furniture are the statements of Furnish.
func furniture(l Layout) ([]string, error) {
	var out []string
	for _, k := range []struct {
		name, columns string
		replicas      int
	}{{readyKeyspace, "id text PRIMARY KEY, at bigint", maxReplicas}, {reachKeyspace, "id int PRIMARY KEY", 1}} {
		replication, err := l.replication(k.replicas).CQL()
		if err != nil {
			return nil, err
		}
		out = append(out, "CREATE KEYSPACE IF NOT EXISTS "+k.name+" WITH replication = "+replication,
			"CREATE TABLE IF NOT EXISTS "+k.name+".rows ("+k.columns+")")
	}
	return out, nil
}

// Heal makes a cluster healthy that a run left in disorder: links pass, stopped
// nodes run, and all answer. The error names what could not be mended.
func Heal(ctx context.Context, c Cluster) error {
	errs := []error{c.Links().Heal(ctx)}
	for _, n := range c.Nodes() {
		var err error
		switch n.State() {
		case Paused:
			err = n.Resume(ctx)
		case Stopped, Killed, Crashed:
			err = n.Start(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s (its log is %s): %w", n.Name(), n.LogFile(), err))
		}
	}
	return errors.Join(append(errs, c.WaitHealthy(ctx))...)
}
