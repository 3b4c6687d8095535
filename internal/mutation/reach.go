package mutation

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// unit is one test of a step, with the blocks of the package that it runs.
type unit struct {
	name  string
	cpu   time.Duration
	files map[string][]block // by base name
}

// block is one of those that go tool cover counts. They nest where a function literal is in one.
type block struct {
	from, to place
	ran      bool
}

type place struct{ line, column int }

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// reaches reports whether the test runs what the mutant edits. Cases of a switch are in no block:
// there the test has to run any part of the function. What is in no function always counts.
func (u unit) reaches(m Mutant) bool {
	at, inner, within := place{m.Line, m.Column}, block{}, false
	for _, b := range u.files[filepath.Base(m.file)] {
		if !at.before(b.from) && at.before(b.to) && !b.from.before(inner.from) {
			inner = b
		}
		within = within || b.ran && !b.from.before(m.from) && !m.to.before(b.to)
	}
	switch {
	case m.to == place{}:
		return true
	case inner.to == place{}:
		return within
	}
	return inner.ran
}

// units runs each test of a step alone, on the package as it is.
func (j *Judge) units(ctx context.Context, s Step, binary string) ([]unit, error) {
	list := exec.CommandContext(ctx, binary, "-test.list", cmp.Or(s.Run, "."))
	list.Dir = filepath.Join(j.Root, s.Dir)
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%s -test.list: %w", s.Dir, err)
	}
	skip, err := regexp.Compile(s.Skip)
	if err != nil {
		return nil, err
	}
	var all []unit
	for name := range strings.FieldsSeq(string(names)) {
		if s.Skip != "" && skip.MatchString(name) || !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
			continue
		}
		profile := filepath.Join(j.dir, "profile")
		by, cpu, err := j.run(ctx, binary, s, []string{name}, j.Limit/2, "-test.coverprofile="+profile)
		if err == nil && by != "" {
			err = fmt.Errorf("the package fails without a mutant: %s", by)
		}
		if err != nil {
			return nil, err
		}
		u := unit{name: name, cpu: cpu}
		if u.files, err = blocks(profile); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no tests to run", s)
	}
	slices.SortStableFunc(all, func(a, b unit) int { return int(a.cpu - b.cpu) })
	return all, nil
}

func blocks(profile string) (map[string][]block, error) {
	f, err := os.Open(profile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string][]block{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		file, text, _ := strings.Cut(filepath.Base(lines.Text()), ":")
		if file == "mode" {
			continue
		}
		var b block
		var statements, count int
		if _, err := fmt.Sscanf(text, "%d.%d,%d.%d %d %d", &b.from.line, &b.from.column, &b.to.line, &b.to.column, &statements, &count); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", profile, lines.Text(), err)
		}
		b.ran = count > 0
		all[file] = append(all[file], b)
	}
	return all, lines.Err()
}

// short is what a test may use to be run together with others.
const short = time.Second / 2

// batches are the tests that reach a mutant, in the order in which they are run: those that are
// short together, then each of the others. None needs more than half of the limit.
func (j *Judge) batches(all []unit, m Mutant) (groups [][]unit) {
	var sum time.Duration
	for _, u := range all {
		if !u.reaches(m) {
			continue
		}
		if len(groups) == 0 || u.cpu > short || sum+u.cpu > j.Limit/2 {
			groups, sum = append(groups, nil), 0
		}
		last := len(groups) - 1
		groups[last], sum = append(groups[last], u), sum+u.cpu
	}
	return groups
}
