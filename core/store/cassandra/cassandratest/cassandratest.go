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
	"testing"
	"time"

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

// NewKeyspace creates a keyspace with all tables, on at most three replicas, and
// drops it after the test.
func NewKeyspace(t testing.TB) cassandra.Config {
	t.Helper()
	cfg := Config(t)
	cfg.Keyspace = fmt.Sprintf("it_%x", rand.Uint64())
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := cassandra.Migrate(ctx, cfg, cassandra.Replication{Factor: min(3, len(cfg.ContactPoints))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cassandra.DropKeyspace(ctx, cfg); err != nil {
			t.Errorf("drop keyspace: %v", err)
		}
	})
	return cfg
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
