//go:build integration

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"fencepost/systems/drive"
)

// dbScheduler is a table on a server, and what starts a process there, at a server's address or that of a gate.
func dbScheduler(t *testing.T) (server string, open func(life, addr string, slots int, run drive.Run) (*child, *os.Process)) {
	at := startPostgres(t)
	must(t, setUpDBScheduler(t.Context(), at))
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "../../../scripts/build-java", "db-scheduler", dir)
	build.Stderr = os.Stderr
	must(t, build.Run())
	return at.Nodes[0], func(life, addr string, slots int, run drive.Run) (*child, *os.Process) {
		for name, value := range map[string]string{"LIFE": life, "NODES": addr, "KEYSPACE": at.Name, "TTL_MS": strconv.FormatInt(at.TTL.Milliseconds(), 10), "SECRET": "/none"} {
			t.Setenv("FENCEPOST_"+name, value)
		}
		cmd := exec.Command(filepath.Join(dir, "db-scheduler", "run"))
		c, err := openChild(t.Context(), life, cmd, slots, run)
		must(t, err)
		return c, cmd.Process
	}
}

// TestDBScheduler: the job of a process that stands still is run by another, with a higher token. The first is told
// when it goes on, and does not complete the job. Put again, it is not run again, though it is done.
func TestDBScheduler(t *testing.T) {
	server, open := dbScheduler(t)
	runs, told := make(chan drive.Job, 10), make(chan error, 1)
	first, program := open("first", server, 1, func(ctx context.Context, j drive.Job) error {
		runs <- j
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		told <- ctx.Err()
		return nil
	})
	must(t, first.Put(t.Context(), drive.Job{Lock: "lock", N: 7}))
	a := next(t, runs)
	must(t, program.Signal(syscall.SIGSTOP))
	second, _ := open("second", server, 1, func(_ context.Context, j drive.Job) error { runs <- j; return nil })
	b := next(t, runs)
	if a.ID() != "lock#7" || b.ID() != a.ID() || b.Token <= a.Token {
		t.Errorf("%+v, and then %+v", a, b)
	}
	must(t, program.Signal(syscall.SIGCONT))
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Errorf("it lost the job, and its context says %v", err)
	}
	must(t, first.Close(t.Context()))
	must(t, second.Put(t.Context(), drive.Job{Lock: "lock", N: 7}))
	must(t, second.Put(t.Context(), drive.Job{Lock: "lock", N: 8}))
	if c := next(t, runs); c.N != 8 || c.Token <= b.Token {
		t.Errorf("%+v after %+v", c, b)
	}
	must(t, second.Close(t.Context()))
	if len(runs) > 0 {
		t.Errorf("run once more: %+v", <-runs)
	}
}

// TestDBSchedulerLatePick: a pick is an update and then a look at the row. The job of a process that stands still between them is
// run by another, and when it goes on it takes the other's version for its own: two runs have the same token.
func TestDBSchedulerLatePick(t *testing.T) {
	server, open := dbScheduler(t)
	look := openGate(t, server, "select * from scheduled_tasks where task_name = $1")
	runs, done := make(chan drive.Job, 10), make(chan struct{})
	first, program := open("first", look.Addr().String(), 1, func(_ context.Context, j drive.Job) error { runs <- j; return nil })
	puts, _ := open("puts", server, 0, nil)
	must(t, puts.Put(t.Context(), drive.Job{Lock: "lock", N: 7}))
	<-look.reached
	must(t, program.Signal(syscall.SIGSTOP))
	second, _ := open("second", server, 1, func(_ context.Context, j drive.Job) error { runs <- j; <-done; return nil })
	b := next(t, runs)
	close(look.opened)
	time.Sleep(500 * time.Millisecond) // the server answers
	must(t, program.Signal(syscall.SIGCONT))
	if a := next(t, runs); a != b || a.Token == 0 {
		t.Errorf("%+v runs beside %+v", a, b)
	}
	close(done)
	must(t, errors.Join(first.Close(t.Context()), second.Close(t.Context()), puts.Close(t.Context())))
}
