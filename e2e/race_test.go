//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
)

// TestRaceDetector is one run with workers built with the race detector. They
// are too slow to be judged by the number of their cycles.
func TestRaceDetector(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("NO RACE DETECTOR: it needs a C compiler (apt-get install gcc libc6-dev): %v", err)
	}
	bin, runs := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", bin, "./cmd/worker")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, out := fencepost(t, "chaos", "steady", "--cluster=up", "--runs="+runs, "--bin="+bin, "--duration=3s", "--seed=1")
	if code != checker.Pass.ExitCode() && code != checker.Invalid.ExitCode() {
		t.Errorf("exit code %d\n%s", code, out)
	}
	logs, err := filepath.Glob(filepath.Join(runs, "latest", rundir.LogDir, "w*.log"))
	if err != nil || len(logs) != 4 {
		t.Fatalf("logs %v, %v\n%s", logs, err, out)
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("DATA RACE")) {
			t.Errorf("%s:\n%s", filepath.Base(name), b)
		}
	}
}
