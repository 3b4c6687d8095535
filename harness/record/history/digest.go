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
)

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
