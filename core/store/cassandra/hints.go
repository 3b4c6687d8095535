package cassandra

import (
	"context"
	"slices"
	"time"

	"fencepost/core/clock"
)

// hintsWait bounds awaitHints. Nodes flush hints to files every hints_flush_period (10 s by
// default) and send those to nodes that are up every 10 s.
const hintsWait = 30 * time.Second

const selectHints = "SELECT status FROM system_views.pending_hints"

// awaitHints waits until no node keeps hints, writes that another one has missed, for a node
// that is up. A node that is sent a write to a table that it is dropping fails half-way
// ("Unknown CF" in its log, Cassandra 5.0.6): it has dropped the keyspace on disk but not in
// memory, and agrees with no other node's schema until it is restarted. What cannot be read,
// as by a role without permission for system_views, is not waited for.
func (db *DB) awaitHints(ctx context.Context, nodes []string) {
	const pause = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, hintsWait)
	defer cancel()
	up := func(hints map[string]any) bool { return hints["status"] == "UP" }
	for _, ip := range nodes {
		for {
			rows, err := db.queryOn(ctx, ip, selectHints)
			if err != nil || !slices.ContainsFunc(rows, up) || clock.Go().Sleep(ctx, pause) != nil {
				break
			}
		}
	}
}
