package cassandra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ReplicasError is a keyspace that cannot have as many replicas as it should.
type ReplicasError struct {
	DC          string
	Nodes, Want int
	Known       []string // data centres
}

func (e *ReplicasError) Error() string {
	if e.Nodes == 0 {
		return fmt.Sprintf("cassandra: there is no node in data centre %q; the cluster has %s", e.DC, strings.Join(e.Known, ", "))
	}
	return fmt.Sprintf("cassandra: data centre %s has %d nodes, and the keyspace would want %d replicas there: use a smaller replication factor (one replica loses jobs with its disk)", e.DC, e.Nodes, e.Want)
}

// ReplicationError is a keyspace that exists and whose replication cannot carry what its
// processes agree by.
type ReplicationError struct{ Keyspace, Problem, Remedy string }

func (e *ReplicationError) Error() string {
	return fmt.Sprintf("cassandra: keyspace %s %s: %s, or use another keyspace", e.Keyspace, e.Problem, e.Remedy)
}

// checkReplicas reports a keyspace that cannot have a quorum: one that is to be made
// with this replication, or one that is there.
func (db *DB) checkReplicas(ctx context.Context, keyspace string, cfg Config, r Replication) error {
	up, err := db.awaitUp(ctx)
	if err != nil {
		return err
	}
	nodes := map[string]int{}
	for _, table := range []string{"system.local", "system.peers"} { // of one node: together they are all
		rows, err := db.queryOn(ctx, up[0], "SELECT data_center FROM "+table)
		if err != nil {
			return classify(ctx, "read "+table, err)
		}
		for _, row := range rows {
			dc, _ := row["data_center"].(string)
			nodes[dc]++
		}
	}
	there, err := db.Query(ctx, false, "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?", keyspace)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return enough(r, nodes)
	}
	replication, _ := there[0]["replication"].(map[string]string)
	durable, _ := there[0]["durable_writes"].(bool)
	if problem, remedy := misfit(replication, durable, cfg, nodes); problem != "" {
		return &ReplicationError{keyspace, problem, remedy}
	}
	return nil
}

// enough reports data centres with fewer nodes than a new keyspace would have replicas.
func enough(r Replication, nodes map[string]int) error {
	want := r.DCs
	if len(want) == 0 {
		want = map[string]int{}
		for dc := range nodes {
			want[dc] = max(r.Factor, 1)
		}
	}
	var errs []error
	for _, dc := range slices.Sorted(maps.Keys(want)) {
		if nodes[dc] < want[dc] {
			errs = append(errs, &ReplicasError{DC: dc, Nodes: nodes[dc], Want: want[dc], Known: slices.Sorted(maps.Keys(nodes))})
		}
	}
	return errors.Join(errs...)
}

// misfit says what is wrong with a keyspace's replication, and what to do; "" if it
// carries the agreement of cfg.
func misfit(replication map[string]string, durable bool, cfg Config, nodes map[string]int) (problem, remedy string) {
	class := replication["class"][strings.LastIndex(replication["class"], ".")+1:]
	byDC := class == "NetworkTopologyStrategy"
	local := cfg.Serial == LocalSerial
	alter := "ALTER KEYSPACE … WITH replication = {'class': 'NetworkTopologyStrategy', '" + cfg.LocalDC + "': 3}, then nodetool repair"
	if !durable {
		return "has durable_writes = false, so that a node that is killed forgets what it acknowledged", "ALTER KEYSPACE … WITH durable_writes = true"
	}
	if local && !byDC {
		return "is replicated by " + class + ", which knows no data centres, and the processes agree by " + cfg.agreement(), alter
	}
	replicas, reachable := 0, 0
	for dc, factor := range replication {
		switch {
		case dc == "class", local && dc != cfg.LocalDC:
			continue
		case strings.Contains(factor, "/"):
			return "has transient replicas (" + factor + "), which conditional writes cannot use", "ALTER KEYSPACE … with full replicas only"
		}
		n, err := strconv.Atoi(factor)
		if err != nil {
			continue // an option of the class
		}
		have := nodes[dc]
		if !byDC {
			have = 0
			for _, n := range nodes {
				have += n
			}
		}
		replicas += n
		reachable += min(n, have)
	}
	switch {
	case replicas == 0 && local:
		return "has no replica in data centre " + cfg.LocalDC + ", where its processes are to agree", alter
	case reachable < replicas/2+1 && (byDC || class == "SimpleStrategy"):
		return fmt.Sprintf("has %d replicas, and the cluster has nodes for %d of them: no quorum", replicas, reachable), "ALTER KEYSPACE … with as many replicas as there are nodes"
	}
	return "", ""
}
