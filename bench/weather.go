package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// weather is how much processor time has been used by whom, so that a reader
// sees whether somebody else disturbed a measurement.
type weather struct {
	at    time.Time
	own   time.Duration // this process
	nodes time.Duration // the database's processes
	all   time.Duration // everybody, in user and kernel mode
	stole time.Duration // what the machine below kept for others
	known bool          // nodes, all and stole could be read
}

// load is the use of processors between two readings, in cores.
type load struct {
	Own, Nodes, Other, Stolen float64
	Known                     bool // Nodes, Other and Stolen are known
}

// tick is the unit of processor times in /proc: USER_HZ is 100 on every Linux
// that Go runs on.
const tick = 10 * time.Millisecond

// readWeather reads the processor times; pids are the database's processes.
func readWeather(pids []int) weather {
	w := weather{at: time.Now()}
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		w.own = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return w
	}
	if w.all, w.stole, err = parseStat(stat); err != nil {
		return w
	}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return w
		}
		d, err := parsePIDStat(b)
		if err != nil {
			return w
		}
		w.nodes += d
	}
	w.known = true
	return w
}

// since returns the use between two readings.
func (w weather) since(before weather) load {
	seconds := w.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return load{}
	}
	cores := func(a, b time.Duration) float64 { return (a - b).Seconds() / seconds }
	l := load{Own: cores(w.own, before.own), Known: w.known && before.known}
	if l.Known {
		l.Nodes = cores(w.nodes, before.nodes)
		l.Stolen = cores(w.stole, before.stole)
		// Ticks are coarse: a little below nothing is nothing.
		l.Other = max(cores(w.all, before.all)-l.Own-l.Nodes, 0)
	}
	return l
}

// parseStat reads the first line of /proc/stat: cpu user nice system idle iowait
// irq softirq steal. Interrupts belong to nobody and are left out.
func parseStat(b []byte) (all, stole time.Duration, err error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := strings.Fields(string(line))
	if len(f) < 9 || f[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	at := func(i int) time.Duration {
		n, e := strconv.ParseInt(f[i], 10, 64)
		if e != nil {
			err = fmt.Errorf("/proc/stat: %w", e)
		}
		return time.Duration(n) * tick
	}
	return at(1) + at(2) + at(3), at(8), err
}

// parsePIDStat reads utime and stime, fields 14 and 15 of /proc/PID/stat. The
// second field is a name in parentheses that may itself hold blanks.
func parsePIDStat(b []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[end+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if end < 0 || len(f) <= stime {
		return 0, fmt.Errorf("malformed /proc/PID/stat: %q", b)
	}
	u, err := strconv.ParseInt(f[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	s, err := strconv.ParseInt(f[stime], 10, 64)
	return time.Duration(u+s) * tick, err
}
