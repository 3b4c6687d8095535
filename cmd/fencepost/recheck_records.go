package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports/evidence"
)

// errNoHistory: a result has none on this machine, and does not say that there is one.
var errNoHistory = errors.New("no history")

// record is a run that was recorded.
type record struct {
	name string
	// open makes its directory available, below tmp, where it may be written to, and says
	// how it was judged (nil: it never was).
	open func(tmp string) (dir string, was *checker.Result, err error)
}

// storedRecords are the runs of a store's results.
func storedRecords(file, runs string) ([]record, error) {
	all, err := evidence.NewStore(file).All()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, usageError(fmt.Errorf("%s has no results", file))
	}
	var out []record
	for _, r := range all {
		name := r.Job.String()
		if r.Attempt > 1 {
			name += fmt.Sprintf(" (attempt %d)", r.Attempt)
		}
		out = append(out, record{name, func(tmp string) (string, *checker.Result, error) {
			if r.Check == nil {
				return "", nil, nil
			}
			dir, err := stored(r, runs, tmp)
			return dir, r.Check, err
		}})
	}
	return out, nil
}

// stored is the record of a result: the archive that it names, or the run's directory if
// that is still there.
func stored(r evidence.Result, runs, tmp string) (string, error) {
	if r.History != nil {
		return r.History.Unpack(runs, tmp)
	}
	dir := filepath.Join(runs, filepath.Base(r.Info.Run))
	if info, err := rundir.ReadInfo(dir); err != nil || info.Run != r.Info.Run {
		return "", errNoHistory
	}
	return linked(dir, tmp)
}

// dirRecord is a run's directory.
func dirRecord(dir string) record {
	return record{filepath.Base(dir), func(tmp string) (string, *checker.Result, error) {
		was, err := verdictIn(dir)
		if err != nil || was == nil {
			return "", was, err
		}
		copied, err := linked(dir, tmp)
		return copied, was, err
	}}
}

// archiveRecord is an archive by its file, which nothing has a digest of.
func archiveRecord(file string) ([]record, error) {
	runs, run := filepath.Dir(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), rundir.ArchiveEnding)
	if run+rundir.ArchiveEnding != filepath.Base(file) || filepath.Base(filepath.Dir(file)) != rundir.ArchiveDir {
		return nil, usageError(fmt.Errorf("%s is no archive (…/%s/RUN%s): files of a history are judged by fencepost check", file, rundir.ArchiveDir, rundir.ArchiveEnding))
	}
	return []record{{run, func(tmp string) (string, *checker.Result, error) {
		a, err := rundir.FindArchive(runs, run)
		if err != nil {
			return "", nil, err
		}
		dir, err := a.Unpack(runs, tmp)
		if err != nil {
			return "", nil, err
		}
		was, err := verdictIn(dir)
		return dir, was, err
	}}}, nil
}

// runRecords are the runs in a directory, packed or not.
func runRecords(runs string) ([]record, error) {
	var out []record
	dirs, err := rundir.List(runs)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		out = append(out, dirRecord(d.Dir))
	}
	packed, err := rundir.Archives(runs)
	if err != nil {
		return nil, err
	}
	for _, run := range packed {
		some, err := archiveRecord(filepath.Join(runs, rundir.ArchiveDir, run+rundir.ArchiveEnding))
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	if len(out) == 0 {
		return nil, usageError(fmt.Errorf("%s holds neither results nor runs", runs))
	}
	return out, nil
}

// linked is a run's directory under another path, so that judging it leaves its files as
// they are.
func linked(dir, tmp string) (string, error) {
	to := filepath.Join(tmp, filepath.Base(dir))
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	err = os.Mkdir(to, 0o755)
	for _, part := range []string{rundir.HistoryDir, rundir.InfoFile, rundir.PlanFile, rundir.LogDir} {
		err = errors.Join(err, os.Symlink(filepath.Join(dir, part), filepath.Join(to, part)))
	}
	return to, err
}
