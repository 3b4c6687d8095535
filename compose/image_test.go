//go:build docker

package compose

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestImage: the scheduler's image is built of nothing but the program, and runs.
func TestImage(t *testing.T) {
	docker := func(args ...string) (string, error) {
		cmd := exec.Command("docker", args...)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0") // what every daemon has
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const image = "fencepost-schedulerd:test"
	if out, err := docker("build", "-q", "-f", "compose/Dockerfile.schedulerd", "-t", image, "."); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := docker("rmi", "-f", image); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if out, err := docker("run", "--rm", "--network=none", image, "settings"); err != nil || !strings.Contains(out, "| `CASSANDRA_CONTACT_POINT` |") {
		t.Errorf("settings: %v: %s", err, out)
	}
	// What the health check runs: nobody is there to answer it.
	if out, err := docker("run", "--rm", "--network=none", image, "probe"); err == nil || !strings.Contains(out, "it does not answer") {
		t.Errorf("probe: %v: %s", err, out)
	}
	out, err := docker("image", "inspect", "--format", "{{.Config.User}} {{.Size}}", image)
	if err != nil || !strings.HasPrefix(out, "65532:65532 ") {
		t.Errorf("%v: %s", err, out)
	}
	t.Log("user and bytes: ", out)
}
