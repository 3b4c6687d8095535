package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Entry is a run's directory in a directory of runs.
type Entry struct {
	Dir     string
	Info    Info
	Verdict string // "" if it was not checked
	Bytes   int64
}

// List returns the runs in a directory, the newest first. What is not a run's
// directory (no readable run.json that names it, or a symbolic link) is left out.
func List(runs string) ([]Entry, error) {
	names, err := os.ReadDir(runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, n := range names {
		dir := filepath.Join(runs, n.Name())
		info, err := isRun(dir)
		if err != nil {
			continue
		}
		e := Entry{Dir: dir, Info: info, Verdict: verdictOf(dir)}
		if e.Bytes, err = Size(dir); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Entry) int {
		if c := b.Info.Started.Compare(a.Info.Started); c != 0 {
			return c
		}
		return strings.Compare(b.Dir, a.Dir)
	})
	return out, nil
}

// isRun returns the Info of a run's directory, or why it is none. run.json must
// name the directory: a copy of a run under another name was kept on purpose.
func isRun(dir string) (Info, error) {
	st, err := os.Lstat(dir)
	if err != nil {
		return Info{}, err
	}
	if !st.IsDir() {
		return Info{}, fmt.Errorf("%s is not a directory", dir)
	}
	info, err := ReadInfo(dir)
	if err != nil {
		return info, err
	}
	if info.Run == "" || info.Run != filepath.Base(dir) {
		return info, fmt.Errorf("%s is not the directory of run %q", dir, info.Run)
	}
	return info, nil
}

func verdictOf(dir string) string {
	var v struct{ Verdict string }
	b, err := os.ReadFile(filepath.Join(dir, VerdictFile))
	if err != nil || json.Unmarshal(b, &v) != nil {
		return ""
	}
	return v.Verdict
}

// Size is how many bytes the files in a directory have. What is deleted meanwhile has none.
func Size(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var st fs.FileInfo
			if st, err = d.Info(); err == nil {
				n += st.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		return err
	})
	return n, err
}

// Remove deletes a run's directory, and refuses to delete anything else. "" is
// nothing to do.
func Remove(dir string) error {
	if dir == "" {
		return nil
	}
	if _, err := isRun(dir); err != nil {
		return fmt.Errorf("not removed: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	latest := filepath.Join(filepath.Dir(dir), "latest")
	if to, err := os.Readlink(latest); err == nil && to == filepath.Base(dir) {
		return os.Remove(latest) // it would point to nothing
	}
	return nil
}

// Pruning says which runs may go.
type Pruning struct {
	Keep  int           // the newest so many stay
	Older time.Duration // only what ended longer ago than this goes; 0: any age
	All   bool          // also what is not PASS
}

// Choose returns the runs that go. A run that was not checked counts as red, as
// does one that may still go on: its verdict is not known.
func (p Pruning) Choose(runs []Entry, now time.Time) []Entry {
	var out []Entry
	for i, e := range runs {
		switch {
		case i < p.Keep:
		case p.Older > 0 && now.Sub(e.Info.Started) < p.Older:
		case e.Verdict != "PASS" && !p.All:
		case e.Info.Ended.IsZero() && now.Sub(e.Info.Started) < stillRunning:
		default:
			out = append(out, e)
		}
	}
	return out
}

// stillRunning is how long a run without an end is taken to go on.
const stillRunning = time.Hour
