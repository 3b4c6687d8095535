//go:build e2e

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/target/system"
)

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
