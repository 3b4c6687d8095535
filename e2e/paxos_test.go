//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/paxos"
)

// TestPaxosSound: a sound variant passes, with attempts that were armed.
func TestPaxosSound(t *testing.T) {
	code, res, out := chaos(t, paxos.IncompleteRead, "--paxos="+cluster.PaxosV2, "--seed=1")
	if code != 0 || res.Verdict != checker.Pass || !strings.Contains(out, "attempts armed") {
		t.Errorf("exit code %d, verdict %s, want 0 and PASS with armed attempts\n%s", code, res.Verdict, out)
		keep(t, out)
	}
}

// TestPaxosNeverArmed: a run whose links do nothing has tested nothing.
func TestPaxosNeverArmed(t *testing.T) {
	code, res, out := chaos(t, paxos.IncompleteRead, "--system=broken/harness-links-inert", "--seed=1")
	if code != checker.Invalid.ExitCode() || res.Verdict != checker.Invalid || !strings.Contains(out, "0 of 5 attempts armed") {
		t.Errorf("exit code %d, verdict %s, want %d and INVALID with no armed attempt\n%s", code, res.Verdict, checker.Invalid.ExitCode(), out)
		keep(t, out)
	}
}

// TestPaxosUnsafe starts a cluster with a variant that is known to be unsafe: the
// checker must find the database's own bug, by P2, in the encoding that can see it.
func TestPaxosUnsafe(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("starts a cluster of its own: scripts/test-real runs it before it brings the shared one up")
	}
	runs := t.TempDir()
	code, out := fencepost(t, "chaos", paxos.IncompleteRead+","+paxos.Lease, "--cluster=local", "--runs="+runs, "--seed=1",
		"--paxos="+cluster.PaxosV2UnsafeReadsRejects)
	t.Log(out)
	if code != checker.Fail.ExitCode() {
		t.Errorf("exit code %d, want %d (FAIL)", code, checker.Fail.ExitCode())
	}
	for name, open := range map[string]string{paxos.IncompleteRead: "Ok", paxos.Lease: "Illegal"} {
		dirs, err := filepath.Glob(filepath.Join(runs, "*-"+name+"-1"))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("run directories %v, %v", dirs, err)
		}
		b, err := os.ReadFile(filepath.Join(dirs[0], rundir.VerdictFile))
		if err != nil {
			t.Fatal(err)
		}
		var res checker.Result
		if err := json.Unmarshal(b, &res); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(res.Properties, func(p checker.Property) bool { return p.ID == "P2" })
		p2 := res.Properties[i]
		if res.Verdict != checker.Fail || p2.Status != checker.StatusFail || p2.Encodings["open"] != open || p2.Encodings["bounded"] != "Illegal" {
			t.Errorf("%s: verdict %s, P2 %s, encodings %v; want FAIL by P2 with open %s and bounded Illegal", name, res.Verdict, p2.Status, p2.Encodings, open)
		}
	}
}
