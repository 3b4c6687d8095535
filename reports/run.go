package reports

import (
	"context"
	"fmt"
	"path/filepath"

	"fencepost/harness/record/rundir"
)

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
	if len(r.problems) > 0 {
		return path, &IncompleteError{Dir: dir, Problems: r.problems}
	}
	return path, nil
}
