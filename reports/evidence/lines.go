package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
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

// NotesFile, in the directory of results, says of each kept run that did not end as it
// should why it did not.
const NotesFile = "notes.yaml"

// Note is what is known of such a run.
type Note struct {
	// Result names it by its file below the directory of results, without the ending, and
	// its own name: evidence/SET/SCENARIO-CONTENTION-SEED, power/…; of a chaos run chaos/RUN.
	Result string `yaml:"result"`
	// Cause says why it ended so, or that this is not known.
	Cause string `yaml:"cause"`
	// Mended is the commit after which it cannot, "" if there is none.
	Mended string `yaml:"mended,omitempty"`
}

var commitRule = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// ReadNotes reads the notes, by result. A file that is not there has none.
func ReadNotes(file string) (map[string]Note, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Note
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out := map[string]Note{}
	for _, n := range all {
		n.Cause = strings.Join(strings.Fields(n.Cause), " ")
		switch _, twice := out[n.Result]; {
		case n.Result == "" || twice:
			return nil, fmt.Errorf("%s: the result %q is not named, or twice", file, n.Result)
		case n.Cause == "":
			return nil, fmt.Errorf("%s: %s: missing cause; write \"unknown\" if it is not known", file, n.Result)
		case n.Mended != "" && !commitRule.MatchString(n.Mended):
			return nil, fmt.Errorf("%s: %s: mended: %q is not a commit", file, n.Result, n.Mended)
		}
		out[n.Result] = n
	}
	return out, nil
}
