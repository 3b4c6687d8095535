package kept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// protocolVersion is raised when messages change their meaning.
const protocolVersion = 2

// MaxExtra is how many files a command may get beside its standard ones.
const MaxExtra = 32

// maxMessage bounds a message; an environment may be large.
const maxMessage = 16 << 20

type operation string

const (
	opExec   operation = "exec"
	opRun    operation = "run"
	opStatus operation = "status"
	opDown   operation = "down"
)

// hello opens a connection, after one byte that carries the descriptors of
// standard input, output and error (exec and run only), and of exec's extra files.
type hello struct {
	Version int       `json:"version"`
	Op      operation `json:"op"`
	Exe     string    `json:"exe"` // SHA-256
	Args    []string  `json:"args,omitempty"`
	Dir     string    `json:"dir,omitempty"`
	Env     []string  `json:"env,omitempty"`
}

// signalMessage is what a client sends while its work runs.
type signalMessage struct {
	Signal int `json:"signal"`
}

// Refusals, in reply.Refusal.
const (
	refusedStale = "stale"
	refusedBusy  = "busy"
	refusedOther = "other"
)

// reply is the daemon's one answer.
type reply struct {
	Code    int       `json:"code"` // exit code of exec and run
	Refusal string    `json:"refusal,omitempty"`
	Message string    `json:"message,omitempty"`
	Args    []string  `json:"args,omitempty"`  // of the run that keeps the cluster busy
	Since   time.Time `json:"since,omitzero"`  // of the same
	Status  *Status   `json:"status,omitzero"` // answer to status
}

// err is the typed error of a refusal, nil for an answer.
func (r reply) err() error {
	switch r.Refusal {
	case "":
		return nil
	case refusedStale:
		return &StaleError{}
	case refusedBusy:
		return &BusyError{Args: r.Args, Since: r.Since}
	default:
		return &RefusedError{Message: r.Message}
	}
}

func refusal(err error) reply {
	var busy *BusyError
	var stale *StaleError
	switch {
	case errors.As(err, &busy):
		return reply{Refusal: refusedBusy, Args: busy.Args, Since: busy.Since}
	case errors.As(err, &stale):
		return reply{Refusal: refusedStale}
	default:
		return reply{Refusal: refusedOther, Message: err.Error()}
	}
}

// sendFiles sends one byte with the descriptors.
func sendFiles(c *net.UnixConn, files []*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix([]byte{'F'}, rights, nil); err != nil {
		return fmt.Errorf("kept: send descriptors: %w", err)
	}
	return nil
}

// receiveFiles is the other side of sendFiles. The caller closes the files.
func receiveFiles(c *net.UnixConn) ([]*os.File, error) {
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace((3+MaxExtra)*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, fmt.Errorf("kept: receive descriptors: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, fmt.Errorf("kept: receive descriptors: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("kept: receive descriptors: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "file of a client"))
		}
	}
	if n != 1 || flags&unix.MSG_CTRUNC != 0 || len(files) != 0 && len(files) < 3 {
		closeAll(files)
		return nil, fmt.Errorf("kept: receive descriptors: got %d, want none, or 3 to %d", len(files), 3+MaxExtra)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// watchClient cancels when the client is gone, and hands on its signals.
func watchClient(in *json.Decoder, gone context.CancelFunc, onSignal func(syscall.Signal)) {
	defer gone()
	for {
		var m signalMessage
		if err := in.Decode(&m); err != nil {
			return
		}
		onSignal(syscall.Signal(m.Signal))
	}
}

// ErrNotUp: no cluster is kept.
var ErrNotUp = errors.New("no cluster is up: start one with `fencepost up` (or `fencepost up --background`)")

// ErrUp is what every [UpError] is.
var ErrUp = errors.New("a cluster is up already")

// UpError says who keeps the cluster.
type UpError struct {
	PID   int // 0 if unknown
	Since time.Time
}

func (e *UpError) Error() string {
	if e.PID == 0 {
		return ErrUp.Error() + ": end it with `fencepost down`"
	}
	return fmt.Sprintf("%v (process %d, since %s): end it with `fencepost down`", ErrUp, e.PID, e.Since.Local().Format(time.TimeOnly))
}

// Is reports whether target is ErrUp.
func (e *UpError) Is(target error) bool { return target == ErrUp }

// StaleError says that the daemon was started from another build.
type StaleError struct{}

func (e *StaleError) Error() string {
	return "the cluster that is up was started by another build of this tool, which would run instead of yours: `fencepost down`, then `fencepost up`"
}

// BusyError says that another run is using the cluster.
type BusyError struct {
	Args  []string
	Since time.Time
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("the cluster is busy with %q since %s: wait for it, or end it", e.Args, e.Since.Local().Format(time.TimeOnly))
}

// RefusedError is what the daemon said, where no other type fits.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }
