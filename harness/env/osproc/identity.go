package osproc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Identity is one process among all that ever have its id: the kernel gives ids again.
type Identity struct {
	PID     int
	Started uint64 // clock ticks since boot
}

// Identify tells a process from later ones with its id.
func Identify(pid int) (Identity, error) {
	b, err := os.ReadFile(procDir(pid) + "/stat")
	if err != nil {
		return Identity{}, fmt.Errorf("process %d: %w", pid, err)
	}
	// pid (name) S ppid …: the name may hold spaces and brackets. The 22nd field is the start.
	const started = 22 - 3
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= started {
		return Identity{}, fmt.Errorf("process %d: /proc shows %d fields of its state", pid, len(fields)+2)
	}
	at, err := strconv.ParseUint(string(fields[started]), 10, 64)
	if err != nil {
		return Identity{}, fmt.Errorf("process %d: its start: %w", pid, err)
	}
	return Identity{pid, at}, nil
}

// Exists asks the kernel whether it still has the process, be it as one that has ended and
// was not waited for.
func (i Identity) Exists() bool {
	now, err := Identify(i.PID)
	return err == nil && now == i
}
