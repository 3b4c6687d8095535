package lockperjob

import (
	"context"
	"fmt"

	"fencepost/core/store/cassandra"
)

// Name is the name of this scheduler as a system under test.
const Name = "lock-per-job"

// tables of the scheduler, beside those of core/store/cassandra, of which it uses ids
// for its tokens. Pending rows come and go fast, so their tombstones are kept for a
// minute only.
var tables = []string{
	`CREATE TABLE IF NOT EXISTS lpj_jobs (
	  id         text PRIMARY KEY,
	  body       blob,    -- the job as it was enqueued
	  state      text,
	  attempt    int,     -- runs so far
	  fence      bigint,  -- token of the last run
	  due_ms     bigint,
	  ended_ms   bigint,  -- 0 until it ended
	  last_error text
	)`,
	`CREATE TABLE IF NOT EXISTS lpj_pending (
	  queue  text,
	  bucket int,
	  due_ms bigint,
	  id     text,
	  PRIMARY KEY ((queue, bucket), due_ms, id)
	) WITH gc_grace_seconds = 60`,
	`CREATE TABLE IF NOT EXISTS lpj_locks (
	  lock       text PRIMARY KEY,
	  holder     text,      -- '' = released
	  fence      bigint,
	  expires_at timestamp  -- by the holder's wall clock
	)`,
	`CREATE TABLE IF NOT EXISTS lpj_runs (
	  job        text,
	  fence      bigint,
	  attempt    int,
	  holder     text,
	  started_ms bigint,
	  ended_ms   bigint,
	  error      text,
	  PRIMARY KEY (job, fence)
	)`,
}

// CreateTables creates the scheduler's tables in db's keyspace, which must have those
// of core/store/cassandra (cassandra.Migrate). It changes nothing that exists.
func CreateTables(ctx context.Context, db *cassandra.DB) error {
	for _, cql := range tables {
		if err := db.Exec(ctx, cql); err != nil {
			return fmt.Errorf("lockperjob: %.45q: %w", cql, err)
		}
	}
	return nil
}
