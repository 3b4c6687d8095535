package osproc

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// signalTree sends SIGSTOP or SIGCONT to a process and to all that descend from it,
// which may be in groups of their own, and returns when all stand still (want true), or
// none does. A process stands still before its children are looked for, so that no more
// come.
func signalTree(ctx context.Context, pid int, sig syscall.Signal, want bool) error {
	err := syscall.Kill(pid, sig)
	if err == nil {
		err = AwaitStopped(ctx, pid, want)
	}
	if err != nil {
		return err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	for _, c := range children {
		err := signalTree(ctx, c, sig, want)
		if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrProcessDone) {
			continue // it has just ended
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// childrenOf finds a process's children.
func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parentOf(child) == pid {
			out = append(out, child)
		}
	}
	return out, nil
}

// parentOf is a process's parent, 0 if there is none.
func parentOf(pid int) int {
	b, err := os.ReadFile(procDir(pid) + "/stat")
	if err != nil {
		return 0
	}
	// pid (name) S ppid …: the name may hold spaces and brackets.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}
