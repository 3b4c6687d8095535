//go:build integration

package cassandra_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

// TestPrepare: two processes that start at once prepare a keyspace together; a later
// one only reads; one that must not go on is told why.
func TestPrepare(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Config(t)
	factor := cassandra.Replication{Factor: min(3, len(cfg.ContactPoints))}
	cfg.Keyspace = fmt.Sprintf("it_prepare_%x", rand.Uint32())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Cleanup(func() {
		if err := cassandra.DropKeyspace(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	var replicas *cassandra.ReplicasError
	if _, err := cassandra.Prepare(ctx, cfg, cassandra.Replication{Factor: 50}); !errors.As(err, &replicas) || replicas.Want != 50 {
		t.Errorf("50 replicas: %v", err)
	}
	if _, err := cassandra.Prepare(ctx, cfg, cassandra.Replication{DCs: map[string]int{"nowhere": 1}}); !errors.As(err, &replicas) || replicas.DC != "nowhere" {
		t.Errorf("a data centre that is none: %v", err)
	}
	var got [2]cassandra.Settings
	var errs [2]error
	var wg sync.WaitGroup
	for n := range got {
		wg.Go(func() { got[n], errs[n] = cassandra.Prepare(ctx, cfg, factor) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil || got[0].PeerSecret != got[1].PeerSecret || len(got[0].PeerSecret) < 16 {
		t.Fatalf("%+v, %v", got, err)
	}
	again, err := cassandra.Prepare(ctx, cfg, factor)
	if err != nil || again.Created || again.PeerSecret != got[0].PeerSecret {
		t.Errorf("again: %+v, %v", again, err)
	}
	db := cassandratest.Open(t, cfg)
	rows, err := db.Query(ctx, false, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", cfg.Keyspace)
	if want := strings.Count(cassandra.Schema(), "CREATE TABLE") + 1; err != nil || len(rows) != want {
		t.Errorf("%d tables, %v, want %d", len(rows), err, want)
	}

	local := cfg
	local.Serial, local.Consistency, local.LocalDC = cassandra.LocalSerial, cassandra.LocalQuorum, "datacenter1"
	var disagree *cassandra.AgreementError
	if _, err := cassandra.Prepare(ctx, local, factor); !errors.As(err, &disagree) {
		t.Errorf("another agreement: %v", err)
	}
	if err := db.Exec(ctx, "UPDATE settings SET value = '2' WHERE name = 'schema_version'"); err != nil {
		t.Fatal(err)
	}
	var newer *cassandra.VersionError
	if _, err := cassandra.Prepare(ctx, cfg, factor); !errors.As(err, &newer) || newer.Found != "2" {
		t.Errorf("a newer version: %v", err)
	}
}
