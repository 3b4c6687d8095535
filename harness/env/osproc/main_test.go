package osproc

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// actEnv makes this test binary a process that is tested, or one that tests processes.
const actEnv = "FENCEPOST_OSPROC_TEST"

// TestMain doubles as a guard and as the processes that are tested.
func TestMain(m *testing.M) {
	Init()
	if how := os.Getenv(actEnv); how != "" {
		os.Exit(act(how))
	}
	goleak.VerifyTestMain(m)
}

// act is a process that prints "ready" when it is, and its descendants "child PID".
func act(how string) int {
	term := make(chan os.Signal, 1)
	how, rest, _ := strings.Cut(how, " ")
	switch how {
	case "exits":
		fmt.Println("a line before\npanic: the table is gone\n\ngoroutine 1 [running]:\nmain.main()")
		return 3
	case "orderly":
		signal.Notify(term, syscall.SIGTERM)
	case "wordless": // ends in order, with another code than that of its kind
		signal.Notify(term, syscall.SIGTERM)
		defer os.Exit(4)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "parent": // of one that is elsewhere
		signal.Notify(term, syscall.SIGTERM)
		child(rest, "session")
	case "session":
		fmt.Printf("child %d\n", os.Getpid())
		<-term
	case "orphan": // the child of a parent that is gone
		child("session", "")
		return 0
	case "harness": // ends by SIGKILL while its guarded program runs
		return harness()
	}
	fmt.Println("ready")
	<-term
	return 0
}

// child starts this binary again, in a session of its own.
func child(how, rest string) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), actEnv+"="+strings.TrimSpace(how+" "+rest))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if how == "orphan" {
		_ = cmd.Wait()
	}
}

// harness starts a guarded program with a descendant elsewhere, stops all of it, and is
// killed.
func harness() int {
	p, err := Start(Spec{Kind: "program", Name: "p", Command: command("parent orphan"), Log: os.Getenv("FENCEPOST_OSPROC_LOG"), Guarded: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("program %d\n", p.PID())
	select {}
}

func command(how string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), actEnv+"="+how)
	return cmd
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
