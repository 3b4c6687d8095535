package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

func bootNow() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Not possible on any kernel that Go supports (CLOCK_BOOTTIME is of
		// 2.6.39). A clock that could jump from one origin to another would be
		// worse than none.
		panic("clock: CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
