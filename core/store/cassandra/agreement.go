package cassandra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// AgreementError is a keyspace whose processes agree in another way: conditional writes
// of the two would not see each other, and a lock would have two holders with one token.
// Found is "" if nobody has settled yet how they agree.
type AgreementError struct{ Keyspace, Found, Own string }

func (e *AgreementError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("cassandra: nobody has settled how the processes of keyspace %s agree, and this one would by %s: call Prepare or Migrate first (schedulerd migrate), which settle it for all of them", e.Keyspace, e.Own)
	}
	return fmt.Sprintf("cassandra: the processes of keyspace %s agree by %s, and this one would by %s: their conditional writes would not see each other; give all of them the same local data centre, or none", e.Keyspace, e.Found, e.Own)
}

// agreement is by which quorum conditional writes are decided.
func (c Config) agreement() string {
	if c.Serial == LocalSerial {
		return LocalSerial + " in " + c.LocalDC
	}
	return c.Serial
}

// unsettledFor is for how long a session of a keyspace without a settled agreement, made
// by an older program, goes on before it looks again.
const unsettledFor = 10 * time.Second

// domain makes sure, before the first conditional request of a session, that the
// keyspace's processes agree as this one does. That this is not part of Open costs no
// availability: a conditional request needs the same nodes.
type domain struct {
	keyspace, own string
	now           func() time.Time

	mu      sync.Mutex
	settled bool
	until   time.Time
}

func newDomain(cfg Config) *domain {
	return &domain{keyspace: cfg.Keyspace, own: cfg.agreement(), now: time.Now}
}

// check compares what look finds. What is found was decided by all data centres and never
// changes, so that to find it near by is enough; to find nothing near by proves nothing,
// as the write may not have come here yet: then all data centres are asked.
func (d *domain) check(look func(everywhere bool) (string, error)) error {
	d.mu.Lock()
	known := d.keyspace == "" || d.settled || d.now().Before(d.until)
	d.mu.Unlock()
	if known {
		return nil
	}
	found, err := look(false)
	if err == nil && found == "" {
		found, err = look(true)
	}
	switch {
	case err != nil:
		return &store.Error{Op: "look how keyspace " + d.keyspace + " agrees", Outcome: store.Fail, Permanent: store.IsPermanent(err), Cause: err}
	case found == "" && d.own == Serial:
		// A keyspace of an older program, which settled nothing. Another agreement than
		// the default needs a Prepare.
	case found != d.own:
		return &store.Error{Op: "look how keyspace " + d.keyspace + " agrees", Outcome: store.Fail, Permanent: true,
			Cause: &AgreementError{d.keyspace, found, d.own}}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled, d.until = found != "", d.now().Add(unsettledFor)
	return nil
}

const readAgreement = "SELECT value FROM settings WHERE name = '" + settingAgreement + "'"

// agreed makes sure that conditional requests may be sent.
func (db *DB) agreed(ctx context.Context, copyNo int) error {
	return db.domain.check(func(everywhere bool) (string, error) {
		cons, name := db.cfg.consistency(), db.cfg.Consistency
		if everywhere {
			cons, name = gocql.Consistency(gocql.Serial), Serial
		}
		rows, err := db.query(ctx, copyNo, cons, name, store.Statement{CQL: readAgreement, Partition: []any{settingAgreement}})
		if code(err) == gocql.ErrCodeInvalid {
			return "", nil // no such table: an older program made the keyspace
		}
		if err != nil || len(rows) == 0 {
			return "", err
		}
		value, _ := rows[0]["value"].(string)
		return value, nil
	})
}

// setOnce writes a setting unless it is there, and returns what it is then.
func setOnce(ctx context.Context, db database, table, name, value string) (string, error) {
	applied, rows, err := db.CAS(ctx, 0, store.Statement{CQL: "INSERT INTO " + table + " (name, value) VALUES (?, ?) IF NOT EXISTS", Args: []any{name, value}, Partition: []any{name}})
	switch {
	case err != nil:
		return "", err
	case applied:
		return value, nil
	case len(rows) == 1:
		if is, _ := rows[0]["value"].(string); is != "" {
			return is, nil
		}
	}
	return "", malformed("set "+name, rows)
}

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

// checkNodes reports nodes that cannot be relied on, and a keyspace that cannot have a quorum:
// one that is to be made with this replication, or one that is there.
func (db *DB) checkNodes(ctx context.Context, keyspace string, cfg Config, r Replication) error {
	up, err := db.awaitUp(ctx)
	if err != nil {
		return err
	}
	nodes := map[string]int{}
	for table, address := range map[string]string{"system.local": "broadcast_address", "system.peers": "peer"} { // of one node: together they are all
		rows, err := db.queryOn(ctx, up[0], "SELECT data_center, release_version, "+address+" FROM "+table)
		if err != nil {
			return classify(ctx, "read "+table, err)
		}
		for _, row := range rows {
			dc, _ := row["data_center"].(string)
			nodes[dc]++
			release, _ := row["release_version"].(string)
			if !cfg.AnyRelease && !linearizable(release) {
				return &ReleaseError{fmt.Sprint(row[address]), release}
			}
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
