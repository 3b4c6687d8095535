// Package score keeps what trials by the thousand showed: simulated clusters, mutants. Tests
// count, and append a line to a file; RESULTS.md has the lines.
package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// Share is how many of so many trials were as they must be.
type Share struct {
	Good int `json:"good"`
	Of   int `json:"of"`
}

// Interval is the 95 % Wilson interval of the share, from 0 to 1.
func (s Share) Interval() (low, high float64) {
	if s.Of == 0 {
		return 0, 1
	}
	const z = 1.959964
	n := float64(s.Of)
	p := float64(s.Good) / n
	centre, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, (centre-half)/(1+z*z/n)), min(1, (centre+half)/(1+z*z/n))
}

// Percent is the share with its interval, such as "98.3 % (96.2 to 99.3)".
func (s Share) Percent() string {
	low, high := s.Interval()
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*float64(s.Good)/float64(max(s.Of, 1)), 100*low, 100*high)
}

// Kinds of trials.
const (
	Simulation = "simulation" // of a cluster: as it must be if no rule is broken
	Mutation   = "mutation"   // of a package: as it must be if its tests find the mistake
)

// Score is what the trials of one kind showed.
type Score struct {
	Kind string `json:"kind"`
	Name string `json:"name"` // "clusters", "core/lock"
	Share
	// About is what the numbers do not tell.
	About string        `json:"about,omitempty"`
	Took  time.Duration `json:"took_ns"`
	Ended time.Time     `json:"ended"`
	// Versions have the commit and the digest of the code, by the keys of a run's.
	Versions map[string]string `json:"versions"`
}

// Made are the versions of code that is named as "COMMIT DIGEST", as the Makefile does.
func Made(by string) (map[string]string, error) {
	commit, tree, ok := strings.Cut(by, " ")
	if !ok || commit == "" || tree == "" {
		return nil, fmt.Errorf("%q does not name a commit and a digest: run it by make, with SCORES=FILE", by)
	}
	return map[string]string{"fencepost": commit, "tree": tree}, nil
}

// Append adds a line to a file, which need not exist. Without a trial there is no score.
func (s Score) Append(file string) error {
	if s.Of < 1 {
		return fmt.Errorf("%s %s: no trial, no score", s.Kind, s.Name)
	}
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
