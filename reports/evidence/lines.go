package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LineError is a line of a file of results that cannot be used.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s:%d: %v: restore the line, or remove it to have its run done again", e.File, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

var errTorn = errors.New("torn: the line has no end")

// ReadLines reads a file of one JSON value a line; a file that is not there has none. A last
// line without an end is a *LineError, and so is what use refuses.
func ReadLines(file string, use func(line []byte) error) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			return &LineError{file, n, errTorn}
		}
		if err := use(text); err != nil {
			return &LineError{file, n, err}
		}
	}
	return nil
}

// EditLines replaces a file by the lines that edit returns. Who reads, and a power cut, sees
// the old file or the new one; other edits in its directory wait.
func EditLines(file string, edit func() ([][]byte, error)) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	lines, err := edit()
	if err != nil {
		return err
	}
	return replaceFile(file, append(bytes.Join(lines, []byte("\n")), '\n'))
}

func replaceFile(file string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err := errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
