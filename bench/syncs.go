package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// syncs counts the calls by which processes wait for storage, in the kernel: a tracepoint
// for each thread, and for those that it starts.
type syncs struct{ counters []int }

// syncCalls are the system calls that are counted.
var syncCalls = []string{"fsync", "fdatasync", "msync"}

// tracefs is where the kernel tells the numbers of its tracepoints.
const tracefs = "/sys/kernel/tracing/events/syscalls"

// countSyncs begins to count. It needs root, or CAP_PERFMON, and a mounted tracefs.
func countSyncs(pids []int) (*syncs, error) {
	var s syncs
	for _, call := range syncCalls {
		text, err := os.ReadFile(filepath.Join(tracefs, "sys_enter_"+call, "id"))
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("tracepoint of %s: %w", call, err)
		}
		for _, pid := range pids {
			if err := s.count(id, pid); err != nil {
				s.close()
				return nil, err
			}
		}
	}
	return &s, nil
}

// count counts a tracepoint in all threads of a process.
func (s *syncs) count(tracepoint uint64, pid int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		attr := unix.PerfEventAttr{
			Type: unix.PERF_TYPE_TRACEPOINT, Size: uint32(unix.PERF_ATTR_SIZE_VER0), Config: tracepoint, Bits: unix.PerfBitInherit,
		}
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		switch {
		case errors.Is(err, unix.ESRCH): // a thread that has ended meanwhile
		case err != nil:
			return fmt.Errorf("perf_event_open: %w", err)
		default:
			s.counters = append(s.counters, fd)
		}
	}
	return nil
}

// total is how many calls there were so far; ok is false if they are not counted.
func (s *syncs) total() (n float64, ok bool) {
	if s == nil {
		return 0, false
	}
	for _, fd := range s.counters {
		var b [8]byte
		if got, err := unix.Read(fd, b[:]); err != nil || got != len(b) {
			return 0, false
		}
		n += float64(binary.NativeEndian.Uint64(b[:]))
	}
	return n, true
}

func (s *syncs) close() {
	if s == nil {
		return
	}
	for _, fd := range s.counters {
		_ = unix.Close(fd)
	}
}
