package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// ReadRunResult is what is kept of a chaos run, by its directory. It must have been checked and
// reported.
func ReadRunResult(dir string) (evidence.Result, error) {
	var r evidence.Result
	info, err := rundir.ReadInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s: %w", dir, ErrNoRun)
	}
	if err != nil {
		return r, err
	}
	var verdict checker.Result
	if err := rundir.ReadJSON(filepath.Join(dir, rundir.VerdictFile), &verdict); err != nil {
		return r, fmt.Errorf("keep %s (check it first: fencepost check %s): %w", info.Run, dir, err)
	}
	var report Report
	if err := rundir.ReadJSON(filepath.Join(dir, JSONFile), &report); err != nil {
		return r, fmt.Errorf("keep %s (report it first: fencepost report %s): %w", info.Run, dir, err)
	}
	r = evidence.Result{
		Job:     evidence.Job{Scenario: info.Scenario, Contention: info.Contention, Seed: info.Seed, System: info.System},
		Verdict: verdict.Verdict, Check: evidence.Condense(verdict), Info: info, Took: info.Ended.Sub(info.Started),
	}
	report.AddTo(&r)
	return r, nil
}

// AddTo adds a report's numbers to the result of its run, which was checked.
func (rep Report) AddTo(r *evidence.Result) {
	for _, t := range rep.Takeovers {
		if t.TTLMS > 0 {
			r.Orphan = max(r.Orphan, t.IdleMS/t.TTLMS)
		}
	}
	if before, during, ok := (&measure.Analysis{Latencies: rep.Latencies}).Headline(); ok && r.Check.Cold == "" {
		r.P99Before, r.P99During = before.P99, during.P99
	}
}

// ReadBenches reads the benchmarks that are kept in a file, a line each.
func ReadBenches(file string) ([]BenchResult, error) {
	var out []BenchResult
	err := evidence.ReadLines(file, func(line []byte) error {
		b, err := decodeBench(line)
		out = append(out, b)
		return err
	})
	return out, err
}

// KeepBench writes a benchmark to such a file, in place of one with its name.
func KeepBench(file string, b BenchResult) error {
	return evidence.EditLines(file, func() ([][]byte, error) {
		line, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		var out [][]byte
		err = evidence.ReadLines(file, func(old []byte) error {
			o, err := decodeBench(old)
			if o.Name != b.Name {
				out = append(out, old)
			}
			return err
		})
		return append(out, line), err
	})
}
