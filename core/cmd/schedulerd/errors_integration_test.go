//go:build integration

package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

// onCluster is the environment of a schedulerd on the tests' cluster, in a keyspace that
// is dropped after the test.
func onCluster(t *testing.T, more ...string) (cassandra.Config, []string) {
	t.Helper()
	cfg := cassandratest.Config(t)
	cfg.Keyspace = fmt.Sprintf("it_schedulerd_%x", rand.Uint32())
	t.Cleanup(func() {
		if err := cassandra.DropKeyspace(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	env := []string{"CASSANDRA_CONTACT_POINT=" + os.Getenv(cassandratest.ContactPointsEnv), "CASSANDRA_KEYSPACE=" + cfg.Keyspace,
		"CASSANDRA_REPLICATION_FACTOR=" + strconv.Itoa(min(3, len(cfg.ContactPoints))), "WORKER_API_TOKEN="}
	if p := os.Getenv(cassandratest.PortEnv); p != "" {
		env = append(env, "CASSANDRA_PORT="+p)
	}
	return cfg, append(env, more...)
}

// TestRefusals: what is wrong with a cluster or a keyspace is one error with its remedy,
// soon, and exit code 1; what is wrong with the settings is 64. Logins, permissions and
// certificates are refused in harness/env/cluster/external, where a cluster asks for them.
func TestRefusals(t *testing.T) {
	cfg, env := onCluster(t)
	bin := build(t)
	do := func(code int, args []string, more []string, want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		cmd := exec.CommandContext(ctx, bin, args...)
		cmd.Env = append(append(os.Environ(), env...), more...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%q %q: exit code %d (%v), want %d\n%s", args, more, got, err, code, out)
		}
		_, said, _ := strings.Cut(string(out), "schedulerd: ")
		if code == 0 {
			said = string(out)
		}
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("%q %q: %s\nwant %q", args, more, out, w)
			}
		}
		t.Logf("%4.1f s, %d: %s", time.Since(began).Seconds(), code, strings.TrimSpace(said))
	}
	migrate := []string{"migrate"}
	do(1, migrate, []string{"CASSANDRA_PORT=9999"}, "port 9999: it cannot be reached: see CASSANDRA_CONTACT_POINT")
	do(1, migrate, []string{"CASSANDRA_CONTACT_POINT=nobody.invalid"}, "nobody.invalid")
	do(1, migrate, []string{"CASSANDRA_TLS=true"}, "it speaks no TLS at this port: leave CASSANDRA_TLS away")
	do(1, migrate, []string{"CASSANDRA_REPLICATION_FACTOR=50"}, "use a smaller replication factor")
	do(1, migrate, []string{"CASS_LOCAL_DC=mars"}, "mars")
	do(64, migrate, []string{"CASSANDRA_PORT=0", "WORKER_BUCKETS=0"}, "--cassandra-port", "--buckets")
	do(0, migrate, nil, "created or upgraded")
	do(0, migrate, nil, "up to date")
	do(1, migrate, []string{"CASS_LOCAL_DC=datacenter1"}, "give all of them the same local data centre")
	db := cassandratest.Open(t, cfg)
	for _, cql := range []string{"UPDATE settings SET value = '9' WHERE name = 'schema_version'", "INSERT INTO settings (name, value) VALUES ('schema_oldest', '9')"} {
		if err := db.Exec(t.Context(), cql); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{migrate, nil} {
		do(1, args, nil, "schema version 9", "use a newer program, or another keyspace")
	}
}
