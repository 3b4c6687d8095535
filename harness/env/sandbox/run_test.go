package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		act  string
		want int
	}{
		{"exit:0", 0},
		{"exit:1", 1},
		{"exit:64", 64},
		{"die", 128 + int(syscall.SIGKILL)},
	} {
		t.Run(tc.act, func(t *testing.T) {
			t.Parallel()
			tl := start(t, tc.act)
			out := tl.rest(t)
			if got := tl.exit(t); got != tc.want {
				t.Errorf("exit code %d, want %d; output %q", got, tc.want, out)
			}
		})
	}
}

func TestSignalArrivesOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// to is the target of kill(2) for a tool whose outer process is pid.
		to func(pid int) int
		s  syscall.Signal
	}{
		{"SIGINT to the process group, as Ctrl-C", func(pid int) int { return -pid }, syscall.SIGINT},
		{"SIGINT to the process", func(pid int) int { return pid }, syscall.SIGINT},
		{"SIGTERM to the process group", func(pid int) int { return -pid }, syscall.SIGTERM},
		{"SIGTERM to the process", func(pid int) int { return pid }, syscall.SIGTERM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tl := start(t, "signals")
			if got := tl.line(t); got != "ready" {
				t.Fatalf("the tool said %q", got)
			}
			pid := tl.cmd.Process.Pid
			must(t, syscall.Kill(tc.to(pid), tc.s))
			if got := tl.line(t); got != tc.s.String() {
				t.Fatalf("the tool got %q, want %q", got, tc.s)
			}
			// It ends the tool: a second copy of the first would be printed before.
			must(t, syscall.Kill(pid, syscall.SIGUSR2))
			if rest := tl.rest(t); rest != "" {
				t.Errorf("the tool got more: %q", rest)
			}
			if code := tl.exit(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestThirdInterruptKills(t *testing.T) {
	t.Parallel()
	tl := start(t, "deaf")
	tl.line(t)
	// Signals that are sent faster than they are taken count as one, so send
	// until it has worked.
	gone := make(chan int, 1)
	go func() { gone <- tl.exit(t) }()
	code := 0
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for running := true; running; {
		_ = tl.cmd.Process.Signal(syscall.SIGINT)
		select {
		case code = <-gone:
			running = false
		case <-again.C:
		}
	}
	tl.rest(t)
	if want := 128 + int(syscall.SIGKILL); code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
}

// TestKillLeavesNothing kills the outer process and looks for what is left: a
// process, or a network namespace (whose only users are processes).
func TestKillLeavesNothing(t *testing.T) {
	t.Parallel()
	tl := start(t, "family")
	ns := tl.line(t)
	tl.line(t) // now all have started
	if !strings.HasPrefix(ns, "net:[") {
		t.Fatalf("the tool said %q", ns)
	}
	if users := usersOf(t, ns); users < 4 { // init, tool, two sleeps
		t.Fatalf("%d processes use %s: this test does not see into the sandbox", users, ns)
	}
	must(t, tl.cmd.Process.Kill())
	tl.rest(t) // until the last process is gone
	if users := usersOf(t, ns); users != 0 {
		t.Errorf("%d processes still use %s", users, ns)
	}
}

// usersOf counts the processes in a network namespace.
func usersOf(t *testing.T, ns string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	must(t, err)
	n := 0
	for _, l := range links {
		if got, err := os.Readlink(l); err == nil && got == ns {
			n++
		}
	}
	return n
}

func TestOutside(t *testing.T) {
	t.Parallel()
	if Inside() {
		t.Skip("these tests run inside a sandbox")
	}
	if _, err := NewNetwork(); !errors.Is(err, ErrOutside) {
		t.Errorf("NewNetwork outside: %v, want ErrOutside", err)
	}
}

func TestInsideIsNotFooledByEnvironment(t *testing.T) {
	t.Setenv(insideEnv, "net:[1]")
	if Inside() {
		t.Error("a stale environment variable passes for a sandbox")
	}
}

func TestUnavailableErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cause := syscall.EPERM
	err := error(unavailable("mount a fresh /proc", cause))
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, cause) {
		t.Errorf("%v is not both ErrUnavailable and its cause", err)
	}
	for _, want := range []string{"mount a fresh /proc", "operation not permitted", "CLUSTER=docker", "CLUSTER=external"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not mention %q", err, want)
		}
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tl := start(t, "memory:"+dir)
	if out := tl.rest(t); out != "" {
		t.Error(out)
	}
	if code := tl.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the mount left %v on the host (%v)", names, err)
	}
}

func TestMemoryOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := MountMemory(dir, 1<<20); !errors.Is(err, ErrOutside) {
		t.Errorf("mount: %v", err)
	}
	if err := Unmount(dir); !errors.Is(err, ErrOutside) {
		t.Errorf("unmount: %v", err)
	}
}

// tryMemory runs inside: what is written is in memory, bounded, and gone with the mount.
func tryMemory(dir string) error {
	if err := Unmount(dir); err != nil {
		return fmt.Errorf("unmount of nothing: %w", err)
	}
	if err := Unmount(filepath.Join(dir, "nowhere")); err != nil {
		return fmt.Errorf("unmount of a directory that does not exist: %w", err)
	}
	if err := MountMemory(filepath.Join(dir, "nowhere"), 1<<20); !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("mount on nothing: %w", err)
	}
	if err := MountMemory(dir, 1<<20); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("type %#x, want a tmpfs (%w)", fs.Type, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, make([]byte, 1<<19), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(file, make([]byte, 1<<21), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("twice its size: %w, want no space", err)
	}
	if err := Unmount(dir); err != nil {
		return err
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the file is there without the mount: %w", err)
	}
	return nil
}
