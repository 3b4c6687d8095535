package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"fencepost/systems/drive"
)

// dbSchedulerTable is as db-scheduler's repository has it for PostgreSQL, without what priorities need.
const dbSchedulerTable = `
CREATE SCHEMA %[1]s;
CREATE TABLE %[1]s.scheduled_tasks (
	task_name text NOT NULL,
	task_instance text NOT NULL,
	task_data bytea,
	execution_time timestamptz NOT NULL,
	picked boolean NOT NULL,
	picked_by text,
	last_success timestamptz,
	last_failure timestamptz,
	consecutive_failures int,
	last_heartbeat timestamptz,
	version bigint NOT NULL,
	PRIMARY KEY (task_name, task_instance)
);
CREATE INDEX ON %[1]s.scheduled_tasks (execution_time);
CREATE INDEX ON %[1]s.scheduled_tasks (last_heartbeat)`

func setUpDBScheduler(ctx context.Context, at drive.Place) error {
	pool, err := pgPool(ctx, at, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, fmt.Sprintf(dbSchedulerTable, pgx.Identifier{at.Name}.Sanitize()))
	return err
}

// openDBScheduler starts systems/java/db-scheduler, which scripts/build-java puts beside this executable.
func openDBScheduler(ctx context.Context, _ drive.Place, slots int, run drive.Run) (drive.Queue, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return openChild(ctx, "db-scheduler", exec.Command(filepath.Join(filepath.Dir(self), "db-scheduler", "run")), slots, run)
}
