package osproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardEnv has the path of what a guard is to start. The arguments are the guard's own.
const guardEnv = "FENCEPOST_GUARD"

// File descriptors that a guard inherits.
const (
	reportFD   = 3
	lifelineFD = 4
)

// guardReport is a line that a guard writes: that its program runs, or why it could not be
// started, or how it ended.
type guardReport struct {
	PID    int                 `json:"pid,omitempty"`
	Error  string              `json:"error,omitempty"`
	Status *syscall.WaitStatus `json:"status,omitempty"`
}

// Init must be called first in main: in a guard it never returns.
func Init() {
	path, ok := os.LookupEnv(guardEnv)
	if !ok {
		return
	}
	os.Unsetenv(guardEnv)
	os.Exit(guard(path, os.Args))
}

// guard starts a program and ends when nothing of it is left; see the package comment.
func guard(path string, args []string) int {
	unix.CloseOnExec(reportFD)
	unix.CloseOnExec(lifelineFD)
	report := json.NewEncoder(os.NewFile(reportFD, "report"))
	refuse := func(err error) int {
		_ = report.Encode(guardReport{Error: err.Error()}) // nobody hears: then all is over
		return 1
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return refuse(fmt.Errorf("become the parent of orphans: %w", err))
	}
	p, err := os.StartProcess(path, args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return refuse(err)
	}
	go func() {
		// Nothing is ever written: the end of this pipe is the end of the harness.
		_, _ = io.Copy(io.Discard, os.NewFile(lifelineFD, "lifeline"))
		for all := (tree{os.Getpid(), true}); ; time.Sleep(statePoll) {
			_ = all.signal(syscall.SIGKILL) // until none is left
		}
	}()
	_ = report.Encode(guardReport{PID: p.Pid})
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			return 0
		case pid == p.Pid:
			_ = report.Encode(guardReport{Status: &status})
		}
	}
}

// guardOf makes a command a guard's. The files are the harness's ends of its pipes: the
// guard kills all that it guards when lifeline is closed.
func guardOf(cmd *exec.Cmd) (reports, lifeline *os.File, theirs []*os.File, err error) {
	reports, reportW, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	lifeR, lifeline, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, reports.Close(), reportW.Close())
	}
	env := cmd.Env
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = append(env[:len(env):len(env)], guardEnv+"="+cmd.Path)
	cmd.Path = "/proc/self/exe"
	cmd.ExtraFiles = []*os.File{reportW, lifeR}
	return reports, lifeline, cmd.ExtraFiles, nil
}
