package servers

import (
	"context"
	"os/exec"
	"strconv"
	"time"

	"fencepost/harness/env/postgres"
)

const postgresPort = 5432

// postgresOne is one server, as the sink of that name is.
var postgresOne = Kind{
	Name: "postgres", About: "one PostgreSQL server", Servers: 1, Port: postgresPort,
	Find: func(ctx context.Context, cacheDir string) (Program, error) {
		p, err := postgres.Find(ctx, cacheDir)
		return Program{Path: p.Dir, Version: p.Version}, err
	},
	Fetch: fetch("postgres"),
	Lay: func(ctx context.Context, cacheDir string, s Site, i int) (func() *exec.Cmd, error) {
		db, err := postgres.Lay(ctx, cacheDir, s.Dirs[i])
		return func() *exec.Cmd { return db.Command(s.IPs[i], strconv.Itoa(postgresPort)) }, err
	},
	EndSignal: postgres.EndSignal,
	Secret:    func(s Site) string { return postgres.SecretIn(s.Dirs[0]) },
	Hello:     postgres.Greeting,
	Ready:     postgresAnswers,
	Read:      postgresAnswers,
	ReadAs:    "a query",
	Leader:    first,
	Cannot:    Cannot{LoseData: "an empty directory is no database: it needs an initdb", Promote: noReplicas},
	Now: func(ctx context.Context, s Site, i int) (time.Time, error) {
		return postgres.Now(ctx, s.Addr(i), postgres.SecretIn(s.Dirs[i]))
	},
}

func postgresAnswers(ctx context.Context, s Site, i int) error {
	return postgres.Answers(ctx, s.Addr(i), postgres.SecretIn(s.Dirs[i]))
}
