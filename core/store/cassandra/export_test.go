package cassandra

import "context"

// AnUpgrade is one.
type AnUpgrade = upgrade

// Upgrade adds a column to a table.
func Upgrade(table, column, kind string, breaks bool) upgrade {
	return upgrade{breaks: breaks, steps: []step{{table: table, column: column, cql: "ALTER TABLE KEYSPACE." + table + " ADD " + column + " " + kind}}}
}

// PrepareKnowing is Prepare of a program that knows these upgrades beyond its own.
func PrepareKnowing(ctx context.Context, cfg Config, r Replication, more ...upgrade) (Settings, error) {
	return prepare(ctx, cfg, r, append(knowledge{}, append(known, more...)...))
}

// What DropKeyspace waits for.
const (
	SelectHints     = selectHints
	SelectHintsSent = selectHintsSent
)

// KeepsHints tells whether a node does.
func (db *DB) KeepsHints(ctx context.Context, ip string) bool { return db.keepsHints(ctx, ip) }
