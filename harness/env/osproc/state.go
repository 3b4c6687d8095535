package osproc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// statePoll is how often /proc is asked while a signal takes effect.
const statePoll = 2 * time.Millisecond

// letter is the state letter of a process or of one of its threads, ""
// if there is none. path is its directory in /proc.
func letter(path string) string {
	b, err := os.ReadFile(filepath.Join(path, "stat"))
	if err != nil {
		return ""
	}
	// pid (name) S …: the name may hold spaces and brackets.
	i := bytes.LastIndexByte(b, ')')
	if i < 0 || i+2 >= len(b) {
		return ""
	}
	return string(b[i+2])
}

// Letter is the state letter of a process (R, S, T …), "" if there is none.
func Letter(pid int) string { return letter(procDir(pid)) }

func procDir(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }

// AwaitStopped returns when every thread (want true), or no thread (want false),
// of the process is stopped.
func AwaitStopped(ctx context.Context, pid int, want bool) error {
	tick := time.NewTicker(statePoll)
	defer tick.Stop()
	for {
		stopped, running, err := threadStates(pid)
		if err != nil {
			return err
		}
		if want && running == 0 || !want && stopped == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d: %d threads stopped, %d not: %w", pid, stopped, running, ctx.Err())
		}
	}
}

func threadStates(pid int) (stopped, running int, err error) {
	task := filepath.Join(procDir(pid), "task")
	entries, err := os.ReadDir(task)
	if err != nil {
		return 0, 0, fmt.Errorf("process %d: %w", pid, err)
	}
	for _, e := range entries {
		switch letter(filepath.Join(task, e.Name())) {
		case "T", "t": // t: a debugger holds it
			stopped++
		case "", "Z", "X": // a thread that is just ending
		default:
			running++
		}
	}
	if stopped+running == 0 {
		return 0, 0, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return stopped, running, nil
}

// stands says whether a process does nothing: every thread is stopped, or it has ended.
func stands(pid int) bool {
	_, running, err := threadStates(pid)
	return running == 0 && (err == nil || gone(err))
}

// ended says whether a process is gone, or waits only for its parent to hear so.
func ended(pid int) bool {
	_, _, err := threadStates(pid)
	return gone(err)
}
