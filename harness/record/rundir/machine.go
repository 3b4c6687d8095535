package rundir

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes this machine for run.json. What cannot be read is left out.
func Machine() map[string]string {
	m := map[string]string{"cores": fmt.Sprint(runtime.NumCPU()), "os": runtime.GOOS + "/" + runtime.GOARCH}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		m["memory"] = fmt.Sprintf("%.1f GiB", float64(si.Totalram)*float64(si.Unit)/(1<<30))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m["load"] = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	return m
}
