package cluster

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// availableMiB is MemAvailable of /proc/meminfo.
func availableMiB() (int, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo: %w", err)
			}
			return kib / 1024, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}
