//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/record/rundir"
)

// TestReplay makes a red run and carries out its plan again: the same plan to the
// byte, red by the same property, in a directory that names the first run.
func TestReplay(t *testing.T) {
	runs := t.TempDir()
	code, out := fencepost(t, "chaos", "pause-worker", "--system=broken/sink-no-token-check", "--contention=high", "--seed=5", "--cluster=up", "--runs="+runs)
	if code != 1 {
		t.Fatalf("exit code %d, want 1\n%s", code, out)
	}
	first, err := filepath.EvalSymlinks(filepath.Join(runs, "latest"))
	if err != nil {
		t.Fatal(err)
	}
	code, out = fencepost(t, "replay", first, "--cluster=up", "--runs="+runs)
	if code != 1 || !strings.Contains(out, "1 of 1 red again as it was (FAIL by P3") {
		t.Errorf("exit code %d, want 1 and red again\n%s", code, out)
	}
	second, err := filepath.EvalSymlinks(filepath.Join(runs, "latest"))
	if err != nil {
		t.Fatal(err)
	}
	if second == first {
		t.Fatalf("the replay has no directory of its own\n%s", out)
	}
	info, err := rundir.ReadInfo(second)
	if err != nil {
		t.Fatal(err)
	}
	if info.ReplayOf != filepath.Base(first) || info.System != "broken/sink-no-token-check" || info.Contention != "high" || info.Seed != 5 {
		t.Errorf("run.json of the replay: %+v", info)
	}
	var plans [2][]byte
	for i, dir := range []string{first, second} {
		if plans[i], err = os.ReadFile(filepath.Join(dir, rundir.PlanFile)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(plans[0], plans[1]) {
		t.Errorf("the plans differ:\n%s\n%s", plans[0], plans[1])
	}
}
