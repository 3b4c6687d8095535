package cassandra

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/clock"
	"fencepost/core/store"
)

//go:embed schema.cql
var schema string

// Schema returns the CQL of all tables.
func Schema() string { return schema }

// Replication of a keyspace.
type Replication struct {
	// Class is SimpleStrategy or NetworkTopologyStrategy (the default, and
	// the one for production).
	Class string
	// Factor is the number of replicas: of SimpleStrategy, or of every data
	// centre when DCs is empty. Default 3.
	Factor int
	// DCs is the number of replicas by data centre.
	DCs map[string]int
}

// CQL is the value of the keyspace's replication option.
func (r Replication) CQL() (string, error) {
	r.Factor = cmp.Or(r.Factor, 3)
	switch r.Class {
	case "SimpleStrategy":
		if len(r.DCs) > 0 {
			return "", errors.New("cassandra: SimpleStrategy takes no data centres: use NetworkTopologyStrategy")
		}
		return fmt.Sprintf("{'class': 'SimpleStrategy', 'replication_factor': %d}", r.Factor), nil
	case "", "NetworkTopologyStrategy":
		if len(r.DCs) == 0 {
			return fmt.Sprintf("{'class': 'NetworkTopologyStrategy', 'replication_factor': %d}", r.Factor), nil
		}
		var dcs []string
		for dc, n := range r.DCs {
			if strings.ContainsAny(dc, "'\\") {
				return "", fmt.Errorf("cassandra: data centre name %q", dc)
			}
			dcs = append(dcs, fmt.Sprintf("'%s': %d", dc, n))
		}
		sort.Strings(dcs)
		return "{'class': 'NetworkTopologyStrategy', " + strings.Join(dcs, ", ") + "}", nil
	}
	return "", fmt.Errorf("cassandra: replication class %q: use NetworkTopologyStrategy or SimpleStrategy", r.Class)
}

// identifier is what a keyspace may be called; it is never quoted.
var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// Migrate creates the keyspace and all tables if they do not exist, waits until all live
// nodes agree, and settles by which quorum the keyspace's processes decide, if that is not
// settled yet (*AgreementError). It changes nothing else that exists. Nodes of a release that
// breaks conditional writes are refused (*ReleaseError), once the keyspace is there.
func Migrate(ctx context.Context, cfg Config, r Replication) error {
	return migrate(ctx, cfg, r, "CREATE KEYSPACE IF NOT EXISTS ")
}

// Create is Migrate for a keyspace that must not exist yet: where others have
// keyspaces too, one that is there may be theirs ([Refused] is then Exists).
func Create(ctx context.Context, cfg Config, r Replication) error {
	return migrate(ctx, cfg, r, "CREATE KEYSPACE ")
}

func migrate(ctx context.Context, cfg Config, r Replication, create string) error {
	repl, err := r.CQL()
	if err != nil {
		return err
	}
	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	return ddl(ctx, cfg, func(db *DB, keyspace string) error {
		if err := db.define(ctx, fmt.Sprintf("%s%s WITH replication = %s AND durable_writes = true", create, keyspace, repl)); err != nil {
			return fmt.Errorf("cassandra: create keyspace %s: %w", keyspace, err)
		}
		if err := db.checkNodes(ctx, keyspace, cfg, r); err != nil {
			return err // it was there before
		}
		if err := db.createTables(ctx, keyspace, schema); err != nil {
			return err
		}
		found, err := setOnce(ctx, db, keyspace+".settings", settingAgreement, cfg.agreement())
		if err == nil && found != cfg.agreement() {
			err = &AgreementError{keyspace, found, cfg.agreement()}
		}
		return err
	})
}

func (db *DB) createTables(ctx context.Context, keyspace, cql string) error {
	for _, stmt := range statements(cql) {
		qualified := strings.Replace(stmt, "IF NOT EXISTS ", "IF NOT EXISTS "+keyspace+".", 1)
		if err := db.define(ctx, qualified); err != nil {
			return fmt.Errorf("cassandra: %.60q: %w", qualified, err)
		}
	}
	return nil
}

// define runs DDL by one node, and waits until all agree.
func (db *DB) define(ctx context.Context, cql string) error {
	node, err := db.definer(ctx)
	if err != nil {
		return err
	}
	if err := db.execOn(ctx, node, cql); err != nil {
		return err
	}
	return db.awaitSchema(ctx)
}

// definerWait is for how long a session that was just opened may lack nodes.
const definerWait = 2 * time.Second

// definer is the node for DDL, the one with the lowest address: two processes that create
// the same table by two nodes at once would make two of it. A session that was just
// opened does not have all nodes yet; those that are down are waited for once.
func (db *DB) definer(ctx context.Context) (string, error) {
	peers, err := db.Query(ctx, false, "SELECT peer FROM system.peers")
	if err != nil {
		return "", err
	}
	db.mu.Lock()
	waited := db.waited
	db.waited = true
	db.mu.Unlock()
	nodes, err := db.awaitUp(ctx)
	for end := time.Now().Add(definerWait); !waited && err == nil && len(nodes) <= len(peers) && time.Now().Before(end); {
		if err = clock.Go().Sleep(ctx, 20*time.Millisecond); err == nil {
			nodes, err = db.awaitUp(ctx)
		}
	}
	if err != nil {
		return "", err
	}
	return slices.Min(nodes), nil
}

// DropKeyspace removes the keyspace and everything in it, by a request to each node
// that is up. One node would do if all of them could be relied on to hear of it; one
// that comes from a partition may not, and then, with what it believes to be there,
// stays of its own opinion for minutes. To drop what is gone changes nothing. Writes that
// were missed by nodes that are up again come first: see awaitHints.
func DropKeyspace(ctx context.Context, cfg Config) error {
	return ddl(ctx, cfg, func(db *DB, keyspace string) error {
		nodes, err := db.awaitUp(ctx)
		if err != nil {
			return err
		}
		db.awaitHints(ctx, nodes)
		var errs []error
		for _, ip := range nodes {
			if err := db.execOn(ctx, ip, "DROP KEYSPACE IF EXISTS "+keyspace); err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) == len(nodes) {
			return errors.Join(errs...)
		}
		return db.awaitSchema(ctx)
	})
}

// awaitUp returns the IPs of the nodes that the session is connected to, at least one:
// the driver tells of its first connections only after it has opened the session.
func (db *DB) awaitUp(ctx context.Context) ([]string, error) {
	const pause = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, db.cfg.RequestTimeout)
	defer cancel()
	for {
		if nodes := db.policy.up(); len(nodes) > 0 {
			return nodes, nil
		}
		if err := clock.Go().Sleep(ctx, pause); err != nil {
			return nil, &store.Error{Op: "wait for a connection", Outcome: store.Fail, Cause: err}
		}
	}
}

// execOn runs a statement with the named node as coordinator.
func (db *DB) execOn(ctx context.Context, ip, cql string) error {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.RequestTimeout)
	defer cancel()
	err := db.session.Query(cql).WithContext(context.WithValue(ctx, routeKey{}, &route{ip: ip})).Exec()
	if err != nil {
		return classify(ctx, cql+" on "+ip, err)
	}
	return nil
}

// ddl opens a session for what all data centres must know: the schema, and settings.
// Whatever the processes agree by, settings are decided by a quorum of all replicas.
func ddl(ctx context.Context, cfg Config, f func(*DB, string) error) error {
	cfg.LocalDC, cfg.Serial, cfg.Consistency = "", Serial, Quorum
	return open(ctx, cfg, f)
}

// open opens a session outside of any keyspace, as that of cfg may not exist.
func open(ctx context.Context, cfg Config, f func(*DB, string) error) error {
	keyspace := cfg.Keyspace
	if !identifier.MatchString(keyspace) {
		return fmt.Errorf("cassandra: keyspace %q: use a lower-case letter, then lower-case letters, digits and underscores, 48 at most", keyspace)
	}
	cfg.Keyspace = ""
	// Schema changes take a second or two each on a busy cluster; the time
	// limit of ordinary requests does not fit.
	cfg.RequestTimeout = max(cfg.RequestTimeout, 30*time.Second)
	db, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	return f(db, keyspace)
}

// statements splits CQL at semicolons and drops comments.
func statements(cql string) []string {
	var b strings.Builder
	for line := range strings.Lines(cql) {
		code, _, _ := strings.Cut(line, "--")
		b.WriteString(strings.TrimRight(code, " \n"))
		b.WriteByte('\n')
	}
	var out []string
	for s := range strings.SplitSeq(b.String(), ";") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// schemaWait is the time limit of awaitSchema: a node that missed a change, as after
// a restart, asks the others for it only once a minute.
const schemaWait = 90 * time.Second

// awaitSchema waits until all nodes that the session is connected to have the
// same schema. The driver's own wait also counts nodes that are down, whose last
// known version never changes, and so takes its full time limit when one is.
func (db *DB) awaitSchema(ctx context.Context) error {
	const pause = 50 * time.Millisecond
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(schemaWait, db.cfg.RequestTimeout))
		defer cancel()
	}
	for {
		versions := map[string][]string{}
		var last error
		for _, ip := range db.policy.up() {
			v, err := db.schemaVersion(ctx, ip)
			if err != nil {
				last = fmt.Errorf("ask %s: %w", ip, err)
				v = "unknown"
			}
			versions[v] = append(versions[v], ip)
		}
		if len(versions) == 1 && last == nil {
			return nil
		}
		if err := clock.Go().Sleep(ctx, pause); err != nil {
			return &store.Error{Op: "wait for schema agreement", Outcome: store.Unknown,
				Cause: errors.Join(fmt.Errorf("nodes by schema version: %v: %w", versions, err), last)}
		}
	}
}

func (db *DB) schemaVersion(ctx context.Context, ip string) (string, error) {
	rows, err := db.queryOn(ctx, ip, "SELECT schema_version FROM system.local WHERE key='local'")
	if err != nil {
		return "", err
	}
	if len(rows) != 1 {
		return "", fmt.Errorf("%d rows in system.local", len(rows))
	}
	v, _ := rows[0]["schema_version"].(string)
	return v, nil
}

// queryOn asks the named node for what it knows itself.
func (db *DB) queryOn(ctx context.Context, ip, cql string) ([]map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q := db.session.Query(cql).WithContext(context.WithValue(ctx, routeKey{}, &route{ip: ip})).Consistency(gocql.One)
	return readRows(q.Iter(), nullZero)
}
