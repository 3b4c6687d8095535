package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Kinds of lives.
const (
	LifeWorker  = "worker"  // fencepost's own, with locks or a scheduler
	LifeProgram = "program" // a user's own
	LifeTask    = "task"    // of a user's own program: ends when it is done
	LifeSink    = "sink"    // the service that the sink is
	LifeNode    = "node"    // of Cassandra
	LifeServer  = "server"  // of another store
)

// ProcessLife is how one life of a process ended, as the harness that started it saw it, or that
// it was still there.
type ProcessLife struct {
	// worker, program: of a user's own, task: one of a user's that ends when it is done, sink,
	// node: of Cassandra, server: of another store
	Kind string `json:"kind" of:"worker program task sink node server"`
	// the life's: w1.2, sink, n1, seal
	Name string `json:"name" is:"name"`
	// its process id; absent: it cannot be seen from the host
	PID int `json:"pid,omitempty" is:"count"`
	// the signal by which the harness asked it to end; a process that was found dead when it
	// was to be asked was not
	Asked string `json:"asked,omitempty"`
	// for whom: the id of a fault, or runner
	By string `json:"by,omitempty" is:"name"`
	// what it had not done in its time, for which it was killed
	Overdue string `json:"overdue,omitempty"`
	// it was there when the run was over; else it has code or signal, or neither if nobody can
	// tell how it ended
	Running bool `json:"running,omitempty"`
	// its exit status
	Code *int `json:"code,omitempty"`
	// what ended it: SIGKILL …
	Signal string `json:"signal,omitempty"`
	// the time from asking to the end
	TookMS int64 `json:"took_ms,omitempty" is:"span"`
	// how long that may take; absent: not said
	BoundMS int64 `json:"bound_ms,omitempty" is:"span"`
	// if it did not end as planned: what it printed, from the first line that tells of an
	// error with what follows it, such as a stack, and the last lines
	Log []string `json:"log,omitempty"`
	// in the logs of the run's directory
	LogFile string `json:"log_file,omitempty"`
	// its history file, by its name without directories
	File string `json:"file,omitempty"`
	// what was in it when the life had ended; a file that is another is malformed
	Bytes int64 `json:"bytes,omitempty" is:"count"`
	// of these bytes
	SHA256 string `json:"sha256,omitempty"`
}

// Runner is who asks processes to end that no fault is aimed at.
const Runner = "runner"

// Signals by which lives are asked to end.
const (
	sigKill = "SIGKILL"
	sigTerm = "SIGTERM"
)

// Unplanned says what is wrong with how a life ended, "" if it ended as its plan says: by
// the harness's SIGKILL, or in time and in order after it was asked to.
func (l *ProcessLife) Unplanned() string {
	switch {
	case l.Overdue != "":
		return l.Overdue + ", and was killed for it"
	case l.Running && l.Asked != "":
		return fmt.Sprintf("was asked to end (%s by %s) and has not", l.Asked, l.By)
	case l.Running:
		return ""
	case l.Kind == LifeTask && l.Asked == "":
		if l.Code != nil && *l.Code == 0 {
			return ""
		}
		return fmt.Sprintf("ended with %s, not with exit status 0", l.Ending())
	case l.Asked == "":
		return "ended by itself (" + l.Ending() + "): nobody had asked it to"
	case l.Asked == sigKill:
		if l.Signal == sigKill {
			return ""
		}
		return fmt.Sprintf("was to be killed by %s and ended otherwise (%s)", l.By, l.Ending())
	case l.BoundMS > 0 && l.TookMS > l.BoundMS:
		return fmt.Sprintf("ended %s after %s by %s; it has %s", ms(l.TookMS), l.Asked, l.By, ms(l.BoundMS))
	case !l.inOrder():
		return fmt.Sprintf("was asked to end (%s by %s) and did so with %s, not with %s", l.Asked, l.By, l.Ending(), orders[l.Kind])
	}
	return ""
}

// orders are the ends of lives that were asked to end, by kind.
var orders = map[string]string{
	LifeWorker: "exit status 0", LifeSink: "exit status 0", LifeProgram: "exit status 0 or by SIGTERM", LifeNode: "exit status 143",
	LifeServer: "exit status 0 or 143, or by SIGTERM",
}

// inOrder says whether it ended as its kind does when it is asked to.
func (l *ProcessLife) inOrder() bool {
	code := func(want int) bool { return l.Code != nil && *l.Code == want }
	switch l.Kind {
	case LifeNode: // a JVM ends with 128 + SIGTERM
		return code(143)
	case LifeServer: // in Go, in C, or a JVM
		return code(0) || code(143) || l.Signal == sigTerm
	case LifeProgram:
		return code(0) || l.Signal == sigTerm
	}
	return code(0)
}

// Ending says how it ended.
func (l *ProcessLife) Ending() string {
	switch {
	case l.Running:
		return "it runs"
	case l.Signal != "":
		return l.Signal
	case l.Code != nil:
		return fmt.Sprintf("exit status %d", *l.Code)
	}
	return "nobody can tell how"
}

// unhandled begins what a program prints as it dies, with a stack behind it: Go, Python, a
// JVM, Rust, Node; trouble is any other line that tells of an error.
var (
	unhandled = regexp.MustCompile(`^(panic|fatal error|runtime): |^SIG[A-Z]+: |^Traceback \(most recent|^Exception in thread|` +
		`fatal error has been detected|java\.lang\.OutOfMemoryError|panicked at|^Uncaught `)
	trouble = regexp.MustCompile(`^(ERROR|FATAL)\b|level=ERROR|(?i:\berror\b)|Exception\b`)
)

// FirstError is the first line of what a program printed as it died of an error that it
// did not handle, or else the first that tells of an error, -1 if none does.
func FirstError(lines []string) int {
	for _, r := range []*regexp.Regexp{unhandled, trouble} {
		if i := slices.IndexFunc(lines, r.MatchString); i >= 0 {
			return i
		}
	}
	return -1
}

// Words is the line of its log that tells best why it ended so, "" if there is none.
func (l *ProcessLife) Words() string {
	if len(l.Log) == 0 {
		return ""
	}
	if i := FirstError(l.Log); i >= 0 {
		return l.Log[i]
	}
	return l.Log[len(l.Log)-1]
}

// Panicked says whether it died of an error that it did not handle.
func (l *ProcessLife) Panicked() bool {
	return l.Overdue == "" && (l.Code != nil || l.Signal == "SIGSEGV" || l.Signal == "SIGABRT") &&
		slices.ContainsFunc(l.Log, unhandled.MatchString)
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// Holds notes what is in a life's history file now that the life has ended. A file that
// was never made is an empty one.
func (l *ProcessLife) Holds(file string) error {
	n, sum, err := digest(file, -1)
	if err != nil {
		return err
	}
	l.File, l.Bytes, l.SHA256 = filepath.Base(file), n, sum
	return nil
}

// digest is the length of a file, or of its first limit bytes (not negative), and their
// SHA-256. A file that is not there is empty.
func digest(file string, limit int64) (n int64, sum string, err error) {
	h := sha256.New()
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		var r io.Reader = f
		if limit >= 0 {
			r = io.LimitReader(f, limit)
		}
		n, err = io.Copy(h, r)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, "", fmt.Errorf("history: %w", err)
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}

// verify compares the files of the lives that have ended with what was in them then, as
// the harness noted it. They are in the directory of the harness's own file.
func (h *History) verify() error {
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != NoteLife || e.Proc != Harness || e.Life().File == "" {
			continue
		}
		if err := e.Life().verify(filepath.Join(filepath.Dir(e.File), e.Life().File)); err != nil {
			return err
		}
	}
	return nil
}

func (l *ProcessLife) verify(file string) error {
	info, err := os.Stat(file)
	size := int64(0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("history: %w", err)
	default:
		size = info.Size()
	}
	bad := func(line int, what string) error {
		return &FormatError{file, line, fmt.Sprintf("it is not what it was when the life %s ended: %s", l.Name, what)}
	}
	if size < l.Bytes {
		return bad(1, fmt.Sprintf("it had %d bytes then and has %d now", l.Bytes, size))
	}
	_, sum, err := digest(file, l.Bytes)
	switch {
	case err != nil:
		return err
	case sum != l.SHA256:
		return bad(1, "other bytes were in it")
	case size > l.Bytes:
		return bad(lineAt(file, l.Bytes), fmt.Sprintf("it had %d bytes then and has %d now", l.Bytes, size))
	}
	return nil
}

// lineAt is the number of the line that begins at a byte of a file, 1 if it cannot be read.
func lineAt(file string, at int64) int {
	f, err := os.Open(file)
	if err != nil {
		return 1
	}
	defer f.Close()
	n, buf, r := 1, make([]byte, 1<<16), io.LimitReader(f, at)
	for {
		k, err := r.Read(buf)
		n += bytes.Count(buf[:k], []byte{'\n'})
		if err != nil {
			return n
		}
	}
}
