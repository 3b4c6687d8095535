package cassandra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"fencepost/core/store"
)

// settingsTable has what all processes of a keyspace must agree on. It is no part of
// Schema: only Prepare uses it.
const settingsTable = `CREATE TABLE IF NOT EXISTS settings (
  name  text PRIMARY KEY,
  value text
) WITH comment = 'what all schedulers of this keyspace agree on';`

// Names of settings.
const (
	settingVersion   = "schema_version"
	settingOldest    = "schema_oldest"
	settingAgreement = "agreement"
	settingSecret    = "peer_secret"
)

// Settings are what all processes of a keyspace agree on.
type Settings struct {
	// Created: this call created or changed tables.
	Created bool
	// PeerSecret is what processes show each other (core/forward): whoever may read
	// this keyspace is one of them.
	PeerSecret string
	// Version is that of the tables: SchemaVersion, or a newer one that programs which
	// know this one can still use.
	Version int
}

// VersionError is a keyspace that a newer program has prepared in a way that this one
// cannot use.
type VersionError struct {
	Keyspace string
	// Found is its version, Oldest the one that a program must know at least, and Known
	// the one that this program knows.
	Found, Oldest string
	Known         int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("cassandra: keyspace %s has schema version %s, for programs that know version %s at least, and this one knows versions up to %d only: use a newer program, or another keyspace", e.Keyspace, e.Found, e.Oldest, e.Known)
}

// AgreementError is a keyspace whose processes agree in another way: conditional writes
// of the two would not see each other.
type AgreementError struct{ Keyspace, Found, Own string }

func (e *AgreementError) Error() string {
	return fmt.Sprintf("cassandra: the schedulers of keyspace %s agree by %s, and this one would by %s: their conditional writes would not see each other; give all of them the same local data centre, or none", e.Keyspace, e.Found, e.Own)
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

// Prepare makes a keyspace ready for schedulers: it creates the keyspace and the tables
// unless they are there, upgrades those of an older version, and settles what all
// processes must agree on. If all is as it should be it only reads; what was left half
// done is done by whoever is next, and any number may be at it at once. The error may be
// a *VersionError, an *AgreementError or a *ReplicasError; with each of them nothing was
// changed.
func Prepare(ctx context.Context, cfg Config, r Replication) (Settings, error) {
	return prepare(ctx, cfg, r, known)
}

func prepare(ctx context.Context, cfg Config, r Replication, k knowledge) (Settings, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Settings{}, err
	}
	own := map[string]string{settingVersion: strconv.Itoa(k.version()), settingAgreement: agreement(cfg)}
	var found map[string]string
	err = ddl(ctx, cfg, func(db *DB, keyspace string) error {
		if found, err = db.settings(ctx, keyspace); err != nil || found[settingVersion] != "" {
			return err
		}
		return db.checkReplicas(ctx, keyspace, r)
	})
	if err != nil {
		return Settings{}, err
	}
	if err := k.agree(cfg.Keyspace, found, own); err != nil {
		return Settings{}, err
	}
	version := number(found[settingVersion])
	if version >= k.version() && found[settingAgreement] != "" && found[settingSecret] != "" {
		return Settings{PeerSecret: found[settingSecret], Version: version}, nil
	}
	if version == 0 {
		if err := Migrate(ctx, cfg, r); err != nil {
			return Settings{}, err
		}
	}
	// Whatever the processes agree by, these rows are agreed on by all data centres.
	cfg.Serial, cfg.Consistency = Serial, Quorum
	own[settingSecret] = uuid.NewString()
	err = ddl(ctx, cfg, func(db *DB, keyspace string) error {
		if err := db.createTables(ctx, keyspace, settingsTable); err != nil {
			return err
		}
		if err := db.upgrade(ctx, keyspace, version, k); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if found[name], err = db.setOnce(ctx, keyspace, name, own[name]); err != nil {
				return err
			}
		}
		// Another process may have raised the oldest version since the first look. What was
		// set conditionally is not read again: the conditional write has its value for sure.
		now, err := db.settings(ctx, keyspace)
		if err != nil {
			return err
		}
		if oldest := now[settingOldest]; oldest != "" {
			found[settingOldest] = oldest
		}
		if err := k.agree(keyspace, found, own); err != nil {
			return err
		}
		version, err = db.raise(ctx, keyspace, settingVersion, k.version())
		return err
	})
	return Settings{Created: true, PeerSecret: found[settingSecret], Version: version}, err
}

// agreement is by which quorum conditional writes are decided.
func agreement(cfg Config) string {
	if cfg.Serial == LocalSerial {
		return LocalSerial + " in " + cfg.LocalDC
	}
	return cfg.Serial
}

// agree compares what was found with what this process would do.
func (k knowledge) agree(keyspace string, found, own map[string]string) error {
	if v := found[settingVersion]; v != "" {
		oldest := found[settingOldest]
		if oldest == "" {
			oldest = "1"
		}
		if number(v) == 0 || number(oldest) == 0 || number(oldest) > k.version() {
			return &VersionError{Keyspace: keyspace, Found: v, Oldest: oldest, Known: k.version()}
		}
	}
	if a := found[settingAgreement]; a != "" && a != own[settingAgreement] {
		return &AgreementError{keyspace, a, own[settingAgreement]}
	}
	return nil
}

// settings reads all of them; none without the table.
func (db *DB) settings(ctx context.Context, keyspace string) (map[string]string, error) {
	out := map[string]string{}
	tables, err := db.Query(ctx, false, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'settings'", keyspace)
	if err != nil || len(tables) == 0 {
		return out, err
	}
	rows, err := db.Query(ctx, false, "SELECT name, value FROM "+keyspace+".settings")
	for _, row := range rows {
		name, _ := row["name"].(string)
		out[name], _ = row["value"].(string)
	}
	return out, err
}

// setOnce writes a setting unless it is there, and returns what it is then.
func (db *DB) setOnce(ctx context.Context, keyspace, name, value string) (string, error) {
	applied, rows, err := db.CAS(ctx, 0, store.Statement{CQL: "INSERT INTO " + keyspace + ".settings (name, value) VALUES (?, ?) IF NOT EXISTS", Args: []any{name, value}, Partition: []any{name}})
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

// checkReplicas reports a keyspace that is not there yet and whose quorum could not be
// had.
func (db *DB) checkReplicas(ctx context.Context, keyspace string, r Replication) error {
	there, err := db.Query(ctx, false, "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", keyspace)
	if err != nil || len(there) > 0 {
		return err
	}
	nodes := map[string]int{}
	for _, table := range []string{"system.local", "system.peers"} {
		rows, err := db.Query(ctx, false, "SELECT data_center FROM "+table)
		if err != nil {
			return err
		}
		for _, row := range rows {
			dc, _ := row["data_center"].(string)
			nodes[dc]++
		}
	}
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
