package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
)

// State is a run's verdict, or why it has none.
type State string

// States beside the checker's verdicts.
const (
	Running    State = "RUNNING"     // its process holds progress.jsonl
	BrokenOff  State = "BROKEN OFF"  // its process ended before the run did, or said that it could not go on
	NotChecked State = "NOT CHECKED" // it ended in order and has no verdict
	Unreadable State = "UNREADABLE"  // Problem says which file
	Measured   State = "BENCH"       // a benchmark
)

// Entry is what the list knows of a run or of a benchmark.
type Entry struct {
	// Name is its path below the directory of runs, with forward slashes.
	Name    string
	State   State
	Info    rundir.Info // of a benchmark: what it shares with a run
	Summary string
	Counts  checker.Counts
	// Failed are the properties that are violated, Violations how many findings they have.
	Failed     []string
	Violations int
	// Recovery is the slowest lock's (or shard's) after any fault; 0: none was measured.
	Recovery time.Duration
	Checked  time.Duration // how long checking took
	// Report is the file of its page, "" if it has none.
	Report string
	// Problem says what could not be read.
	Problem string
	// Live is what progress.jsonl says of a run without a verdict; nil if it has none.
	Live *Live
	// Arms and Problems are of a benchmark.
	Arms     int
	Problems []string

	dir string
}

// Bench says that the entry is a benchmark.
func (e *Entry) Bench() bool { return e.State == Measured }

// Took is the time from begin to end, 0 if the end is not known.
func (e *Entry) Took() time.Duration {
	if e.Info.Ended.IsZero() || e.Info.Started.IsZero() {
		return 0
	}
	return e.Info.Ended.Sub(e.Info.Started)
}

// Commit is what the tool was built from.
func (e *Entry) Commit() string { return e.Info.Versions["fencepost"] }

// Files that an entry is made of.
const (
	progressFile = rundir.ProgressFile
	benchPage    = reports.BenchPage
)

var watched = []string{rundir.InfoFile, rundir.VerdictFile, rundir.ReportFile, progressFile, reports.BenchFile, benchPage}

// stamp tells whether any file of an entry has changed.
type stamp [6]struct {
	size int64
	mod  time.Time
}

func stampOf(dir string) (s stamp) {
	for i, name := range watched {
		if st, err := os.Lstat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			s[i].size, s[i].mod = st.Size(), st.ModTime()
		}
	}
	return s
}

func (s stamp) has(name string) bool {
	for i, n := range watched {
		if n == name {
			return !s[i].mod.IsZero()
		}
	}
	return false
}

// still is the stamp without the file that grows all the time while a run goes on.
func (s stamp) still() stamp {
	for i, n := range watched {
		if n == progressFile {
			s[i].size, s[i].mod = 0, time.Time{}
		}
	}
	return s
}

// phase is the phase of a live run, "" for any other.
func (e *Entry) phase() string {
	if e.State != Running {
		return ""
	}
	return e.Live.Phase()
}

// readEntry reads an entry; nil if dir is neither a run's nor a benchmark's.
func readEntry(dir, name string, s stamp) *Entry {
	switch {
	case s.has(rundir.InfoFile):
		return readRun(dir, name, s)
	case s.has(reports.BenchFile):
		return readBench(dir, name, s)
	}
	return nil
}

func readRun(dir, name string, s stamp) *Entry {
	e := &Entry{Name: name, dir: dir, State: Unreadable}
	info, err := rundir.ReadInfo(dir)
	if err != nil {
		e.Problem = e.local(err)
		e.Info.Run = path.Base(name)
		return e
	}
	e.Info = info
	if s.has(rundir.ReportFile) {
		e.Report = rundir.ReportFile
	}
	if s.has(rundir.VerdictFile) {
		if err := e.readVerdict(); err != nil {
			e.State, e.Problem = Unreadable, e.local(err)
		}
		return e
	}
	if s.has(progressFile) {
		if e.Live, err = readLive(filepath.Join(dir, progressFile)); err != nil {
			e.Problem = e.local(err)
		}
	}
	e.State = e.without()
	return e
}

// without is the state of a run that has no verdict.
func (e *Entry) without() State {
	l := e.Live
	switch {
	case l == nil && e.Info.Ended.IsZero():
		return BrokenOff // or of a version that wrote no progress: nobody can tell
	case l == nil:
		return NotChecked
	case l.Alive && !l.Over:
		return Running
	case l.Error != "" || !l.Over:
		return BrokenOff
	}
	return NotChecked
}

// verdictSummary is the part of verdict.json that the list needs.
type verdictSummary struct {
	Verdict    checker.Verdict `json:"verdict"`
	Summary    string          `json:"summary"`
	Answer     *checker.Answer `json:"answer"`
	Properties []struct {
		ID     string         `json:"id"`
		Status checker.Status `json:"status"`
		Count  int            `json:"count"`
	} `json:"properties"`
	Counts   checker.Counts    `json:"counts"`
	Recovery *checker.Recovery `json:"recovery"`
	Millis   float64           `json:"millis"`
}

func (e *Entry) readVerdict() error {
	b, err := os.ReadFile(filepath.Join(e.dir, rundir.VerdictFile))
	if err != nil {
		return err
	}
	var v verdictSummary
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("%s: %w", rundir.VerdictFile, err)
	}
	switch v.Verdict {
	case checker.Pass, checker.Fail, checker.Invalid, checker.Unknown:
	default:
		return fmt.Errorf("%s: unknown verdict %q", rundir.VerdictFile, v.Verdict)
	}
	e.State, e.Summary, e.Counts = State(v.Verdict), v.Summary, v.Counts
	if v.Answer != nil { // older results have none
		e.Summary = v.Answer.Sentence()
	}
	e.Checked = milliseconds(v.Millis)
	for _, p := range v.Properties {
		if p.Status == checker.StatusFail {
			e.Failed = append(e.Failed, p.ID)
			e.Violations += p.Count
		}
	}
	if v.Recovery != nil {
		for _, f := range v.Recovery.Faults {
			e.Recovery = max(e.Recovery, milliseconds(f.SlowestMS))
		}
	}
	return nil
}

func readBench(dir, name string, s stamp) *Entry {
	e := &Entry{Name: name, dir: dir, State: Measured}
	b, err := reports.ReadBench(filepath.Join(dir, reports.BenchFile))
	if err != nil {
		e.Problem = e.local(err)
		e.Info.Run = path.Base(name)
		return e
	}
	e.Info = rundir.Info{
		Run: b.Name, About: b.About, Seed: b.Seed, Cluster: b.Cluster, Started: b.Started, Ended: b.Ended,
		Command: b.Command, Versions: b.Versions, Machine: b.Machine,
	}
	e.Arms, e.Problems = len(b.Arms), b.Problems
	if s.has(benchPage) {
		e.Report = benchPage
	}
	return e
}

// local writes an error without the path of the directory, which the page names anyway.
func (e *Entry) local(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = fmt.Errorf("%s: %w", filepath.Base(pe.Path), pe.Err)
	}
	return strings.ReplaceAll(err.Error(), e.dir+string(filepath.Separator), "")
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
