package kept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"fencepost/harness/env/sandbox"
)

const (
	// statusTimeout bounds a question to the daemon.
	statusTimeout = 10 * time.Second
	// downTimeout is how long the daemon may take to end before it is killed.
	downTimeout = cancelGrace + 30*time.Second
	lockPoll    = 20 * time.Millisecond
)

// Exec runs a command inside the kept sandbox, with this process's standard
// files, directory and environment, and returns its exit code. Signals are
// handed on. Without a kept cluster the error is [ErrNotUp].
//
// The command also gets extra files, as descriptors 3 and up, at most [MaxExtra]:
// listeners, say, of the network that this process is in. The caller closes them.
func Exec(ctx context.Context, p Paths, args []string, extra ...*os.File) (int, error) {
	return work(ctx, p, opExec, args, append(standard(), extra...))
}

func standard() []*os.File { return []*os.File{os.Stdin, os.Stdout, os.Stderr} }

// Run has the daemon carry out args in its own process, see [Handler]. Beside
// the errors of [Exec], it returns *[StaleError] and *[BusyError].
func Run(ctx context.Context, p Paths, args []string) (int, error) {
	return work(ctx, p, opRun, args, standard())
}

// work has the daemon do something with these standard files, and what more a command gets.
func work(ctx context.Context, p Paths, op operation, args []string, files []*os.File) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("kept: %w", err)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	conn, err := ask(p, hello{Op: op, Args: args, Dir: dir, Env: os.Environ()}, files)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	answer := make(chan reply, 1)
	failed := make(chan error, 1)
	go func() {
		var r reply
		if err := json.NewDecoder(conn).Decode(&r); err != nil {
			failed <- err
			return
		}
		answer <- r
	}()
	out := json.NewEncoder(conn)
	over := ctx.Done()
	for {
		var s syscall.Signal
		select {
		case r := <-answer:
			return r.Code, r.err()
		case err := <-failed:
			return 0, fmt.Errorf("kept: the daemon ended before the command did: %w", err)
		case got := <-signals:
			s, _ = got.(syscall.Signal)
		case <-over:
			over = nil
			s = syscall.SIGTERM
		}
		// If this cannot be sent, the daemon is gone, and failed will say so.
		_ = out.Encode(signalMessage{Signal: int(s)})
	}
}

// ask connects and says what is wanted.
func ask(p Paths, h hello, files []*os.File) (*net.UnixConn, error) {
	held, err := Held(p)
	if err != nil {
		return nil, err
	}
	if !held {
		return nil, ErrNotUp
	}
	conn, err := dial(p)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &RefusedError{Message: "the cluster is not up yet, or is just ending: try again in a moment (the log of a cluster in the background is " + p.Log + ")"}
	}
	if err != nil {
		return nil, err
	}
	h.Version = protocolVersion
	if h.Exe, err = exeDigest(); err == nil {
		err = sendFiles(conn, files)
	}
	if err == nil {
		err = json.NewEncoder(conn).Encode(h)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Query returns the status of the kept cluster, or [ErrNotUp].
func Query(p Paths) (*Status, error) {
	conn, err := ask(p, hello{Op: opStatus}, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(statusTimeout)); err != nil {
		return nil, fmt.Errorf("kept: %w", err)
	}
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return nil, fmt.Errorf("kept: the daemon's status: %w", err)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	if r.Status == nil {
		return nil, errors.New("kept: the daemon sent no status")
	}
	return r.Status, nil
}

// Down ends the kept cluster and returns when nothing of it is left. If the
// daemon does not end by itself (75 s), its outermost process is killed, which
// ends everything; progress is told. Without a kept cluster it is [ErrNotUp].
func Down(ctx context.Context, p Paths, progress func(string)) error {
	if sandbox.Inside() {
		return errors.New("inside the sandbox: run `fencepost down` outside of it")
	}
	conn, err := ask(p, hello{Op: opDown}, nil)
	var starting *RefusedError
	switch {
	case errors.As(err, &starting):
		// It cannot be asked yet, or any more: a signal ends it in good order too.
		if err := signalOwner(p, syscall.SIGTERM); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		defer conn.Close()
		// The answer tells nothing more than the lock will.
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	timeout := time.After(downTimeout)
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		held, err := Held(p)
		if err != nil {
			return err
		}
		if !held {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the cluster is still ending: %w", context.Cause(ctx))
		case <-timeout:
			progress("the daemon does not end: killing it")
			if err := signalOwner(p, syscall.SIGKILL); err != nil {
				return err
			}
		}
	}
}

// signalOwner signals the process that holds the lock. Only while the lock is
// held is the state file's PID its.
func signalOwner(p Paths, s syscall.Signal) error {
	st, err := readState(p)
	if err != nil {
		return err
	}
	held, err := Held(p)
	if err != nil || !held {
		return err
	}
	if err := syscall.Kill(st.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kept: signal process %d: %w", st.PID, err)
	}
	return nil
}
