package checker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/checker/linear"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// Finding is a violation in the history of a run that still goes on.
type Finding struct {
	Property  string    `json:"property"` // "P3"
	Title     string    `json:"title"`
	Violation Violation `json:"violation"`
}

// WatchArgs make the tool's executable a watching child; it then calls WatchMain.
var WatchArgs = []string{"check", "--watch"}

// Watch looks at the history of a run again and again while the run goes on, and
// calls found with what [SoFar] finds: the first violation of a property for each lock
// or resource, and shown of them for a property. It ends with ctx, without an error,
// and returns the processor time that it took.
//
// The looks are made in a process of their own, on one thread at a time, at the lowest
// priority of ordinary processes (SCHED_BATCH, nice 19), and take a tenth of a
// processor at most: they are not to disturb what is measured. On a busy machine
// things are therefore seen late; the verdict sees them in any case.
func Watch(ctx context.Context, exe, dir string, found func(Finding)) (time.Duration, error) {
	return Options{Memory: watchMemory}.watch(ctx, exe, dir, found)
}

func (o Options) watch(ctx context.Context, exe, dir string, found func(Finding)) (time.Duration, error) {
	o.Dir = dir
	cmd, stderr, err := childRequest{o, []string{dir}}.command(ctx, exe, WatchArgs)
	if err != nil {
		return 0, err
	}
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	// See spawn: the thread that forks must outlive the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	dec := json.NewDecoder(out)
	for {
		var f Finding
		if err := dec.Decode(&f); err != nil {
			break // it ended, and Wait says how
		}
		found(f)
	}
	err = cmd.Wait()
	took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if ctx.Err() != nil {
		return took, nil
	}
	first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	return took, fmt.Errorf("the process that looks at the history so far ended (%v): %s", err, first)
}

// Bounds of watching.
const (
	watchPause = 2 * time.Second // between two looks, at least
	watchShare = 10              // and so many times the processor time of the last
	// watchMaxEvents and watchMemory bound the memory: about 2 kB an event.
	watchMaxEvents = 300_000
	watchMemory    = 1 << 30
)

// WatchMain is a watching child: it takes its orders from the environment, prints
// findings, one JSON object a line, and ends when it is killed, with exit code 2 when
// it cannot go on.
func WatchMain(stdout io.Writer) int {
	fmt.Fprintln(os.Stderr, watch(stdout))
	return 2
}

// watch returns why it cannot go on.
func watch(stdout io.Writer) error {
	do, err := readRequest("watching")
	if err != nil {
		return err
	}
	if err := lowerPriority(); err != nil {
		return fmt.Errorf("cannot let others go first: %w", err)
	}
	w := newWatcher(do.Inputs[0], do.Options)
	enc := json.NewEncoder(stdout)
	for {
		before := linear.CPUTime()
		fs, err := w.poll()
		if err != nil {
			return err
		}
		for _, f := range fs {
			if err := enc.Encode(f); err != nil {
				return err
			}
		}
		// Not by the time that passed: on a busy machine a look is waiting for the most.
		time.Sleep(max(watchPause, watchShare*(linear.CPUTime()-before)))
	}
}

// watcher remembers what it has told.
type watcher struct {
	tail   *history.Tail
	opts   Options
	events int
	told   map[[2]string]bool // property and key
	shown  map[string]int     // by property
}

func newWatcher(dir string, o Options) *watcher {
	return &watcher{tail: history.NewTail(filepath.Join(dir, rundir.HistoryDir)), opts: o, told: map[[2]string]bool{}, shown: map[string]int{}}
}

// poll returns what is new.
func (w *watcher) poll() ([]Finding, error) {
	h, err := w.tail.SoFar()
	if err != nil {
		return nil, err
	}
	if len(h.Events) > watchMaxEvents {
		return nil, fmt.Errorf("the history has more than %d events: looking at it again and again takes too much", watchMaxEvents)
	}
	if len(h.Events) == w.events {
		return nil, nil
	}
	w.events = len(h.Events)
	var out []Finding
	for _, p := range SoFar(context.Background(), h, w.opts) {
		for _, v := range p.Violations {
			at := [2]string{p.ID, v.Key}
			if w.told[at] || w.shown[p.ID] == property.Printed {
				continue
			}
			w.told[at] = true
			w.shown[p.ID]++
			out = append(out, Finding{p.ID, p.Title, v})
		}
	}
	return out, nil
}

// lowerPriority gives every thread of this process, and so those to come, the lowest priority
// of ordinary ones. That of SCHED_IDLE is lower, but on a busy machine nothing would
// be seen before the end.
func lowerPriority() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		err = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH, Nice: 19}, 0)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended meanwhile
			return err
		}
	}
	return nil
}
