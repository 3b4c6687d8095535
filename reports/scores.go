package reports

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fencepost/internal/score"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// ReadScores reads a file of kept scores; one that is not there has none. A line that is torn or
// that counts more good trials than trials is an *evidence.LineError.
func ReadScores(file string) (out []score.Score, err error) {
	err = evidence.ReadLines(file, func(line []byte) error {
		var s score.Score
		if err := json.Unmarshal(line, &s); err != nil {
			return fmt.Errorf("torn or edited: %w", err)
		}
		if s.Of < 1 || s.Good < 0 || s.Good > s.Of || s.Kind == "" || s.Name == "" {
			return fmt.Errorf("edited: %d of %d %s %s", s.Good, s.Of, s.Kind, s.Name)
		}
		out = append(out, s)
		return nil
	})
	return out, err
}

// scoresTable is the section of RESULTS.md, nothing without scores.
func scoresTable(md *strings.Builder, scores []score.Score) {
	if len(scores) == 0 {
		return
	}
	md.WriteString("\n## Simulations and mutations\n\nOf a simulation, how many clusters or calendars broke no rule (`make sim`). Of a package, how " +
		"many small mistakes the tests of that commit found (`make mutation`). In brackets the 95 % Wilson interval.\n\n")
	var rows [][]string
	for _, s := range scores {
		rows = append(rows, []string{s.Kind, s.Name, fmt.Sprint(s.Of), fmt.Sprint(s.Good), s.Percent(), s.About,
			measure.FormatDuration(s.Took.Round(time.Second)), s.Versions[evidence.CommitKey]})
	}
	table(md, []string{"Kind", "Subject", "Trials", "Passed", "Share", "Sample", "Time", "fencepost"}, rows)
}
