package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fencepost/internal/choice"
	"fencepost/reports/evidence"
)

// ErrNoBench is that of a path that leads to no benchmark.
var ErrNoBench = errors.New("no benchmark")

// OpenBenches reads the benchmarks of a path: a directory with a bench.json, a .json file of
// one, or a .jsonl file of kept ones, all or the one that is named behind #.
func OpenBenches(path string) ([]BenchResult, error) {
	file, name, named := strings.Cut(path, "#")
	if _, err := os.Stat(path); err == nil { // a name may have a #
		file, named = path, false
	}
	at, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no %s: name the directory of a result, such as runs/TIME-bench-high: %w", ErrNoBench, file, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoBench, err)
	}
	if at.IsDir() {
		file = filepath.Join(file, BenchFile)
	}
	if !named && !strings.HasSuffix(file, evidence.Ending) {
		b, err := ReadBench(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: %s has no %s: name the directory of a benchmark that is over", ErrNoBench, path, BenchFile)
		case err != nil:
			return nil, fmt.Errorf("%w: name the %s of a benchmark", err, BenchFile)
		}
		return []BenchResult{b}, nil
	}
	if at.IsDir() || !strings.HasSuffix(file, evidence.Ending) {
		return nil, fmt.Errorf("%w: #%s names one of a %s file, and %s is none", ErrNoBench, name, evidence.Ending, file)
	}
	all, err := ReadBenches(file)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %s has none", ErrNoBench, file)
	}
	if !named {
		return all, nil
	}
	var names []string
	for _, b := range all {
		if b.Name == name {
			return []BenchResult{b}, nil
		}
		names = append(names, b.Name)
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrNoBench, file, choice.Unknown("result", name, names...))
}

// OpenBench reads the only benchmark of such a path.
func OpenBench(path string) (BenchResult, error) {
	all, err := OpenBenches(path)
	switch {
	case err != nil:
		return BenchResult{}, err
	case strings.HasSuffix(path, evidence.Ending):
		var names []string
		for _, b := range all {
			names = append(names, b.Name)
		}
		return BenchResult{}, fmt.Errorf("%s holds results by name: add one, as in %s#NAME; there are: %s", path, path, strings.Join(names, ", "))
	}
	return all[0], nil
}

// BenchDir is a directory for a kept benchmark's page under another, by its name.
func (b BenchResult) BenchDir(under string) (string, error) {
	if b.Name == "" || !filepath.IsLocal(b.Name) || filepath.Base(b.Name) != b.Name {
		return "", fmt.Errorf("the benchmark's name %q cannot be that of a directory", b.Name)
	}
	return filepath.Join(under, b.Name), nil
}
