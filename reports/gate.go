package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
)

// GateRun is a run as CI output shows it.
type GateRun struct {
	Name string // the run's or, if it has no directory, what was to be run
	// Result is the verdict; nil if there is none, and Err says why.
	Result *checker.Result
	Err    string
	// Report holds the numbers of the run's page; nil if it has none.
	Report *Report
	Info   rundir.Info
	Page   string // path of the page, "" without one
}

// ReadGateRun makes a GateRun of a run's directory and its verdict. A run without
// a report has no numbers; one whose report cannot be read is an error.
func ReadGateRun(dir string, res *checker.Result) (GateRun, error) {
	g := GateRun{Name: filepath.Base(dir), Result: res}
	path := filepath.Join(dir, JSONFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The history is checked first; its page may not have been made.
		info, err := rundir.ReadInfo(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return g, err
		}
		g.Info = info
		return g, nil
	case err != nil:
		return g, err
	}
	var rep Report
	if err := json.Unmarshal(b, &rep); err != nil {
		return g, fmt.Errorf("%s: %w", path, err)
	}
	g.Report, g.Info, g.Page = &rep, rep.Info, filepath.Join(dir, rundir.ReportFile)
	return g, nil
}

// word is the verdict, or that there is none.
func (g GateRun) word() string {
	if g.Result == nil {
		return "NOT CARRIED OUT"
	}
	return string(g.Result.Verdict)
}

// answer is what the run's outcome means. A run that was not carried out lacks what its error
// names.
func (g GateRun) answer() checker.Answer {
	if g.Result == nil {
		first, _, _ := strings.Cut(g.Err, "\n")
		return checker.Answer{What: "the run was not carried out, or not checked: " + strings.TrimRight(first, ":. "), Do: "mend that and run it again (fencepost doctor says what this machine lacks)"}
	}
	var e *checker.Explanation
	if g.Report != nil {
		e = g.Report.Explanation
	}
	return checker.Told(g.Result, e)
}

// setting is what tells a run from others of its scenario.
func (g GateRun) setting() string {
	i := g.Info
	if i.Scenario == "" {
		return ""
	}
	parts := []string{i.Scenario}
	if i.Contention != "" {
		parts = append(parts, i.Contention+" contention")
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", i.Seed), "system "+i.SystemText()), ", ")
}

// fired lists the properties that are not well.
func (g GateRun) fired() []string {
	var out []string
	if g.Result == nil {
		return nil
	}
	for _, p := range g.Result.Properties {
		if p.Status == checker.StatusFail || p.Status == checker.StatusInvalid || p.Status == checker.StatusUnknown {
			out = append(out, p.ID)
		}
	}
	return out
}
