package osproc

import (
	"bufio"
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A child in a session of its own is stopped with its parent, which a signal to the
// group would not do.
func TestSignalTree(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.Command("sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(child, syscall.SIGKILL)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if parentOf(child) != cmd.Process.Pid {
		t.Fatalf("the parent of %d is %d, not %d", child, parentOf(child), cmd.Process.Pid)
	}
	if err := signalTree(ctx, cmd.Process.Pid, syscall.SIGSTOP, true); err != nil {
		t.Fatal(err)
	}
	if a, b := Letter(cmd.Process.Pid), Letter(child); a != "T" || b != "T" {
		t.Errorf("states %s and %s", a, b)
	}
	if err := signalTree(ctx, cmd.Process.Pid, syscall.SIGCONT, false); err != nil {
		t.Fatal(err)
	}
	if a, b := Letter(cmd.Process.Pid), Letter(child); a == "T" || b == "T" {
		t.Errorf("states %s and %s", a, b)
	}
	if err := signalTree(ctx, 1<<30, syscall.SIGSTOP, true); err == nil {
		t.Error("a process that does not exist was stopped")
	}
}
