//go:build e2e && docker

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/target/drill"
	"fencepost/harness/target/system"
)

// TestDockerShort is one run on containers of its own: a one-way partition.
// scripts/test-docker brings the daemon and the image.
func TestDockerShort(t *testing.T) {
	onContainers(t, "partition-oneway")
	nothingLeft(t)
}

// onContainers makes a run on a cluster of its own that must PASS.
func onContainers(t *testing.T, args ...string) {
	t.Helper()
	code, res, out := chaos(t, append(args, "--cluster=docker", "--seed=7")...)
	if code != 0 || res.Verdict != checker.Pass {
		keep(t, out)
		t.Fatalf("exit code %d, %s: want PASS", code, res.Verdict)
	}
	for _, want := range []string{"all 6 links between them carry bytes", "PROVEN", "CLUSTER=docker"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not say %q", want)
		}
	}
}

// TestDocker makes the same runs as elsewhere on containers: one with a cluster of
// its own, the others on one that is kept up.
func TestDocker(t *testing.T) {
	t.Run("own", func(t *testing.T) { onContainers(t, "partition") })
	nothingLeft(t)
	// Cutting single directed links shows a bug of the database itself.
	t.Run("unsafe-paxos", func(t *testing.T) {
		code, res, out := chaos(t, drill.Lease, "--cluster=docker", "--seed=1", "--paxos="+cluster.PaxosV2UnsafeReadsRejects)
		if code != 1 || res.Verdict != checker.Fail {
			keep(t, out)
			t.Errorf("exit code %d, %s: want FAIL", code, res.Verdict)
		}
	})
	if code, out := fencepost(t, "up", "--cluster=docker", "--background"); code != 0 {
		t.Fatalf("fencepost up: exit code %d\n%s", code, out)
	}
	defer func() { // not Cleanup, before which the test's context ends
		if code, out := fencepost(t, "down"); code != 0 {
			t.Errorf("fencepost down: exit code %d\n%s", code, out)
		}
		nothingLeft(t)
	}()
	for _, name := range []string{"partition-oneway", "pause-node", "kill-node"} {
		t.Run(name, func(t *testing.T) {
			code, res, out := chaos(t, name, "--seed=7")
			if code != 0 || res.Verdict != checker.Pass {
				keep(t, out)
				t.Errorf("exit code %d, %s: want PASS", code, res.Verdict)
			}
		})
	}
	t.Run("known-broken", func(t *testing.T) {
		sys, err := system.Find("broken/sink-no-token-check")
		if err != nil {
			t.Fatal(err)
		}
		code, res, out := chaos(t, sys.Red.Scenario, "--system="+sys.Name, "--contention="+sys.Red.Contention, "--seed=1")
		if code != 1 || res.Verdict != checker.Fail {
			keep(t, out)
			t.Errorf("exit code %d, %s: want FAIL", code, res.Verdict)
		}
	})
}

// nothingLeft asks the daemon for what bears the tool's label.
func nothingLeft(t *testing.T) {
	t.Helper()
	for _, list := range [][]string{{"ps", "-aq"}, {"network", "ls", "-q"}, {"volume", "ls", "-q"}} {
		out, err := exec.Command("docker", append(list, "--filter", "label=fencepost.cluster")...).Output()
		if err != nil {
			t.Errorf("docker %s: %v", strings.Join(list, " "), err)
		}
		if left := strings.Fields(string(out)); len(left) > 0 {
			t.Errorf("docker %s: left behind: %v", list[0], left)
		}
	}
}
