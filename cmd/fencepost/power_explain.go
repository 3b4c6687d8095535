package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// explainPower explains the kept red runs of the variants and compares.
func explainPower(out io.Writer, mine []system.System, runs string) error {
	dirs, err := filepath.Glob(filepath.Join(runs, "*", rundir.InfoFile))
	if err != nil {
		return err
	}
	slices.Sort(dirs)
	var all []reports.ExplainedRun
	for _, file := range dirs {
		dir := filepath.Dir(file)
		if st, err := os.Lstat(dir); err != nil || st.Mode()&fs.ModeSymlink != 0 {
			continue // runs/latest is another name of one of the others
		}
		r, err := explainedRun(dir, mine)
		if err != nil {
			return err
		}
		if r != nil {
			all = append(all, *r)
		}
	}
	rows := reports.Explained(mine, all)
	reports.PrintExplained(out, rows)
	switch share, variants := reports.NamedShare(rows); {
	case variants == 0:
		return fmt.Errorf("%s has no run of a known-broken variant that is red as it must be: make some with fencepost power", runs)
	case share < reports.MinNamed:
		return exitWith(1)
	}
	return nil
}

// explainedRun explains one run; nil if it is none of a variant, or PASS, or was not
// checked.
func explainedRun(dir string, mine []system.System) (*reports.ExplainedRun, error) {
	info, err := rundir.ReadInfo(dir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(mine, func(s system.System) bool { return s.Name == info.System })
	if i < 0 || info.Scenario != mine[i].Red.Scenario {
		return nil, nil
	}
	var res checker.Result
	switch err := rundir.ReadJSON(filepath.Join(dir, rundir.VerdictFile), &res); {
	case errors.Is(err, fs.ErrNotExist), err == nil && res.Verdict == checker.Pass:
		return nil, nil
	case err != nil:
		return nil, err
	}
	e, err := explain(dir)
	if err != nil {
		return nil, err
	}
	killed := reports.Killed(mine[i], evidence.Result{Verdict: res.Verdict, Check: &res})
	return &reports.ExplainedRun{System: info.System, Run: info.Run, Killed: killed, Best: e.Best()}, nil
}
