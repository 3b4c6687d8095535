//go:build integration

package cassandra_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"fencepost/core/store"
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
	if want := strings.Count(cassandra.Schema(), "CREATE TABLE"); err != nil || len(rows) != want {
		t.Errorf("%d tables, %v, want %d", len(rows), err, want)
	}

	local := cfg
	local.Serial, local.Consistency, local.LocalDC = cassandra.LocalSerial, cassandra.LocalQuorum, "datacenter1"
	var disagree *cassandra.AgreementError
	if _, err := cassandra.Prepare(ctx, local, factor); !errors.As(err, &disagree) {
		t.Errorf("another agreement: %v", err)
	}
	// A process that only locks is refused at its first request.
	v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "h", TTL: time.Second}
	disagree = nil
	if _, err := cassandra.NewLocks(cassandratest.Open(t, local)).CAS(ctx, "l", nil, v, 0); !errors.As(err, &disagree) || disagree.Found != cassandra.Serial || !store.IsPermanent(err) {
		t.Errorf("a lock by another agreement: %v", err)
	}
	if res, err := cassandra.NewLocks(db).CAS(ctx, "l", nil, v, 0); err != nil || !res.Applied {
		t.Errorf("a lock: %+v, %v", res, err)
	}
	for _, cql := range []string{"UPDATE settings SET value = '7' WHERE name = 'schema_version'", "INSERT INTO settings (name, value) VALUES ('schema_oldest', '7')"} {
		if err := db.Exec(ctx, cql); err != nil {
			t.Fatal(err)
		}
	}
	var newer *cassandra.VersionError
	if _, err := cassandra.Prepare(ctx, cfg, factor); !errors.As(err, &newer) || newer.Found != "7" {
		t.Errorf("a newer version: %v", err)
	}
}

// TestPrepareExisting: a keyspace that somebody else has made is used if its replication
// carries what the processes agree by.
func TestPrepareExisting(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Config(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cfg.Keyspace = fmt.Sprintf("it_existing_%x", rand.Uint32())
	t.Cleanup(func() {
		if err := cassandra.DropKeyspace(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	bare := cfg
	bare.Keyspace = ""
	db := cassandratest.Open(t, bare)
	if err := db.Exec(ctx, "CREATE KEYSPACE "+cfg.Keyspace+" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"); err != nil {
		t.Fatal(err)
	}
	local := cfg
	local.Serial, local.Consistency, local.LocalDC = cassandra.LocalSerial, cassandra.LocalQuorum, "datacenter1"
	if _, err := cassandra.Prepare(ctx, local, cassandra.Replication{}); !errors.As(err, new(*cassandra.ReplicationError)) {
		t.Errorf("LOCAL_SERIAL with SimpleStrategy: %v", err)
	}
	var unsettled *cassandra.AgreementError
	if err := cassandra.Migrate(ctx, cfg, cassandra.Replication{Class: "SimpleStrategy", Factor: 1}); err != nil {
		t.Fatal(err)
	}
	if err := cassandra.Migrate(ctx, cfg, cassandra.Replication{Class: "SimpleStrategy", Factor: 1}); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := db.Exec(ctx, "DROP TABLE "+cfg.Keyspace+".settings"); err != nil { // as an older program makes it
		t.Fatal(err)
	}
	v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "h", TTL: time.Second}
	if _, err := cassandra.NewLocks(cassandratest.Open(t, local)).CAS(ctx, "l", nil, v, 0); !errors.As(err, &unsettled) || unsettled.Found != "" {
		t.Errorf("LOCAL_SERIAL where nothing is settled: %v", err)
	}
	if res, err := cassandra.NewLocks(cassandratest.Open(t, cfg)).CAS(ctx, "l", nil, v, 0); err != nil || !res.Applied {
		t.Errorf("SERIAL where nothing is settled: %+v, %v", res, err)
	}
	wrong := cfg
	wrong.LocalDC, wrong.Keyspace = "nowhere", ""
	var nobody *cassandra.ReplicasError
	if db, err := cassandra.Open(ctx, wrong); !errors.As(err, &nobody) || nobody.Nodes != 0 {
		if err == nil {
			db.Close()
		}
		t.Errorf("a data centre that is none: %v", err)
	}
}

// TestUpgrade leads a keyspace with rows in it from the version before to the next, by
// two processes at once; programs of both versions use it side by side, until an upgrade
// comes that the older one cannot live with.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Config(t)
	factor := cassandra.Replication{Factor: min(3, len(cfg.ContactPoints))}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	keyspace := func() cassandra.Config {
		cfg := cfg
		cfg.Keyspace = fmt.Sprintf("it_upgrade_%x", rand.Uint32())
		t.Cleanup(func() {
			if err := cassandra.DropKeyspace(context.Background(), cfg); err != nil {
				t.Error(err)
			}
		})
		return cfg
	}
	old, base := keyspace(), cassandra.SchemaVersion
	adds, breaks := cassandra.Upgrade("queues", "colour", "text", false), cassandra.Upgrade("queues", "shape", "frozen<list<int>>", true)
	before, err := cassandra.Prepare(ctx, old, factor)
	if err != nil {
		t.Fatal(err)
	}
	db := cassandratest.Open(t, old)
	if n, err := cassandra.NewShards(db).EnsureQueue(ctx, "q", 3); err != nil || n.Shards != 3 {
		t.Fatal(n, err)
	}
	both := func(want int, more ...cassandra.AnUpgrade) {
		t.Helper()
		var got [2]cassandra.Settings
		var errs [2]error
		var wg sync.WaitGroup
		for n := range got {
			wg.Go(func() { got[n], errs[n] = cassandra.PrepareKnowing(ctx, old, factor, more...) })
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil || got[0].Version != want || got[1].Version != want || !got[0].Created && !got[1].Created || got[0].PeerSecret != before.PeerSecret {
			t.Fatalf("%+v, %v, want version %d", got, err, want)
		}
		if again, err := cassandra.PrepareKnowing(ctx, old, factor, more...); err != nil || again.Created || again.Version != want {
			t.Errorf("again: %+v, %v", again, err)
		}
	}
	both(base+1, adds)
	if err := db.Exec(ctx, "UPDATE queues SET colour = 'red' WHERE queue = 'q'"); err != nil {
		t.Error(err)
	}
	// The older program goes on, and starts, too.
	if got, err := cassandra.Prepare(ctx, old, factor); err != nil || got.Created || got.Version != base+1 {
		t.Errorf("the older program: %+v, %v", got, err)
	}
	if n, err := cassandra.NewShards(cassandratest.Open(t, old)).EnsureQueue(ctx, "q", 3); err != nil || n.Shards != 3 {
		t.Errorf("the older program: %+v, %v", n, err)
	}
	both(base+2, adds, breaks)
	var newer *cassandra.VersionError
	for n, more := range [][]cassandra.AnUpgrade{nil, {adds}} {
		_, err := cassandra.PrepareKnowing(ctx, old, factor, more...)
		if !errors.As(err, &newer) || newer.Known != base+n || newer.Oldest != strconv.Itoa(base+2) {
			t.Errorf("a program of version %d: %v", base+n, err)
		}
	}
	// One that was interrupted between the tables and the version is done by the next.
	if err := db.Exec(ctx, "ALTER TABLE queues DROP shape"); err != nil {
		t.Fatal(err)
	}
	if applied, _, err := db.CAS(ctx, 0, store.Statement{CQL: fmt.Sprintf("UPDATE settings SET value = '%d' WHERE name = 'schema_version' IF EXISTS", base+1), Partition: []any{"schema_version"}}); err != nil || !applied {
		t.Fatal(applied, err)
	}
	both(base+2, adds, breaks)
	// A keyspace that is made again by two programs of different versions has it all.
	fresh := keyspace()
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { _, errs[0] = cassandra.Prepare(ctx, fresh, factor) })
	wg.Go(func() { _, errs[1] = cassandra.PrepareKnowing(ctx, fresh, factor, adds) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if got, err := cassandra.Prepare(ctx, fresh, factor); err != nil || got.Version != base+1 {
		t.Errorf("%+v, %v", got, err)
	}
	if rows, err := db.Query(ctx, false, "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = 'queues'", fresh.Keyspace); err != nil || len(rows) != 4 {
		t.Errorf("%v, %v", rows, err)
	}
}

// TestUpgradeOfCompaction: shards of a keyspace from before version 3 are compacted by size from then on. What an
// operator has set later stays.
func TestUpgradeOfCompaction(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	db := cassandratest.Open(t, cfg)
	factor := cassandra.Replication{Factor: min(3, len(cfg.ContactPoints))}
	if _, err := cassandra.Prepare(t.Context(), cfg, factor); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version   int
		was, want string
	}{
		{2, "LeveledCompactionStrategy", "SizeTieredCompactionStrategy"},
		{3, "LeveledCompactionStrategy", "LeveledCompactionStrategy"},
		{2, "SizeTieredCompactionStrategy", "SizeTieredCompactionStrategy"},
	} {
		if err := db.Exec(t.Context(), "ALTER TABLE shards WITH compaction = {'class': '"+c.was+"'}"); err != nil {
			t.Fatal(err)
		}
		if applied, _, err := db.CAS(t.Context(), 0, store.Statement{CQL: fmt.Sprintf("UPDATE settings SET value = '%d' WHERE name = 'schema_version' IF EXISTS", c.version), Partition: []any{"schema_version"}}); err != nil || !applied {
			t.Fatal(applied, err)
		}
		if got, err := cassandra.Prepare(t.Context(), cfg, factor); err != nil || got.Version != cassandra.SchemaVersion {
			t.Fatalf("%+v, %v", got, err)
		}
		rows, err := db.Query(t.Context(), false, "SELECT compaction FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'shards'", cfg.Keyspace)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		if m, _ := rows[0]["compaction"].(map[string]string); !strings.HasSuffix(m["class"], c.want) {
			t.Errorf("version %d with %s: %v", c.version, c.was, m)
		}
	}
}

// TestHintsAreSeen: what DropKeyspace waits for can be read, and comes to an end.
func TestHintsAreSeen(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	db := cassandratest.Open(t, cfg)
	const views = "SELECT table_name FROM system_virtual_schema.tables WHERE keyspace_name = 'system_views' AND table_name = 'pending_hints'"
	switch rows, err := db.Query(t.Context(), false, views); {
	case err != nil:
		t.Fatal(err)
	case len(rows) == 0:
		t.Skip("this release shows its hints to no client (4.1 and later do): DropKeyspace does not wait for them")
	}
	if _, err := db.Query(t.Context(), false, cassandra.SelectHints); err != nil {
		t.Error(err)
	}
	pools, err := db.Query(t.Context(), false, cassandra.SelectHintsSent)
	if err != nil || len(pools) != 1 {
		t.Fatalf("%v, %v: want one pool", pools, err)
	}
	for _, of := range []string{"active_tasks", "pending_tasks"} {
		if _, ok := pools[0][of].(int); !ok {
			t.Errorf("%s is %T, not an int", of, pools[0][of])
		}
	}
	for end := time.Now().Add(30 * time.Second); db.KeepsHints(t.Context(), cfg.ContactPoints[0]); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a node of a cluster that lacks nothing keeps hints")
		}
	}
}
