//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/checker"
)

// TestKilledTool starts a cluster and so runs apart from the tests that share one.
func TestKilledTool(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("starts a cluster of its own: scripts/test-real runs it before it brings the shared one up")
	}
	killTool(t, 3)
}

// killTool kills the tool itself (SIGKILL) in the middle of a run with servers of its own: every
// process must be gone, and what was recorded must still be readable and judged, as a run
// that shows nothing.
func killTool(t *testing.T, servers int, options ...string) {
	t.Helper()
	runs := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	args := append([]string{"chaos", "steady", "--cluster=local", "--runs=" + runs, "--seed=1"}, options...)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "fencepost"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		t.Log(sc.Text())
		// A line of live progress in the phase before: operations are under way.
		if strings.Contains(sc.Text(), " before ") && strings.Contains(sc.Text(), "cycles") {
			break
		}
	}
	family := descendants(t, cmd.Process.Pid)
	if len(family) < 2+servers+4 { // init, tool, servers, 4 workers
		t.Errorf("only %d processes below the tool: %v", len(family), family)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	deadline := time.Now().Add(20 * time.Second)
	for {
		var left []string
		for pid, name := range family {
			if _, now, ok := stat(pid); ok && now == name {
				left = append(left, fmt.Sprintf("%d %s", pid, name))
			}
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there 20 s after the tool was killed: %v", left)
		}
		time.Sleep(50 * time.Millisecond)
	}
	dirs, err := filepath.Glob(filepath.Join(runs, "*-steady-1"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("run directories %v, %v", dirs, err)
	}
	code, text := fencepost(t, "check", dirs[0])
	if code != checker.Invalid.ExitCode() {
		t.Errorf("check of what is left: exit code %d, want %d (INVALID)\n%s", code, checker.Invalid.ExitCode(), text)
	}
}

// descendants returns all processes below pid with their names.
func descendants(t *testing.T, pid int) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	names := map[int]string{}
	for _, e := range entries {
		if p, err := strconv.Atoi(e.Name()); err == nil {
			if parent, name, ok := stat(p); ok {
				children[parent] = append(children[parent], p)
				names[p] = name
			}
		}
	}
	all := map[int]string{}
	for todo := children[pid]; len(todo) > 0; todo = todo[1:] {
		all[todo[0]] = names[todo[0]]
		todo = append(todo, children[todo[0]]...)
	}
	return all
}

// stat returns a process's parent, and its name with its start time, which
// together tell it from a later one with its pid.
func stat(pid int) (parent int, name string, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", false
	}
	s := string(b)
	end := strings.LastIndexByte(s, ')')
	f := strings.Fields(s[end+1:])
	if end < 0 || len(f) < 20 || f[0] == "Z" {
		return 0, "", false
	}
	parent, err = strconv.Atoi(f[1])
	return parent, s[strings.IndexByte(s, '('):end+1] + " " + f[19], err == nil
}
