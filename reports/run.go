package reports

import "context"

// WriteRun makes the report of a run's directory from its files alone.
func WriteRun(ctx context.Context, runDir string) (path string, err error) { return "", ctx.Err() }

// WriteBench writes bench.html, bench.csv and bench.json to dir.
func WriteBench(dir string, b BenchResult) error { return nil }

// Results returns RESULTS.md over runs and benchmarks.
func Results(runDirs, benchFiles []string) (string, error) { return "", nil }
