package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeNodeEnv makes this test binary act as a node instead of running tests: it
// listens on the address, and ends on SIGTERM. "exit" as the address makes it
// fail at once, with an error in its output as Cassandra has it.
const fakeNodeEnv = "FENCEPOST_CLUSTER_TEST_NODE"

func fakeNode(addr string) int {
	if addr == "exit" {
		fmt.Println("INFO  first line")
		fmt.Println("ERROR [main] CassandraDaemon.java:900 - Cannot start node: disk on fire")
		fmt.Println("INFO  last line")
		return 3
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	<-term
	return 0
}

// plainHost starts processes right here.
type plainHost struct{ env string }

func (h plainHost) Start(cmd *exec.Cmd) error {
	cmd.Env = append(cmd.Env, fakeNodeEnv+"="+h.env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}
func (plainHost) Redirect(_, _ netip.AddrPort) error { return nil }
func (plainHost) Close() error                       { return nil }

// newFakeNode returns a node whose process is this test binary.
func newFakeNode(t *testing.T) *localNode {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	local := &Local{config: LocalConfig{Logger: slog.New(slog.DiscardHandler), LogDir: t.TempDir()}}
	n := local.newNode(&localNode{host: plainHost{l.Addr().String()}, java: "/proc/self/exe", dir: t.TempDir()},
		MachineSpec{Name: "n1", IP: "127.0.0.1", Port: port})
	t.Cleanup(func() {
		if err := n.Kill(context.Background()); err != nil && !errors.Is(err, ErrState) {
			t.Error(err)
		}
	})
	return n
}

func (n *localNode) mustBe(t *testing.T, want State, process bool) {
	t.Helper()
	if got := n.State(); got != want {
		t.Errorf("state %s, want %s", got, want)
	}
	if got := n.PID() != 0; got != process {
		t.Errorf("PID %d, want one: %t", n.PID(), process)
	}
	if letter := n.ProcessState(); (letter == "T") != (want == Paused) || (letter == "") == process {
		t.Errorf("%s: the process is in state %q", want, letter)
	}
}

func TestNodeLife(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := newFakeNode(t)
	n.mustBe(t, Stopped, false)

	steps := []struct {
		name    string
		do      func(context.Context) error
		want    State
		process bool
		refused bool
	}{
		{"kill without a process", n.Kill, Stopped, false, true},
		{"pause without a process", n.Pause, Stopped, false, true},
		{"resume without a process", n.Resume, Stopped, false, true},
		{"stop without a process", n.Stop, Stopped, false, true},
		{"start", n.Start, Running, true, false},
		{"start again", n.Start, Running, true, true},
		{"resume what runs", n.Resume, Running, true, true},
		{"pause", n.Pause, Paused, true, false},
		{"pause again", n.Pause, Paused, true, true},
		{"stop what is paused", n.Stop, Paused, true, true},
		{"start what is paused", n.Start, Paused, true, true},
		{"resume", n.Resume, Running, true, false},
		{"stop", n.Stop, Stopped, false, false},
		{"start after stop", n.Start, Running, true, false},
		{"kill", n.Kill, Killed, false, false},
		{"kill again", n.Kill, Killed, false, true},
		{"start after kill", n.Start, Running, true, false},
		{"pause before kill", n.Pause, Paused, true, false},
		{"kill what is paused", n.Kill, Killed, false, false},
	}
	for _, s := range steps {
		pid := n.PID()
		err := s.do(ctx)
		if got := errors.Is(err, ErrState); got != s.refused || err != nil && !s.refused {
			t.Fatalf("%s: %v", s.name, err)
		}
		n.mustBe(t, s.want, s.process)
		if t.Failed() {
			t.Fatalf("after %s", s.name)
		}
		if pid != 0 && !s.process && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			t.Fatalf("%s: process %d is still there", s.name, pid)
		}
	}
	b, err := os.ReadFile(n.LogFile())
	must(t, err)
	if got := strings.Count(string(b), "starting n1"); got != 3 {
		t.Errorf("the log tells of %d lives, want 3", got)
	}
}

func TestNodeCrash(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := newFakeNode(t)
	must(t, n.Start(ctx))
	p := n.now()
	// Not by way of the node: nobody asked for it.
	must(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	<-p.Done()
	n.mustBe(t, Crashed, false)
	if err := n.Start(ctx); err != nil {
		t.Fatalf("start after a crash: %v", err)
	}
	n.mustBe(t, Running, true)
}

func TestNodeFailsToStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := newFakeNode(t)
	n.host = plainHost{"exit"}
	err := n.Start(ctx)
	var ee *ExitError
	if !errors.As(err, &ee) {
		t.Fatalf("%v, want an *ExitError", err)
	}
	if ee.Node != "n1" || ee.Status != "exit status 3" || ee.LogFile != n.LogFile() {
		t.Errorf("%+v", ee)
	}
	if !slices.Equal(ee.Tail, []string{"ERROR [main] CassandraDaemon.java:900 - Cannot start node: disk on fire"}) {
		t.Errorf("the error does not show the log's error: %q", ee.Tail)
	}
	n.mustBe(t, Crashed, false)
}

func TestNodeStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	n.is.Port++ // where nobody answers
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, cause)
	defer cancel()
	if err := n.Start(ctx); !errors.Is(err, cause) {
		t.Fatalf("%v, want the context's cause", err)
	}
	n.mustBe(t, Starting, true)
	if err := n.WaitReady(ctx); !errors.Is(err, cause) {
		t.Errorf("WaitReady: %v, want the context's cause", err)
	}
}

func TestNodeEnvironmentHasNoJavaOptions(t *testing.T) {
	t.Setenv("JAVA_TOOL_OPTIONS", "-Dbad=1")
	t.Setenv("FENCEPOST_HARMLESS", "1")
	env := NodeEnv()
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "JAVA_TOOL_OPTIONS=") }) {
		t.Error("JAVA_TOOL_OPTIONS reaches the node")
	}
	if !slices.Contains(env, "FENCEPOST_HARMLESS=1") {
		t.Error("other variables do not reach the node")
	}
}
