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
