//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
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
