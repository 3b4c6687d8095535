//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
)

// external runs the tool beside the cluster that is kept up, as a client that knows
// nothing but its addresses, and returns exit code, output and the directory of runs.
func external(t *testing.T, args ...string) (code int, out, runs string) {
	t.Helper()
	runs = t.TempDir()
	tool, err := filepath.Abs(filepath.Join(root, "bin", "fencepost"))
	if err != nil {
		t.Fatal(err)
	}
	line := `exec "$@" --cluster=external --contact-points="$FENCEPOST_CONTACT_POINTS"`
	code, out = fencepost(t, append([]string{"exec", "--", "sh", "-c", line, "sh", tool, "chaos", "--runs=" + runs}, args...)...)
	return code, out, runs
}

// TestExternal: the kept cluster, met as somebody else's, gives the same verdicts; it
// is left as it was, and no secret is in the run's files.
func TestExternal(t *testing.T) {
	const secret = "s3cret-enough-to-find"
	t.Setenv("FENCEPOST_PASSWORD", secret) // the cluster asks nobody for it
	t.Run("sound", func(t *testing.T) {
		code, out, runs := external(t, "partition-client", "--seed=1", "--duration=4s", "--username=somebody")
		if code != 0 || !strings.Contains(out, "PASS") {
			t.Fatalf("exit code %d, want 0 and PASS\n%s", code, out)
		}
		t.Log(out)
		latest := filepath.Join(runs, "latest")
		info, err := rundir.ReadInfo(latest)
		if err != nil {
			t.Fatal(err)
		}
		if info.Cluster != "external" || info.Versions["replication"] != "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}" || len(info.Notes) == 0 {
			t.Errorf("run.json: cluster %q, replication %q, notes %q", info.Cluster, info.Versions["replication"], info.Notes)
		}
		report, err := os.ReadFile(filepath.Join(latest, rundir.ReportFile))
		if err != nil || !bytes.Contains(report, []byte("are not under control")) {
			t.Errorf("the report does not say what weakens the verdict: %v", err)
		}
		noSecret(t, runs, secret)
		if strings.Contains(out, secret) {
			t.Error("the output shows the password")
		}
	})
	t.Run("known broken", func(t *testing.T) {
		code, out, runs := external(t, "pause-worker", "--system=broken/sink-no-token-check", "--contention=high", "--seed=1")
		var res checker.Result
		b, err := os.ReadFile(filepath.Join(runs, "latest", rundir.VerdictFile))
		if err != nil || json.Unmarshal(b, &res) != nil {
			t.Fatalf("no verdict: %v\n%s", err, out)
		}
		if code != 1 || res.Verdict != checker.Fail {
			t.Errorf("exit code %d, verdict %s, want 1 and FAIL\n%s", code, res.Verdict, out)
		}
		if strings.Contains(out, "keyspaces of other runs") {
			t.Errorf("a run before has left its keyspace:\n%s", out)
		}
	})
	t.Run("refused", func(t *testing.T) {
		code, out, runs := external(t, "partition,kill-worker")
		if code != 64 || !strings.Contains(out, "partition: its fault partition is one of nodes") || !strings.Contains(out, "partition-client") {
			t.Errorf("exit code %d, want 64 and the scenarios that run:\n%s", code, out)
		}
		if made, err := os.ReadDir(runs); err != nil || len(made) > 0 {
			t.Errorf("something was started: %v %v", made, err)
		}
	})
}

// noSecret looks through every file below dir.
func noSecret(t *testing.T, dir, secret string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s shows the password", path)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestTwoDatacenters keeps a cluster of two data centres up: the core stays in its own
// whatever happens there, and a driver that leaves it is found, by the harness's own links.
func TestTwoDatacenters(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("keeps a cluster of its own up: scripts/test-real runs it before it brings the shared one up")
	}
	const name = "two-datacenters"
	if code, out := fencepost(t, "up", "--background", "--datacenters=3,1"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	defer func() { // before the test's context ends
		if code, out := fencepost(t, "down"); code != 0 {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	}()
	code, res, out := chaos(t, name, "--seed=1")
	if code != 0 || res.Verdict != checker.Pass {
		t.Errorf("exit code %d, verdict %s, want 0 and PASS\n%s", code, res.Verdict, out)
		keep(t, out)
	}
	red, err := system.Find("broken/remote-coordinator")
	if err != nil {
		t.Fatal(err)
	}
	code, res, out = chaos(t, name, "--seed=1", "--system="+red.Name, "--contention="+red.Red.Contention)
	at := slices.IndexFunc(res.Properties, func(p checker.Property) bool { return p.ID == "P13" })
	if code != checker.Fail.ExitCode() || res.Verdict != checker.Fail || res.Properties[at].Status != checker.StatusFail {
		t.Errorf("exit code %d, verdict %s, want FAIL by P13\n%s", code, res.Verdict, out)
		keep(t, out)
	}
	if got := explained(t, out); !slices.Contains(got, red.Red.Mechanism) {
		t.Errorf("explained by %v, want %s among them", got, red.Red.Mechanism)
	}
	// What needs another cluster is refused, with a remedy.
	code, out = fencepost(t, "chaos", "steady", "--cluster=up", "--runs="+t.TempDir())
	if code != 64 || !strings.Contains(out, "fencepost down and then fencepost up") {
		t.Errorf("exit code %d, want 64 and a remedy\n%s", code, out)
	}
}
