package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fencepost/checker"
)

// Store keeps results as one JSON file each in a directory.
type Store struct{ dir string }

// NewStore returns the store in dir, which need not exist yet.
func NewStore(dir string) *Store { return &Store{dir} }

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

// FileError is a stored result that cannot be used.
type FileError struct {
	File string
	Err  error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s: %v: restore the file, or remove it to have its run done again", e.File, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// All returns every result, sorted by job and attempt. A file that is torn, not
// a result or not named as its content demands is a *FileError.
func (s *Store) All() ([]Result, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, f := range files {
		r, err := read(f)
		if err != nil {
			return nil, &FileError{f, err}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Result) int {
		if c := compare(a.Job, b.Job); c != 0 {
			return c
		}
		return a.Attempt - b.Attempt
	})
	return out, nil
}

func read(file string) (Result, error) {
	var r Result
	b, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("torn or edited: %w", err)
	}
	if r.Version != Version {
		return r, fmt.Errorf("it has version %d, this tool reads version %d", r.Version, Version)
	}
	switch r.Verdict {
	case checker.Pass, checker.Fail, checker.Invalid, checker.Unknown:
		if r.Check == nil || r.Check.Verdict != r.Verdict {
			return r, fmt.Errorf("the verdict %s is not that of its check", r.Verdict)
		}
	case Error:
	default:
		return r, fmt.Errorf("unknown verdict %q", r.Verdict)
	}
	if err := r.Job.check(); err != nil {
		return r, err
	}
	if want := fileName(r.Job, r.Attempt); filepath.Base(file) != want {
		return r, fmt.Errorf("by its content it is %s", want)
	}
	return r, nil
}

// fileName is NAME.json, and NAME.2.json for the second attempt.
func fileName(j Job, attempt int) string {
	if attempt <= 1 {
		return j.name() + ".json"
	}
	return fmt.Sprintf("%s.%d.json", j.name(), attempt)
}

// Put stores r as its job's next attempt and returns its file. It never touches
// a file that is there.
func (s *Store) Put(r Result) (string, error) {
	if err := r.Job.check(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return "", err
	}
	r.Version = Version
	tmp, err := os.CreateTemp(s.dir, ".new-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	for r.Attempt = 1; ; r.Attempt++ {
		file := filepath.Join(s.dir, fileName(r.Job, r.Attempt))
		if _, err := os.Lstat(file); err == nil {
			continue
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetIndent("", " ")
		if err := enc.Encode(r); err != nil {
			return "", err
		}
		// Whole under its name or not at all, also after a power cut.
		err := errors.Join(os.WriteFile(tmp.Name(), b.Bytes(), 0o644), tmp.Chmod(0o644), tmp.Sync())
		if err != nil {
			return "", errors.Join(err, tmp.Close())
		}
		if err := os.Link(tmp.Name(), file); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return "", errors.Join(err, tmp.Close())
		}
		return file, tmp.Close()
	}
}

// replace removes the PASS results of a job that are older than the one just
// stored; what was not PASS stays.
func (s *Store) replace(old []Result) error {
	var errs []error
	for _, r := range old {
		if r.Verdict == checker.Pass {
			errs = append(errs, os.Remove(filepath.Join(s.dir, fileName(r.Job, r.Attempt))))
		}
	}
	return errors.Join(errs...)
}
