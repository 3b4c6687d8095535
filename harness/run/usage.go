package run

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// What processes take is read so often: usageSamples times in a run's phases with load, but not
// more often than usageLeast.
const (
	usageSamples = 600
	usageLeast   = 500 * time.Millisecond
)

// stored is a node whose files are on this machine.
type stored interface {
	// DataDir has its data and commit log, over all its lives.
	DataDir() string
}

// watchUsage notes what workers and nodes take of the machine, until the function that it returns
// is called; in a run that does not judge it never.
func (r *runner) watchUsage() (stop func()) {
	s := r.plan.Spec
	if !s.JudgesGrowth() {
		return func() {}
	}
	every := max((s.Phases.Before.D()+s.Phases.Fault.D()+s.Phases.Recover.D())/usageSamples, usageLeast)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for pause(ctx, every) == nil {
			r.noteUsage()
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// noteUsage notes that of each process that runs and can be seen. What cannot be is judged by its
// absence.
func (r *runner) noteUsage() {
	for _, w := range r.env.Fleet.Workers() {
		if u, ok := usageOf(w.PID()); ok {
			u.Goroutines = w.Stats().Goroutines
			r.note(history.Event{Op: history.NoteUsage, Key: w.Life(), Details: &history.Details{Usage: &u}})
		}
	}
	for _, n := range r.opt.Cluster.Nodes() {
		u, ok := usageOf(n.PID())
		if !ok {
			continue
		}
		if files, ok := n.(stored); ok {
			if bytes, err := rundir.Size(files.DataDir()); err == nil {
				u.StorageKB = bytes >> 10
			}
		}
		r.note(history.Event{Op: history.NoteUsage, Key: n.Name(), Details: &history.Details{Usage: &u}})
	}
}

// usageOf is the kernel's account of a process; false if there is none, or none that may be read.
func usageOf(pid int) (history.Usage, bool) {
	if pid == 0 {
		return history.Usage{}, false
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		return history.Usage{}, false
	}
	stat, err := p.Stat()
	if err != nil {
		return history.Usage{}, false
	}
	open, err := p.FileDescriptorsLen()
	if err != nil {
		return history.Usage{}, false
	}
	return history.Usage{MemoryKB: int64(stat.ResidentMemory()) >> 10, Descriptors: int64(open), Threads: int64(stat.NumThreads)}, true
}
