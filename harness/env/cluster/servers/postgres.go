package servers

import (
	"context"
	"os/exec"
	"strconv"
	"time"

	"fencepost/harness/env/postgres"
)

const postgresPort = 5432

// The rows of PostgreSQL: one server, as the sink of that name is; one with a standby, which knows of
// a commit a moment after the client does, or before.
var (
	postgresOne = func() Kind {
		k := postgresKind("postgres", "one PostgreSQL server", 1)
		k.Lay = func(ctx context.Context, cacheDir string, s Site, i int) (Command, error) {
			db, err := postgres.Lay(ctx, cacheDir, s.Dirs[i])
			return func(_ context.Context, s Site) (*exec.Cmd, error) {
				return db.Command(s.IPs[i], strconv.Itoa(postgresPort)), nil
			}, err
		}
		return k
	}()
	postgresStandby = postgresPair("postgres-standby", "a PostgreSQL server with an asynchronous standby", false)
	postgresSync    = postgresPair("postgres-sync", "a PostgreSQL server with a synchronous standby, for which its commits wait", true)
)

func postgresKind(name, about string, servers int) Kind {
	return Kind{
		Name: name, About: about, Servers: servers, Port: postgresPort,
		Find: func(ctx context.Context, cacheDir string) (Program, error) {
			p, err := postgres.Find(ctx, cacheDir)
			return Program{Path: p.Dir, Version: p.Version}, err
		},
		Fetch:     fetch("postgres"),
		EndSignal: postgres.EndSignal,
		Secret:    func(s Site) string { return postgres.SecretIn(s.Dirs[0]) },
		Hello:     hello(string(postgres.Greeting)),
		Ready:     postgresAnswers,
		Read:      postgresAnswers,
		ReadAs:    "a query",
		Leader:    first,
		Cannot:    Cannot{LoseData: "an empty directory is no database: it needs an initdb", Promote: noReplicas},
		Now: func(ctx context.Context, s Site, i int) (time.Time, error) {
			return postgres.Now(ctx, s.Addr(i), postgres.SecretIn(s.Dirs[i]))
		},
	}
}

func postgresAnswers(ctx context.Context, s Site, i int) error {
	return postgres.Answers(ctx, s.Addr(i), postgres.SecretIn(s.Dirs[i]))
}

// postgresPair is two servers, of which the second follows the first until it is promoted.
func postgresPair(name, about string, synchronous bool) Kind {
	k := postgresKind(name, about, 2)
	// The standby connects to the port of clients.
	k.Peers = []Peer{{Port: postgresPort}}
	k.Lay = layPostgresPair
	k.Ready = func(ctx context.Context, s Site, i int) error {
		if role, err := linked(ctx, s, i, postgresRole); err != nil || role.Primary {
			return err
		}
		return postgres.Streams(ctx, s.Addr(s.Primary), postgres.AdminSecretIn(s.Dirs[s.Primary]), synchronous)
	}
	k.Leader = primaryBy(postgresRole)
	k.Cannot.LoseData = "a primary without its data has none to copy it from: its standby only follows"
	k.Cannot.Promote, k.Role, k.Promote = "", postgresRole, func(ctx context.Context, s Site, i int) error {
		return postgres.Promote(ctx, s.Addr(i), postgres.AdminSecretIn(s.Dirs[i]))
	}
	k.Mark = func(ctx context.Context, s Site, i int, key string) (bool, error) {
		return postgres.Mark(ctx, s.Addr(i), postgres.AdminSecretIn(s.Dirs[i]), key)
	}
	k.Marked = func(ctx context.Context, s Site, i int, key string) (bool, error) {
		return postgres.Marked(ctx, s.Addr(i), postgres.AdminSecretIn(s.Dirs[i]), key)
	}
	return k
}

func layPostgresPair(ctx context.Context, cacheDir string, s Site, i int) (Command, error) {
	var db postgres.Files
	var err error
	if i == s.Primary {
		db, err = postgres.LayPrimary(ctx, cacheDir, s.Dirs[i])
	} else {
		db, err = postgres.LayStandby(ctx, cacheDir, s.Dirs[s.Primary], s.Dirs[i])
	}
	return func(ctx context.Context, s Site) (*exec.Cmd, error) {
		port := strconv.Itoa(postgresPort)
		if i == s.Primary {
			return db.Command(s.IPs[i], port), nil
		}
		err := db.Follow(ctx, s.Addr(s.Primary), s.Dirs[s.Primary])
		return db.Standby(s.IPs[i], port, s.IPs[s.Primary]), err
	}, err
}

// postgresRole is what a server says that it is.
func postgresRole(ctx context.Context, s Site, i int) (Role, error) {
	primary, receiver, err := postgres.Replication(ctx, s.Addr(i), postgres.AdminSecretIn(s.Dirs[i]))
	switch {
	case err != nil:
		return Role{}, err
	case primary:
		return Role{Primary: true, Text: "not in recovery"}, nil
	}
	return Role{InSync: receiver == "streaming", Text: "in recovery, WAL receiver: " + receiver}, nil
}
