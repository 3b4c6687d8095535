package kept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/harness/env/cluster"
)

// Paths of a kept cluster, all in one directory that only the user may enter.
type Paths struct {
	Dir    string // the directory itself
	Socket string // the daemon's socket
	Lock   string // locked as long as the cluster is kept
	State  string // state.json: who keeps it
	Log    string // output of `up --background`
}

// DefaultPaths returns the user's paths and makes their directory.
func DefaultPaths() (Paths, error) {
	cache, err := cluster.CacheDir()
	if err != nil {
		return Paths{}, err
	}
	dir := filepath.Join(cache, "kept")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Paths{}, fmt.Errorf("kept: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return Paths{}, fmt.Errorf("kept: %w", err)
	}
	return Paths{
		Dir: dir, Socket: filepath.Join(dir, "socket"), Lock: filepath.Join(dir, "lock"),
		State: filepath.Join(dir, "state.json"), Log: filepath.Join(dir, "up.log"),
	}, nil
}

// state is state.json.
type state struct {
	PID     int       `json:"pid"` // of the outermost process
	Started time.Time `json:"started"`
	Exe     string    `json:"exe"`
}

// Lock marks the user's kept cluster as owned by this process until it ends or
// the result is closed. If it is owned already, the error is a *[UpError].
func Lock(p Paths) (io.Closer, error) {
	f, err := cluster.LockFile(p.Lock, false)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, upError(p)
	}
	if err != nil {
		return nil, fmt.Errorf("kept: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kept: %w", err), f.Close())
	}
	// What a dead owner has left means nothing any more.
	if err := os.Remove(p.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("kept: %w", err), f.Close())
	}
	b, err := json.Marshal(state{PID: os.Getpid(), Started: time.Now().UTC(), Exe: exe})
	if err == nil {
		err = os.WriteFile(p.State, b, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kept: %w", err), f.Close())
	}
	return f, nil
}

// Held reports whether somebody keeps a cluster, or is just starting or ending one.
func Held(p Paths) (bool, error) {
	f, err := os.OpenFile(p.Lock, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kept: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("kept: lock %s: %w", p.Lock, err)
	}
	return false, nil
}

func readState(p Paths) (state, error) {
	var s state
	b, err := os.ReadFile(p.State)
	if err != nil {
		return s, fmt.Errorf("kept: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("kept: %s: %w", p.State, err)
	}
	return s, nil
}

func upError(p Paths) error {
	s, err := readState(p)
	if err != nil {
		return &UpError{}
	}
	return &UpError{PID: s.PID, Since: s.Started}
}

// A socket's address holds about a hundred bytes, a path may be longer: both
// sides name the socket through a descriptor of its directory.

func listen(p Paths) (*net.UnixListener, error) {
	var l *net.UnixListener
	err := viaDir(p.Socket, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("kept: listen on %s: %w", p.Socket, err)
	}
	l.SetUnlinkOnClose(false) // the descriptor's path is gone by then
	return l, nil
}

func dial(p Paths) (*net.UnixConn, error) {
	var c *net.UnixConn
	err := viaDir(p.Socket, func(path string) (err error) {
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("kept: connect to %s: %w", p.Socket, err)
	}
	return c, nil
}

func viaDir(path string, f func(string) error) error {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path)))
}

// exeDigest is the SHA-256 of the running program.
func exeDigest() (string, error) {
	sum, err := cluster.FileSum("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("kept: %w", err)
	}
	return sum, nil
}
