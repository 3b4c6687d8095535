package rundir

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// ArchiveDir is where, in a directory of runs, Pack puts archives.
const ArchiveDir = "histories"

// ArchiveEnding is what an archive's name ends with: a tar file, compressed by zstd.
const ArchiveEnding = ".tar.zst"

// Archive identifies a run's record in one compressed file, which outlives the run's
// directory.
type Archive struct {
	// File is RUN.tar.zst, in ArchiveDir of the directory of runs.
	File string `json:"file"`
	// SHA256 is the file's, in hex.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// packed are the parts of a run's directory that nothing can make again. Reports, plots and
// drawings follow from them.
var packed = []string{PlanFile, InfoFile, VerdictFile, ProgressFile, HistoryDir, LogDir}

// Pack stores what a run's directory records in an archive beside it, which is on disk
// when Pack returns. The directory stays.
func Pack(dir string) (a Archive, err error) {
	if _, err := isRun(dir); err != nil {
		return a, fmt.Errorf("not packed: %w", err)
	}
	a.File = filepath.Base(dir) + ArchiveEnding
	path := a.path(filepath.Dir(dir))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return a, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return a, err
	}
	defer os.Remove(f.Name())
	sum := sha256.New()
	err = errors.Join(pack(os.DirFS(dir), io.MultiWriter(f, sum)), f.Chmod(0o644), f.Sync())
	if st, e := f.Stat(); e == nil {
		a.Bytes = st.Size()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return a, fmt.Errorf("pack %s: %w", dir, err)
	}
	a.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return a, os.Rename(f.Name(), path)
}

func pack(from fs.FS, to io.Writer) error {
	z, err := zstd.NewWriter(to)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, part := range packed {
		err = errors.Join(err, fs.WalkDir(from, part, func(name string, d fs.DirEntry, err error) error {
			switch {
			case name == part && errors.Is(err, fs.ErrNotExist):
				return nil // not every run has every part
			case err != nil || !d.Type().IsRegular():
				return err
			}
			return add(w, from, name)
		}))
	}
	return errors.Join(err, w.Close(), z.Close())
}

func add(w *tar.Writer, from fs.FS, name string) error {
	f, err := from.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Size: st.Size(), Mode: 0o644, ModTime: st.ModTime(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// FindArchive returns the archive of a run whose directory was in runs; an error that is
// fs.ErrNotExist if there is none.
func FindArchive(runs, run string) (Archive, error) {
	a := Archive{File: run + ArchiveEnding}
	f, err := os.Open(a.path(runs))
	if err != nil {
		return a, err
	}
	defer f.Close()
	sum := sha256.New()
	if a.Bytes, err = io.Copy(sum, f); err != nil {
		return a, err
	}
	a.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return a, nil
}

// ErrOtherArchive: the file is not the one that was packed.
var ErrOtherArchive = errors.New("its content is not what was packed")

// Unpack restores the run's directory below into, after it has compared the archive in the
// directory of runs with its digest, and returns it.
func (a Archive) Unpack(runs, into string) (dir string, err error) {
	run := strings.TrimSuffix(filepath.Base(a.File), ArchiveEnding)
	have, err := FindArchive(runs, run)
	if err != nil {
		return "", err
	}
	if have != a {
		return "", fmt.Errorf("%s: %w: sha256 %.12s…, not %.12s…", a.path(runs), ErrOtherArchive, have.SHA256, a.SHA256)
	}
	dir = filepath.Join(into, run)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	return dir, unpack(a.path(runs), dir)
}

func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return err
	}
	defer z.Close()
	root, err := os.OpenRoot(dir) // nothing leaves it, whatever the names are
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = restore(root, h, r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

func restore(root *os.Root, h *tar.Header, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// Archives names the runs that have an archive, sorted.
func Archives(runs string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(runs, ArchiveDir, "*"+ArchiveEnding))
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ArchiveEnding)
	}
	slices.Sort(files)
	return files, nil
}

// Remove deletes the archive; one that is gone already is no error.
func (a Archive) Remove(runs string) error {
	if err := os.Remove(a.path(runs)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (a Archive) path(runs string) string {
	return filepath.Join(runs, ArchiveDir, filepath.Base(a.File))
}
