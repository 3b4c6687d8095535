package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports/measure"
)

// IncompleteError says that a report was written though files of the run could
// not be read. The same problems stand at the top of the page.
type IncompleteError struct {
	Dir      string
	Problems []string
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("the report of %s is incomplete: %s", e.Dir, strings.Join(e.Problems, "; "))
}

// ErrNoRun says that a directory holds neither a run.json nor a history.
var ErrNoRun = errors.New("not a run's directory (neither run.json nor history/*.jsonl is there)")

// run is what a run's directory holds. What could not be read is zero and named
// in Problems. What is exported the page's template asks for.
type run struct {
	dir      string
	Info     rundir.Info
	haveInfo bool
	Verdict  *checker.Result // nil: not checked
	history  *history.History
	expect   history.Expect
	Analysis *measure.Analysis
	Problems []string

	explanation *checker.Explanation // nil: PASS, not checked, or no history
}

// loadRun reads a run's directory.
func loadRun(dir string) (*run, error) {
	r := &run{dir: dir}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%s is a file; a report is made of a run's directory", dir)
	}
	infoErr := r.loadInfo()
	histErr := r.loadHistory()
	if errors.Is(infoErr, fs.ErrNotExist) && r.history == nil && noHistory(dir) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoRun)
	}
	for _, err := range []error{infoErr, r.loadVerdict(), histErr, r.explain()} {
		if err != nil {
			r.Problems = append(r.Problems, strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
		}
	}
	return r, nil
}

func noHistory(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, rundir.HistoryDir, "*.jsonl"))
	return len(files) == 0
}

func (r *run) loadInfo() error {
	info, err := rundir.ReadInfo(r.dir)
	if err != nil {
		r.Info.Run = filepath.Base(r.dir)
		return fmt.Errorf("what was run is not known: %w", err)
	}
	r.Info, r.haveInfo = info, true
	return nil
}

// loadVerdict: a run without verdict.json is not checked, which is no problem of
// the report's.
func (r *run) loadVerdict() error {
	b, err := os.ReadFile(filepath.Join(r.dir, rundir.VerdictFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var v checker.Result
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return fmt.Errorf("the verdict cannot be read (check the run again): %s: %w", rundir.VerdictFile, err)
	}
	r.Verdict = &v
	return nil
}

func (r *run) loadHistory() error {
	h, err := history.ReadDir(filepath.Join(r.dir, rundir.HistoryDir))
	if err != nil {
		r.Analysis = &measure.Analysis{}
		return fmt.Errorf("no numbers and no drawings, because the history cannot be read: %w", err)
	}
	a, err := measure.Analyze(h)
	if err != nil {
		r.Analysis = &measure.Analysis{}
		return fmt.Errorf("no numbers and no drawings: %w", err)
	}
	r.history, r.Analysis = h, a
	for _, e := range h.Events {
		if e.Op == history.NoteExpect && e.Expect() != nil {
			r.expect = *e.Expect()
		}
	}
	return nil
}

// counts are the checker's, or for a run that was not checked those that can be
// counted without judging.
func (r *run) counts() checker.Counts {
	if r.Verdict != nil {
		return r.Verdict.Counts
	}
	var c checker.Counts
	if r.history == nil {
		return c
	}
	c.Events, c.Operations, c.Torn, c.Takeovers = len(r.history.Events), len(r.Analysis.Ops), r.history.Torn, len(r.Analysis.Takeovers)
	for _, op := range r.Analysis.Ops {
		switch {
		case op.Outcome == history.Unknown:
			c.Unknowns++
		case op.Outcome == history.OK && op.Invoke.Op == history.OpRelease:
			c.Cycles++
		case op.End.Result == "stale":
			c.StaleRefused++
		}
	}
	for _, e := range r.history.Events {
		if e.Op == history.NoteLeaseLost {
			c.LeasesLost++
		}
	}
	for _, f := range r.Analysis.Faults {
		c.Faults++
		if f.Proven {
			c.FaultsProven++
		}
	}
	return c
}

// relative turns a history file's path, however the checker wrote it, into one
// relative to the run's directory, with forward slashes.
func relative(file string) string {
	if file == "" {
		return ""
	}
	return rundir.HistoryDir + "/" + filepath.Base(filepath.FromSlash(file))
}

// WriteRun makes the report of a run's directory from its files alone:
// report.html, whose path it returns, and beside it plots/*.svg, operations.csv,
// latency.csv, timeline.csv and report.json. What an earlier report left is
// replaced.
//
// Without verdict.json the page says that the run is not checked. If a file of
// the run is missing or cannot be read, the page is written all the same, says so
// at its top, and the error is an *IncompleteError beside a valid path. Any other
// error means that there is no page; ErrNoRun that dir is not a run's.
func WriteRun(ctx context.Context, dir string) (path string, err error) {
	r, err := loadRun(dir)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := r.writeAll(); err != nil {
		return "", fmt.Errorf("write the report's files: %w", err)
	}
	p := r.page()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	b, err := render("run.html", p)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, rundir.ReportFile)
	if err := writeFile(path, b); err != nil {
		return "", err
	}
	if len(r.Problems) > 0 {
		return path, &IncompleteError{Dir: dir, Problems: r.Problems}
	}
	return path, nil
}
