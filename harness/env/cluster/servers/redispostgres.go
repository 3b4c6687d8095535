package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/postgres"
)

// redisPostgres is two servers that know nothing of each other, for systems that need both: n1 is that of
// redis, n2 that of postgres. Clients reach both at one port. Faults of the server that decides are
// those of Redis, by which such systems elect and register.
var redisPostgres = Kind{
	Name: "redis-postgres", About: "one Redis server (n1) and one PostgreSQL server (n2)", Servers: 2, Port: postgresPort,
	Find: func(ctx context.Context, cacheDir string) (Program, error) {
		r, err := redis.Find(ctx, cacheDir)
		p, err2 := postgresOne.Find(ctx, cacheDir)
		return Program{Path: r.Path + ", " + p.Path, Version: fmt.Sprintf("Redis %s, PostgreSQL %s", r.Version, p.Version)}, errors.Join(err, err2)
	},
	Fetch: fetch("redis-postgres"),
	Lay: func(ctx context.Context, cacheDir string, s Site, i int) (Command, error) {
		if i > 0 {
			return postgresOne.Lay(ctx, cacheDir, s, i)
		}
		p, err := redis.Find(ctx, cacheDir)
		return func(_ context.Context, s Site) (*exec.Cmd, error) {
			cmd := exec.Command(p.Path, redis.Args(s, i)...)
			cmd.Env = append(cluster.NodeEnv(), p.Env...)
			return cmd, os.MkdirAll(s.DataDir(i), 0o700) // it may have lost it
		}, errors.Join(err, os.MkdirAll(s.DataDir(i), 0o700))
	},
	EndSignal: postgres.EndSignal, // Redis takes it for SIGTERM
	Secret:    func(s Site) string { return postgres.SecretIn(s.Dirs[1]) },
	Hello:     func(i int) []byte { return ofBoth(i).Hello(i) },
	Ready:     func(ctx context.Context, s Site, i int) error { return ofBoth(i).Ready(ctx, s, i) },
	Read:      func(ctx context.Context, s Site, i int) error { return ofBoth(i).Read(ctx, s, i) },
	ReadAs:    "a read",
	Leader:    first,
	Cannot:    Cannot{Promote: noReplicas},
	Mark: func(ctx context.Context, s Site, i int, key string) (bool, error) {
		if i > 0 {
			return false, errors.New(postgresOne.Cannot.LoseData)
		}
		return redis.Mark(ctx, s, i, key)
	},
	Marked: redis.Marked,
	Now:    func(ctx context.Context, s Site, i int) (time.Time, error) { return ofBoth(i).Now(ctx, s, i) },
}

// ofBoth is the row that the i-th server of redisPostgres is of.
func ofBoth(i int) Kind { return []Kind{redis, postgresOne}[i] }
