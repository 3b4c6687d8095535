package evidence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"fencepost/checker"
)

// Store keeps results in a file with a JSON line a run.
type Store struct{ file string }

// Ending is that of a store's file.
const Ending = ".jsonl"

// NewStore returns the store in file, which need not exist yet.
func NewStore(file string) *Store { return &Store{file} }

// File is the store's file.
func (s *Store) File() string { return s.file }

// stored is a result with its line, so that what other builds wrote stays as it is.
type stored struct {
	Result
	environment string // its digest
	line        []byte
}

// All returns every result, sorted by job and attempt. A line that is torn, or no result, or of
// a job and attempt that another has, is a *LineError.
func (s *Store) All() ([]Result, error) {
	have, _, err := s.read()
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, r := range have {
		out = append(out, r.Result)
	}
	return out, nil
}

// read returns the results, sorted, and the lines of environments by their digests.
func (s *Store) read() ([]stored, map[string][]byte, error) {
	var out []stored
	environments, lines := map[string]environment{}, map[string][]byte{}
	seen := map[string]bool{}
	err := ReadLines(s.file, func(text []byte) error {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("torn or edited: %w", err)
		}
		if l.Job == (Job{}) && l.Environment != "" {
			var e environment
			if err := json.Unmarshal(text, &e); err != nil {
				return err
			}
			if digest, _, err := e.line(); err != nil || digest != l.Environment {
				return fmt.Errorf("edited: the environment is %s (%v)", digest, err)
			}
			environments[l.Environment], lines[l.Environment] = e, text
			return nil
		}
		r, err := l.result(environments)
		if err != nil {
			return err
		}
		if seen[r.Name()] {
			return fmt.Errorf("%s is there twice", r.Name())
		}
		seen[r.Name()] = true
		out = append(out, stored{r, l.Environment, text})
		return nil
	})
	slices.SortStableFunc(out, func(a, b stored) int {
		if c := compare(a.Job, b.Job); c != 0 {
			return c
		}
		return a.Attempt - b.Attempt
	})
	return out, lines, err
}

// Put stores r as its job's next attempt, in place of those that it replaces, and returns it as
// it is stored. All other lines stay as they are.
func (s *Store) Put(r Result, replaces ...Result) (Result, error) {
	if err := r.Job.check(); err != nil {
		return r, err
	}
	err := EditLines(s.file, func() ([][]byte, error) {
		have, environments, err := s.read()
		if err != nil {
			return nil, err
		}
		have = slices.DeleteFunc(have, func(h stored) bool {
			return slices.ContainsFunc(replaces, func(o Result) bool { return o.Job == h.Job && o.Attempt == h.Attempt })
		})
		at := 0 // behind the job's others
		r.Version, r.Attempt = Version, 1
		for i, h := range have {
			if compare(h.Job, r.Job) <= 0 {
				at = i + 1
			}
			if h.Job == r.Job {
				r.Attempt = h.Attempt + 1
			}
		}
		line, err := encode(r)
		if err != nil {
			return nil, err
		}
		digest, text, err := environmentOf(r).line()
		environments[digest] = text
		return linesOf(slices.Insert(have, at, stored{r, digest, line}), environments), err
	})
	return r, err
}

// linesOf are the lines of a file: the environments that are used, and the results.
func linesOf(all []stored, environments map[string][]byte) [][]byte {
	used := map[string]bool{}
	var out [][]byte
	for _, r := range all {
		used[r.environment] = true
		out = append(out, r.line)
	}
	var first [][]byte
	for _, digest := range slices.Sorted(maps.Keys(used)) {
		first = append(first, environments[digest])
	}
	return append(first, out...)
}

// check refuses a result that contradicts itself.
func (r Result) check() error {
	switch r.Verdict {
	case checker.Pass, checker.Fail, checker.Invalid, checker.Unknown:
		if r.Check == nil || r.Check.Verdict != r.Verdict {
			return fmt.Errorf("the verdict %s is not that of its check", r.Verdict)
		}
	case Error:
	default:
		return fmt.Errorf("unknown verdict %q", r.Verdict)
	}
	if r.Attempt < 1 {
		return fmt.Errorf("attempt %d", r.Attempt)
	}
	return r.Job.check()
}
