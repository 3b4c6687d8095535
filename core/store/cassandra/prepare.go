package cassandra

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// Names of settings.
const (
	settingVersion   = "schema_version"
	settingOldest    = "schema_oldest"
	settingAgreement = "agreement"
	settingSecret    = "peer_secret"
)

// Settings are shared by all processes of a keyspace.
type Settings struct {
	// Created: this call created or changed tables.
	Created bool
	// PeerSecret is what processes show each other (core/forward): who may read
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

// Prepare makes a keyspace ready for schedulers and locks: it creates the keyspace and the
// tables unless they are there, upgrades those of an older version, and settles what all
// processes must agree on. Each process calls it at its start. If all is as it should be
// it only reads, and with a LocalDC asks that data centre alone; what was left half done is
// done by the next process, and any number may do it at once. The error may be a
// *VersionError, an *AgreementError, a *ReplicasError or a *ReplicationError; with each of
// them nothing was changed.
func Prepare(ctx context.Context, cfg Config, r Replication) (Settings, error) {
	return prepare(ctx, cfg, r, known)
}

func prepare(ctx context.Context, cfg Config, r Replication, k knowledge) (Settings, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Settings{}, err
	}
	own := map[string]string{settingVersion: strconv.Itoa(k.version()), settingAgreement: cfg.agreement()}
	var found map[string]string
	err = open(ctx, cfg, func(db *DB, keyspace string) error {
		if err := db.checkReplicas(ctx, keyspace, cfg, r); err != nil {
			return err
		}
		found, err = db.settings(ctx, keyspace)
		return err
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
	own[settingSecret] = uuid.NewString()
	err = ddl(ctx, cfg, func(db *DB, keyspace string) error {
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

// agree compares what was found with what this process would do.
func (k knowledge) agree(keyspace string, found, own map[string]string) error {
	if v := found[settingVersion]; v != "" {
		oldest := found[settingOldest]
		oldest = cmp.Or(oldest, "1")
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
