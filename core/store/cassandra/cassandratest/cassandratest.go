// Package cassandratest connects tests to a real cluster. The tests that use it
// have the build tag integration; the cluster is named by the environment:
//
//	FENCEPOST_CONTACT_POINTS  IP addresses of nodes, separated by commas
//	FENCEPOST_CQL_PORT        default 9042
package cassandratest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/store/cassandra"
)

// The environment variables.
const (
	ContactPointsEnv = "FENCEPOST_CONTACT_POINTS"
	PortEnv          = "FENCEPOST_CQL_PORT"
)

// FromEnv returns the cluster's configuration without a keyspace.
func FromEnv() (cassandra.Config, error) {
	points := os.Getenv(ContactPointsEnv)
	if points == "" {
		return cassandra.Config{}, fmt.Errorf("%s is not set: integration tests need a cluster (fencepost up, then fencepost exec -- go test -tags integration …)", ContactPointsEnv)
	}
	cfg := cassandra.Config{ContactPoints: strings.Split(points, ",")}
	if p := os.Getenv(PortEnv); p != "" {
		port, err := strconv.Atoi(p)
		if err != nil {
			return cfg, fmt.Errorf("%s: %w", PortEnv, err)
		}
		cfg.Port = port
	}
	return cfg, nil
}

// Config returns the cluster's configuration, or fails the test.
func Config(t testing.TB) cassandra.Config {
	t.Helper()
	cfg, err := FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

var shared struct {
	once sync.Once
	cfg  cassandra.Config
	err  error
}

// Keyspace returns a keyspace with all tables, on at most three replicas, that
// all tests of the package share: schema changes are slow. Tests keep apart by
// the names of their resources. TestMain calls Main.
func Keyspace(t testing.TB) cassandra.Config {
	t.Helper()
	shared.once.Do(func() {
		cfg := Config(t)
		cfg.Keyspace, cfg.AnyRelease = fmt.Sprintf("it_%x", rand.Uint64()), true
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		shared.cfg = cfg
		shared.err = cassandra.Migrate(ctx, cfg, cassandra.Replication{Factor: min(3, len(cfg.ContactPoints))})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cfg
}

// Main runs a package's tests, drops what they created and then looks for goroutines left.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := DropKeyspace(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// DropKeyspace drops the shared keyspace, if there is one.
func DropKeyspace() error {
	if shared.cfg.Keyspace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return cassandra.DropKeyspace(ctx, shared.cfg)
}

// Open connects to a keyspace and closes the connection after the test.
func Open(t testing.TB, cfg cassandra.Config) *cassandra.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := cassandra.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}
