package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fencepost/core/store"
)

// knowledge is what a program knows of schemas: the upgrades from version 1 on, in
// order. The schema that new keyspaces get has them all.
type knowledge []upgrade

// known is this program's. To change the tables, change schema.cql and append an upgrade
// that makes the same of the version before. One that only adds what older programs need
// not know lets both work side by side, as during a rolling upgrade; that is the way to
// go. One that breaks them needs all of them stopped first.
var known = knowledge{}

// SchemaVersion is the version of the tables that this program makes.
const SchemaVersion = 1

// upgrade leads to a version from the one before.
type upgrade struct {
	steps []step
	// breaks: programs that do not know this version cannot use the tables any more.
	// They refuse to start from before the first step on; those that run are not
	// stopped.
	breaks bool
}

// step is a statement, in which KEYSPACE stands for the keyspace, and what is there
// when it was carried out: a table, or a column of it. Several processes may do it at
// once.
type step struct{ table, column, cql string }

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
			if _, err := db.raise(ctx, keyspace, settingOldest, to); err != nil {
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
	rows, err := db.Query(ctx, false, "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?", keyspace, c.table)
	for _, row := range rows {
		if name, _ := row["column_name"].(string); c.column == "" || name == c.column {
			return true, err
		}
	}
	return false, err
}

// raise makes a setting that is a number at least to, and returns what it is then.
func (db *DB) raise(ctx context.Context, keyspace, name string, to int) (int, error) {
	is, err := db.setOnce(ctx, keyspace, name, strconv.Itoa(to))
	for err == nil && number(is) < to {
		var applied bool
		var rows []map[string]any
		applied, rows, err = db.CAS(ctx, 0, store.Statement{CQL: "UPDATE " + keyspace + ".settings SET value = ? WHERE name = ? IF value = ?",
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
