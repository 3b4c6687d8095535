package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// knowledge is what a program knows of schemas: the upgrades from version 1 on, in
// order. The schema that new keyspaces get has them all.
type knowledge []upgrade

// known is this program's. To change the tables, change schema.cql and append an upgrade
// that makes the same of the version before. One that only adds what older programs need
// not know lets both work side by side, as during a rolling upgrade; that is the way to
// go. One that breaks them needs all of them stopped first.
var known = knowledge{
	// 2: a queue's number of shards may be raised. Programs that do not know that are kept out by the
	// first raise (Shards.RaiseQueue), not by the column.
	{steps: []step{{table: "queues", column: "first_shards", cql: "ALTER TABLE KEYSPACE.queues ADD first_shards int"}}},
	// 3: how shards are compacted, which programs need not know.
	{steps: []step{{table: "shards", compaction: sizeTiered, cql: "ALTER TABLE KEYSPACE.shards WITH compaction = {'class': '" + sizeTiered + "'}"}}},
}

const sizeTiered = "SizeTieredCompactionStrategy"

// SchemaVersion is the version of the tables that this program makes.
const SchemaVersion = 3

// raisesVersion is the version from which on programs know of raised queues.
const raisesVersion = 2

// upgrade leads to a version from the one before.
type upgrade struct {
	steps []step
	// breaks: programs that do not know this version cannot use the tables any more.
	// They refuse to start from before the first step on; those that run are not
	// stopped.
	breaks bool
}

// step is a statement, in which KEYSPACE stands for the keyspace, and what is there
// when it was carried out: a table, a column of it, or the class of its compaction. Several
// processes may do it at once.
type step struct{ table, column, compaction, cql string }

func (k knowledge) version() int { return len(k) + 1 }

// upgrade carries out what leads from a version to that of k. Of a keyspace whose
// version is not said yet (0) anything may be there: another program may be making it.
func (db *DB) upgrade(ctx context.Context, keyspace string, from int, k knowledge) error {
	for n, u := range k {
		to := n + 2
		if to <= from {
			continue
		}
		if u.breaks {
			if _, err := raise(ctx, db, keyspace+".settings", settingOldest, to); err != nil {
				return err
			}
		}
		var err error
		for _, c := range u.steps {
			if err = db.step(ctx, keyspace, c); err != nil {
				break
			}
		}
		if err == nil {
			err = db.awaitSchema(ctx) // what another process has done may not be everywhere yet
		}
		if err != nil {
			return fmt.Errorf("cassandra: upgrade of keyspace %s to schema version %d: %w", keyspace, to, err)
		}
	}
	return nil
}

// step carries out what is not there yet.
func (db *DB) step(ctx context.Context, keyspace string, c step) error {
	there, err := db.has(ctx, keyspace, c)
	if err != nil || there {
		return err
	}
	err = db.define(ctx, strings.ReplaceAll(c.cql, "KEYSPACE", keyspace))
	if r := Refused(err); r != Exists && r != Invalid {
		return err
	}
	// Another process may have been quicker, and the node that was asked first may not
	// have heard of it.
	if e := db.awaitSchema(ctx); e != nil {
		return errors.Join(err, e)
	}
	if there, e := db.has(ctx, keyspace, c); e != nil || !there {
		return errors.Join(err, e)
	}
	return nil
}

// has is whether what a step makes is there. A table has one column at least.
func (db *DB) has(ctx context.Context, keyspace string, c step) (bool, error) {
	if c.compaction != "" {
		rows, err := db.Query(ctx, false, "SELECT compaction FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?", keyspace, c.table)
		if err != nil || len(rows) == 0 {
			return false, err
		}
		options, _ := rows[0]["compaction"].(map[string]string)
		return strings.HasSuffix(options["class"], "."+c.compaction), nil
	}
	rows, err := db.Query(ctx, false, "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?", keyspace, c.table)
	for _, row := range rows {
		if name, _ := row["column_name"].(string); c.column == "" || name == c.column {
			return true, err
		}
	}
	return false, err
}

// raise makes a setting that is a number at least to, and returns what it is then.
func raise(ctx context.Context, db database, table, name string, to int) (int, error) {
	is, err := setOnce(ctx, db, table, name, strconv.Itoa(to))
	for err == nil && number(is) < to {
		var applied bool
		var rows []map[string]any
		applied, rows, err = db.CAS(ctx, 0, store.Statement{CQL: "UPDATE " + table + " SET value = ? WHERE name = ? IF value = ?",
			Args: []any{strconv.Itoa(to), name, is}, Partition: []any{name}})
		switch {
		case err != nil:
		case applied:
			is = strconv.Itoa(to)
		case len(rows) == 1 && rows[0]["value"] != is:
			is, _ = rows[0]["value"].(string)
		default:
			err = malformed("raise "+name, rows)
		}
	}
	return number(is), err
}

// number is that of a version; 0 if it is none.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0
	}
	return n
}

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
// *ReleaseError, a *VersionError, an *AgreementError, a *ReplicasError or a *ReplicationError;
// with each of them nothing was changed.
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
		if err := db.checkNodes(ctx, keyspace, cfg, r); err != nil {
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
			if found[name], err = setOnce(ctx, db, keyspace+".settings", name, own[name]); err != nil {
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
		version, err = raise(ctx, db, keyspace+".settings", settingVersion, k.version())
		return err
	})
	return Settings{Created: true, PeerSecret: found[settingSecret], Version: version}, err
}

// agree compares what was found with what this process would do.
func (k knowledge) agree(keyspace string, found, own map[string]string) error {
	if v := found[settingVersion]; v != "" {
		oldest := cmp.Or(found[settingOldest], "1")
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

// hintsWait bounds awaitHints. Nodes flush hints to files every hints_flush_period (10 s by
// default) and send those to nodes that are up every 10 s.
const hintsWait = 30 * time.Second

// What a node keeps for others: files of hints, and those that it is sending, which it no
// longer counts among the files.
const (
	selectHints     = "SELECT status FROM system_views.pending_hints"
	selectHintsSent = "SELECT active_tasks, pending_tasks FROM system_views.thread_pools WHERE name = 'HintsDispatcher'"
)

// awaitHints waits until no node keeps hints, writes that another one has missed, for a node
// that is up. A node that is sent a write to a table that it is dropping fails half-way
// ("Unknown CF" in its log, Cassandra 5.0.6): it has dropped the keyspace on disk but not in
// memory, and agrees with no other node's schema until it is restarted. What cannot be read,
// as on 4.0, which has no pending_hints, or by a role without permission for system_views, is not
// waited for.
func (db *DB) awaitHints(ctx context.Context, nodes []string) {
	const pause = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, hintsWait)
	defer cancel()
	for _, ip := range nodes {
		for db.keepsHints(ctx, ip) && clock.Go().Sleep(ctx, pause) == nil {
		}
	}
}

// keepsHints tells whether a node has hints for a node that is up, or sends some. The files
// are read first: one that is taken to be sent between the two is seen as sent.
func (db *DB) keepsHints(ctx context.Context, ip string) bool {
	files, err := db.queryOn(ctx, ip, selectHints)
	if err != nil {
		return false
	}
	if slices.ContainsFunc(files, func(row map[string]any) bool { return row["status"] == "UP" }) {
		return true
	}
	pools, err := db.queryOn(ctx, ip, selectHintsSent)
	return err == nil && slices.ContainsFunc(pools, func(row map[string]any) bool {
		return row["active_tasks"] != 0 || row["pending_tasks"] != 0
	})
}
