package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// actEnv makes this test binary act as a tool instead of running tests: first as
// the outer process, then, re-executed by Run, as the tool inside.
const actEnv = "FENCEPOST_SANDBOX_TEST_ACT"

func TestMain(m *testing.M) {
	Init()
	if act := os.Getenv(actEnv); act != "" {
		os.Exit(actAs(act))
	}
	goleak.VerifyTestMain(m)
}

// actAs is the tool under test.
func actAs(act string) int {
	if !Inside() {
		// As a real main does: a signal that comes when Run has just returned must
		// not replace the exit code.
		_, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		code, err := Run(context.Background(), os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 99
		}
		return code
	}
	name, arg, _ := strings.Cut(act, ":")
	switch name {
	case "exit":
		code, err := strconv.Atoi(arg)
		if err != nil {
			return 98
		}
		return code
	case "die": // by a signal of its own
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "signals": // says which signals come, and ends on SIGUSR2
		return saySignals()
	case "deaf": // ends on nothing but SIGKILL
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "family": // a child and an orphaned grandchild that hold standard output open
		return family()
	case "network":
		return say(tryNetwork())
	case "process":
		return say(tryProcess())
	case "memory":
		return say(tryMemory(arg))
	}
	return 97
}

func say(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func saySignals() int {
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR2)
	fmt.Println("ready")
	for s := range c {
		if s == syscall.SIGUSR2 {
			return 0
		}
		fmt.Println(s)
	}
	return 1
}

func family() int {
	child := exec.Command("sh", "-c", "sleep 1000 & echo; exec sleep 1000")
	child.Stdout = os.Stdout
	ns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return say(err)
	}
	fmt.Println(ns)
	if err := child.Start(); err != nil {
		return say(err)
	}
	return say(child.Wait())
}

// requireSandbox skips where the machine has no namespaces for us, visibly.
func requireSandbox(t *testing.T) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("this machine cannot run the sandbox: %v", err)
	}
}

// tool is a running outer process.
type tool struct {
	cmd  *exec.Cmd
	out  *bufio.Reader // everything the sandbox prints
	pipe *os.File
}

// start runs this binary as the tool. Its standard output is a pipe that every
// process inside inherits: its end means that all of them are gone.
func start(t *testing.T, act string) *tool {
	t.Helper()
	requireSandbox(t)
	r, w, err := os.Pipe()
	must(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), actEnv+"="+act)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	// A process group of its own, so that tests can signal it as a terminal would.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	w.Close()
	must(t, err)
	tl := &tool{cmd: cmd, out: bufio.NewReader(r), pipe: r}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Close()
	})
	return tl
}

// line reads a line that the tool prints.
func (tl *tool) line(t *testing.T) string {
	t.Helper()
	must(t, tl.pipe.SetReadDeadline(time.Now().Add(30*time.Second)))
	s, err := tl.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the tool printed %q, then: %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

// rest reads until no process of the sandbox is left.
func (tl *tool) rest(t *testing.T) string {
	t.Helper()
	must(t, tl.pipe.SetReadDeadline(time.Now().Add(30*time.Second)))
	b, err := io.ReadAll(tl.out)
	if err != nil {
		t.Fatalf("a process of the sandbox still holds its standard output: %v", err)
	}
	return string(b)
}

// exit waits for the outer process and returns its exit code.
func (tl *tool) exit(t *testing.T) int {
	t.Helper()
	_ = tl.cmd.Wait()
	return tl.cmd.ProcessState.ExitCode()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
