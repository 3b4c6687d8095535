package cassandra

import "context"

// AnUpgrade is one.
type AnUpgrade = upgrade

// Upgrade adds a column to a table.
func Upgrade(table, column, kind string, breaks bool) upgrade {
	return upgrade{breaks: breaks, steps: []step{{table, column, "ALTER TABLE KEYSPACE." + table + " ADD " + column + " " + kind}}}
}

// PrepareKnowing is Prepare of a program that knows these upgrades beyond its own.
func PrepareKnowing(ctx context.Context, cfg Config, r Replication, more ...upgrade) (Settings, error) {
	return prepare(ctx, cfg, r, append(knowledge{}, append(known, more...)...))
}

// SelectHints reads what DropKeyspace waits for.
const SelectHints = selectHints
