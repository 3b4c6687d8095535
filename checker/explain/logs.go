package explain

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// LogLine is a line of a process's log.
type LogLine struct {
	File string  `json:"file"` // relative to the run's directory
	Line int     `json:"line"`
	At   float64 `json:"at_s"` // seconds of the run
	Text string  `json:"text"`
}

// Bounds of what is quoted of the logs.
const (
	logSpan    = 2 * time.Second // before and after the mistake
	MaxLogLine = 300             // bytes
	MaxLogs    = 12              // lines a cause
)

// AddLogs adds to each cause what the processes' logs say around its mistake: of the
// workers that took part everything, of the database's nodes warnings and errors. It
// needs the history to date the lines. A run without logs has none; a log that cannot
// be read is an error.
func (e *Explanation) AddLogs(dir string, h *history.History) error {
	files, err := filepath.Glob(filepath.Join(dir, rundir.LogDir, "*.log"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	a := past.Dated(h)
	start := property.RunStart(h)
	for c := range past.Each(e.Causes) {
		at := time.UnixMilli(a.WallAt(c.At))
		if c.At == 0 || a.WallAt(c.At) == 0 {
			continue
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".log")
			worker := past.IsWorker(history.Worker(name))
			if worker && !slices.Contains(c.Procs, name) {
				continue
			}
			lines, err := linesAround(file, at, !worker)
			if err != nil {
				return fmt.Errorf("log %s: %w", file, err)
			}
			for _, l := range lines {
				l.File = rundir.LogDir + "/" + filepath.Base(file)
				l.At += float64(c.At-start) / 1e9
				c.Logs = append(c.Logs, l)
			}
		}
		slices.SortStableFunc(c.Logs, func(x, y LogLine) int { return cmp.Compare(x.At, y.At) })
		if len(c.Logs) > MaxLogs { // the nearest
			slices.SortStableFunc(c.Logs, func(x, y LogLine) int {
				mid := float64(c.At-start) / 1e9
				return cmp.Compare(max(x.At-mid, mid-x.At), max(y.At-mid, mid-y.At))
			})
			c.Logs = c.Logs[:MaxLogs]
			slices.SortStableFunc(c.Logs, func(x, y LogLine) int { return cmp.Compare(x.At, y.At) })
		}
	}
	return nil
}

// dated finds a line's date: RFC 3339 of the workers, or the database's, which is in UTC.
var dated = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d+(Z|[+-]\d\d:\d\d)?`)

// linesAround are the lines of a log near an instant, with their distance from it in At.
// Lines without a date belong to the one before.
func linesAround(file string, at time.Time, warningsOnly bool) ([]LogLine, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []LogLine
	s := bufio.NewScanner(f)
	s.Buffer(nil, 4<<20)
	for n := 1; s.Scan(); n++ {
		text := s.Text()
		when, ok := date(text)
		if d := when.Sub(at); !ok || d < -logSpan || d > logSpan {
			continue
		}
		if warningsOnly && !strings.HasPrefix(text, "WARN") && !strings.HasPrefix(text, "ERROR") {
			continue
		}
		if len(text) > MaxLogLine {
			text = strings.ToValidUTF8(text[:MaxLogLine], "") + " …"
		}
		out = append(out, LogLine{Line: n, At: when.Sub(at).Seconds(), Text: text})
	}
	return out, s.Err()
}

func date(line string) (time.Time, bool) {
	m := dated.FindString(line)
	if m == "" {
		return time.Time{}, false
	}
	m = strings.Replace(m, ",", ".", 1)
	if last := m[len(m)-1]; last != 'Z' && !strings.ContainsAny(m[19:], "+-") {
		m += "Z"
	}
	t, err := time.Parse(time.RFC3339Nano, m)
	return t, err == nil
}
