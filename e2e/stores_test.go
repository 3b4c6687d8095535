//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/target/system"
)

// onStores are the runs of locks on other stores: without faults each is sound; paused past its
// lease, a holder whose token nobody checks writes twice, and one with a token does not. A server that
// forgets a lock gives it to two; a token keeps the first of them from writing.
var onStores = []struct {
	scenario, system string
	// fails are the properties of which at least one must be red, and no other; "" for PASS.
	fails string
}{
	{"steady", "etcd-lease", ""},
	{"pause-worker", "etcd-lease", "P4"},
	{"pause-worker", "etcd-lease-fenced", ""},
	{"partition", "etcd-lease-fenced", ""},
	{"steady", "postgres-lease", ""},
	{"pause-worker", "postgres-lease", "P4"},
	{"steady", "zookeeper-node", ""},
	{"pause-worker", "zookeeper-node", "P4"},
	{"kill-node", "zookeeper-node-fenced", ""},
	{"partition-client", "zookeeper-node-fenced", ""},
	{"steady", "nats-kv", ""},
	{"pause-worker", "nats-kv", "P4"},
	{"kill-node", "nats-kv-fenced", ""},
	{"steady", "redis-set", ""},
	{"pause-worker", "redis-set", "P4"},
	{"server-clock-jump", "redis-set", "P4 P8"},
	{"server-clock-jump", "broken/harness-server-clock-inert", "P14"},
	{"server-clock-jump", "postgres-lease", "P4 P8"},
	{"server-clock-jump", "postgres-lease-fenced", "P8"},
	{"node-loses-data", "redis-set", "P4 P8"},
	{"node-loses-data", "zookeeper-node-fenced", ""},
	{"steady", "redis-replica-set", ""},
	{"primary-fails-over", "redis-replica-set", "P4 P8"},
	{"steady", "postgres-standby-lease", ""},
	{"primary-fails-over", "postgres-standby-lease", "P4 P8"},
	{"steady", "postgres-sync-lease", ""},
	{"primary-fails-over", "postgres-sync-lease", ""},
}

// inTurn are the stores of one day after the other: the servers of some take a minute to build.
var inTurn = []string{"etcd", "redis", "nats", "postgres", "zookeeper"}

// TestStores runs locks on stores other than Cassandra. It starts their servers itself.
func TestStores(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("starts servers of its own: scripts/test-real runs it before it brings the shared cluster up")
	}
	day, all := turn(t)
	fetched := map[string]bool{}
	killed := func(t *testing.T, sys system.System) {
		k, err := servers.Of(sys.Store)
		if err != nil {
			t.Fatal(err)
		}
		killTool(t, k.Servers, "--system="+sys.Name)
	}
	for _, r := range onStores {
		sys, err := system.Find(r.system)
		if err != nil {
			t.Fatal(err)
		}
		if kind, _, _ := strings.Cut(sys.Store, "-"); !all && kind != inTurn[day%len(inTurn)] {
			continue
		}
		if !fetched[sys.Store] {
			fetched[sys.Store] = true
			fetchStore(t, sys.Store)
			t.Run("killed-tool-"+r.system, func(t *testing.T) { killed(t, sys) })
		}
		if strings.HasPrefix(r.scenario, "server-clock") {
			do(t, "scripts/fetch-store "+servers.Faketime)
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
