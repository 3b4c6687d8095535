//go:build e2e

package e2e

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/target/system"
	"fencepost/internal/turn"
)

// onStore is a run on another store. fails are the properties of which at least one must be red, and no other; ""
// for PASS.
type onStore struct{ scenario, system, fails string }

// onStores are the runs of locks on other stores: without faults each is sound; paused past its
// lease, a holder whose token nobody checks writes twice, and one with a token does not. A server that
// forgets a lock gives it to two; a token keeps the first of them from writing. Bugs of libraries give it to two as well.
var onStores = []onStore{
	{"steady", "etcd-lease", ""},
	{"pause-worker", "etcd-lease", "P4"},
	{"pause-worker", "etcd-lease-fenced", ""},
	{"partition", "etcd-lease-fenced", ""},
	{"steady", "etcd-mutex", ""},
	{"pause-worker", "etcd-mutex", "P4"},
	{"pause-worker", "etcd-mutex-fenced", ""},
	{"late-unlock", "etcd-mutex-one-session", "P4 P8"},
	{"steady", "redis-set", ""},
	{"pause-worker", "redis-set", "P4"},
	{"steady", "controller", ""},
	{"pause-worker", "controller", "P4"},
	{"pause-worker", "controller-fenced", ""},
	{"node-loses-data", "controller", ""},
	{"lost-take", "controller", "P15"},
	{"lost-take", "controller-reclaims", ""},
	{"steady", "bullmq", ""},
	{"pause-worker", "bullmq", "P4"},
	{"pause-worker", "bullmq-fenced", ""},
	{"steady", "celery", ""},
	{"pause-worker", "celery", "P4"},
	{"slow-job", "celery", "P4"},
	{"steady", "redislock", ""},
	{"pause-worker", "redislock", "P4"},
	{"steady", "redlock", ""},
	{"pause-worker", "redlock", "P4"},
	{"late-renewal", "redlock-nx-extend", "P4"},
	{"steady", "asynq", ""},
	{"steady", "asynq-fenced", ""},
	{"latency", "gocron", "P4"},
	{"steady", "gocron-by-time", ""},
	{"latency", "gocron-by-time", ""},
	{"server-clock-jump", "redis-set", "P4 P8"},
	{"server-clock-jump", "broken/harness-server-clock-inert", "P14"},
	{"node-loses-data", "redis-set", "P4 P8"},
	{"steady", "redis-replica-set", ""},
	{"primary-fails-over", "redis-replica-set", "P4 P8"},
	{"steady", "nats-kv", ""},
	{"pause-worker", "nats-kv", "P4"},
	{"kill-node", "nats-kv-fenced", ""},
	{"steady", "watcher", ""},
	{"pause-worker", "watcher", "P4"},
	{"pause-worker", "watcher-fenced", ""},
	{"steady", "postgres-lease", ""},
	{"pause-worker", "postgres-lease", "P4"},
	{"steady", "layers", ""},
	{"pause-worker", "layers-no-constraint", "P4"},
	{"kill-worker", "layers-no-ack", "P15"},
	{"steady", "pg-advisory", ""},
	{"pause-worker", "pg-advisory", "P14"}, // its session keeps the lock: nobody else comes to write
	{"flaky-links", "pg-advisory", "P4"},
	{"steady", "river", ""},
	{"steady", "db-scheduler", ""},
	{"pause-worker", "db-scheduler", "P4"},
	{"pause-worker", "db-scheduler-fenced", ""},
	{"kill-worker", "db-scheduler", ""},
	{"server-clock-jump", "postgres-lease", "P4 P8"},
	{"server-clock-jump", "postgres-lease-fenced", "P8"},
	{"steady", "postgres-standby-lease", ""},
	{"primary-fails-over", "postgres-standby-lease", "P4 P8"},
	{"steady", "postgres-sync-lease", ""},
	{"primary-fails-over", "postgres-sync-lease", ""},
	{"steady", "zookeeper-node", ""},
	{"pause-worker", "zookeeper-node", "P4"},
	{"kill-node", "zookeeper-node-fenced", ""},
	{"partition-client", "zookeeper-node-fenced", ""},
	{"steady", "zk-curator", ""},
	{"pause-worker", "zk-curator", "P4"},
	{"pause-worker", "zk-curator-fenced", ""},
	{"node-loses-data", "zookeeper-node-fenced", ""},
	{"steady", "temporal", ""},
	{"pause-worker", "temporal", "P4"},
	{"pause-worker", "temporal-fenced", ""},
	{"kill-worker", "temporal", ""},
}

// TestStores runs locks on stores other than Cassandra. It starts their servers itself.
func TestStores(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("starts servers of its own: scripts/test-real runs it before it brings the shared cluster up")
	}
	day, all := today(t)
	fetched := map[string]bool{}
	killed := func(t *testing.T, sys system.System) {
		k, err := servers.Of(sys.Store)
		if err != nil {
			t.Fatal(err)
		}
		killTool(t, k.Servers, "--system="+sys.Name)
	}
	for _, r := range storeRuns(t, day, all) {
		sys, err := system.Find(r.system)
		if err != nil {
			t.Fatal(err)
		}
		if !fetched[sys.Store] {
			fetched[sys.Store] = true
			fetchStore(t, sys.Store)
			t.Run("killed-tool-"+r.system, func(t *testing.T) { killed(t, sys) })
		}
		if sys.Binary == system.Queues { // of some the library is another language's
			name, _, _ := strings.Cut(sys.Name, "-")
			do(t, "bin/schedulers look "+sys.Name+" || scripts/fetch-library "+name)
		}
		if strings.HasPrefix(r.scenario, "server-clock") {
			do(t, "scripts/fetch-store "+servers.Faketime)
		}
		if sys.Child != "" || sys.OptIn {
			do(t, "make systems SYSTEM="+r.system)
		}
		t.Run(r.scenario+"-"+r.system, func(t *testing.T) {
			code, res, out := chaos(t, r.scenario, "--system="+r.system, "--cluster=local", "--contention=medium", "--seed=1")
			want := checker.Pass
			switch r.fails {
			case "":
			case "P14":
				want = checker.Invalid
			default:
				want = checker.Fail
			}
			if res.Verdict != want || code != want.ExitCode() {
				t.Errorf("exit code %d, verdict %s, want %s\n%s", code, res.Verdict, want, out)
				keep(t, out)
			}
			red := 0
			for _, p := range res.Properties {
				// What a run with a violation has not exercised is no matter.
				if p.Status != checker.StatusFail && (p.Status != checker.StatusInvalid || want == checker.Fail) {
					continue
				}
				red++
				if !slices.Contains(strings.Fields(r.fails), p.ID) {
					t.Errorf("%s is %s, and only %q may be red", p.ID, p.Status, r.fails)
				}
			}
			if red == 0 && r.fails != "" {
				t.Errorf("nothing is red, want one of %q", r.fails)
			}
		})
	}
}

// always is how many of the runs of the day's store each such day has, its first ones: its reference lock, good and
// known-broken. Of the others a share has its turn. make nightly has them all.
const (
	always = 2
	share  = 4
)

// storeRuns are the runs that have their turn on a day.
func storeRuns(t *testing.T, day int, all bool) (out []onStore) {
	t.Helper()
	var rest []onStore
	seen := map[string]int{}
	for _, r := range onStores {
		sys, err := system.Find(r.system)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(sys.Store, "-")
		switch {
		case sys.OptIn:
			if optedIn(t, all, sys.Store) {
				out = append(out, r)
			}
		case all, turn.HasStore(day, sys.Store) && seen[kind] < always:
			out = append(out, r)
			seen[kind]++
		case turn.HasStore(day, sys.Store):
			rest = append(rest, r)
		}
	}
	return append(out, turn.Share(day, share, rest)...)
}

// TestStoreTurns: in two months each run on a store that every machine can have has its turn, and no day has many.
func TestStoreTurns(t *testing.T) {
	t.Parallel()
	missing := map[onStore]bool{}
	for _, r := range onStores {
		sys, err := system.Find(r.system)
		if err != nil {
			t.Fatal(err)
		}
		if !sys.OptIn {
			missing[r] = true
		}
	}
	if all := storeRuns(t, 0, true); len(all) < len(missing) {
		t.Errorf("TURN=all has %d runs, want %d", len(all), len(missing))
	}
	for day := range 60 {
		runs := storeRuns(t, day, false)
		if len(runs) <= always || len(runs) > always+share {
			t.Errorf("day %d has %d runs", day, len(runs))
		}
		if runs[0].scenario != "steady" || runs[1].fails != "P4" || runs[0].system != runs[1].system {
			t.Errorf("day %d begins with %v, not with a lock, good and known-broken", day, runs[:always])
		}
		for _, r := range runs {
			delete(missing, r)
		}
	}
	if len(missing) > 0 {
		t.Errorf("never tested: %v", missing)
	}
}

// optedIn: what takes minutes to build is tested if -run names its store, and with all others where its servers are.
func optedIn(t *testing.T, all bool, store string) bool {
	t.Helper()
	if strings.Contains(flag.Lookup("test.run").Value.String(), store) {
		return true
	}
	if !all {
		return false
	}
	code, out := fencepost(t, "doctor", store)
	if code != 0 {
		t.Logf("NOT TESTED: %s:\n%s", store, out)
	}
	return code == 0
}

// fetchStore does what doctor says.
func fetchStore(t *testing.T, store string) {
	t.Helper()
	code, out := fencepost(t, "doctor", store)
	if code == 0 {
		return
	}
	_, remedy, ok := strings.Cut(out, "-> run ")
	if !ok {
		t.Fatalf("doctor %s names no remedy:\n%s", store, out)
	}
	remedy, _, _ = strings.Cut(remedy, "\n")
	do(t, remedy)
	if code, out := fencepost(t, "doctor", store); code != 0 {
		t.Fatalf("after %s doctor %s still says:\n%s", remedy, store, out)
	}
}

// do carries out a command in the repository.
func do(t *testing.T, command string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, text)
	}
}
