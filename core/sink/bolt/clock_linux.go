package boltsink

import "golang.org/x/sys/unix"

// monotonic is the host's CLOCK_MONOTONIC in ns, the same for all its processes.
func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // not possible on any kernel that Go supports
	}
	return ts.Nano()
}
