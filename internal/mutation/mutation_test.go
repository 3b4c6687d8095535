package mutation

import (
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root, toy = "../..", "internal/mutation/testdata/toy"

func mutantsOfToy(t *testing.T) (ids []string, byID map[string]Mutant) {
	t.Helper()
	all, err := Mutants(root, toy)
	if err != nil {
		t.Fatal(err)
	}
	byID = map[string]Mutant{}
	for _, m := range all {
		id := strings.TrimPrefix(m.ID, toy+"/toy.go:")
		ids, byID[id] = append(ids, id), m
	}
	return ids, byID
}

// TestMutants: each operator edits what it is for, and nothing else.
func TestMutants(t *testing.T) {
	t.Parallel()
	ids, byID := mutantsOfToy(t)
	if len(ids) != len(byID) {
		t.Errorf("two mutants have one id: %v", ids)
	}
	want := map[string]string{
		"Half:negate:1":     "if n >= 0 {",
		"Half:boundary:1":   "if n <= 0 {",
		"Half:plus-one:1":   "if n < 1 {",
		"Half:no-error:1":   "return 0, func() error { _ = errNegative; return nil }()",
		"Half:arithmetic:1": "return n * 2, nil",
		"Half:plus-one:2":   "return n / 3, nil",
		"Half:minus-one:1":  "return n / 1, nil",
		"Half:zero:1":       "return n / 0, nil",
		"Larger:negate:1":   "if a <= b {",
		"Larger:boundary:1": "if a >= b {",
		"Wait:negate:1":     "for n >= 9 {",
		"Wait:boundary:1":   "for n <= 9 {",
		"Wait:plus-one:1":   "for n < 10 {",
		"Wait:minus-one:1":  "for n < 8 {",
		"Wait:zero:1":       "for n < 0 {",
		"Wait:arithmetic:1": "n--",
		"Wait:remove:1":     "if false { n++ }",
		"Sign:negate:1":     "case n >= 0:",
		"Sign:boundary:1":   "case n <= 0:",
		"Sign:plus-one:1":   "case n < 1:",
		"Sign:plus-one:2":   "return -3",
		"Sign:minus-one:1":  "return -1",
		"Sign:zero:1":       "return -0",
		"Sign:plus-one:3":   "return 3",
		"Sign:minus-one:2":  "return 1",
		"Sign:zero:2":       "return 0",
		"-:plus-one:1":      "const Least = 2",
		"-:minus-one:1":     "const Least = 0",
	}
	got := map[string]string{}
	for id, m := range byID {
		got[id] = m.Is
	}
	if !maps.Equal(got, want) {
		t.Errorf("mutants %v, want %v", got, want)
	}
}

// TestToy: tests kill a mutant that they notice and one that never ends; they let pass what
// they do not look at, or do not reach, and what cannot be seen. What does not compile, or its tests do not,
// does not count.
func TestToy(t *testing.T) {
	t.Parallel()
	_, byID := mutantsOfToy(t)
	j, err := NewJudge(t.Context(), root, toy, []Step{{Dir: toy}}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var some []Mutant
	for _, id := range []string{"Half:boundary:1", "Half:no-error:1", "Half:zero:1", "Larger:boundary:1", "Wait:remove:1", "Wait:plus-one:1", "-:minus-one:1", "Sign:negate:1", "Sign:zero:1"} {
		some = append(some, byID[id])
	}
	var out strings.Builder
	equal := Equivalents{toy + "/toy.go:Larger:boundary:1": {}}
	score, err := Sample(t.Context(), &out, j, some, equal, len(some), 1)
	if want := (Score{Killed: 4, Survived: 2, Equivalent: 1, NotCompiled: 2}); score != want || err != nil {
		t.Errorf("%s, %v, want %s\n%s", score, err, want, &out)
	}
	for _, line := range []string{"Half:boundary:1  line 10, by TestHalf", "Wait:remove:1  line 27, by limit",
		"Wait:plus-one:1  line 26\n- for n < 9 {\n+ for n < 10 {",
		"Sign:negate:1  line 34, by TestSign", "Sign:zero:1  line 35, reached by no test\n- return -2\n+ return -0"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
	killed := Equivalents{toy + "/toy.go:Half:boundary:1": {}}
	if _, err := Sample(t.Context(), io.Discard, j, some[:1], killed, 1, 1); err == nil {
		t.Error("a mutant that is listed as equivalent was killed, and that is no error")
	}
}

// TestIdle: a process that waits for ever is ended, one that works is not.
func TestIdle(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]bool{"exec sleep 60": true, "while :; do :; done": false} {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		idle := false
		cancelIdle(ctx, cmd.Process.Pid, 3*time.Second, func() { idle = true })
		cancel()
		_ = cmd.Wait()
		if idle != want {
			t.Errorf("%q is taken for idle: %v", script, idle)
		}
	}
}

// TestTestsThatFail: tests that are red by themselves judge nothing.
func TestTestsThatFail(t *testing.T) {
	t.Parallel()
	for what, s := range map[string]Step{
		"fail":         {Dir: toy, Args: []string{"-test.timeout=1ns", "-test.count=100000"}}, // long enough for the timer
		"do not exist": {Dir: toy, Run: "^TestQuarter$"},
		"are skipped":  {Dir: toy, Skip: "."},
	} {
		if _, err := NewJudge(t.Context(), root, toy, []Step{s}, 2*time.Second); err == nil {
			t.Errorf("tests that %s judge mutants", what)
		}
	}
}

// TestSampleIsDrawn: a seed draws the same mutants again, another one others.
func TestSampleIsDrawn(t *testing.T) {
	t.Parallel()
	all, err := Mutants(root, toy)
	if err != nil {
		t.Fatal(err)
	}
	first := func(seed uint64) (ids []string) {
		for _, m := range shuffled(all, seed)[:5] {
			ids = append(ids, m.ID)
		}
		return ids
	}
	if a, b := first(1), first(1); !slices.Equal(a, b) {
		t.Errorf("seed 1 draws %v, then %v", a, b)
	}
	if a, b := first(1), first(2); slices.Equal(a, b) {
		t.Errorf("seeds 1 and 2 both draw %v", a)
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Score{
		"95 killed, 5 survived: 95.0 % (95 % interval 88.8 to 97.8); 2 equivalent, 3 did not compile":   {95, 5, 2, 3},
		"20 killed, 0 survived: 100.0 % (95 % interval 83.9 to 100.0); 0 equivalent, 0 did not compile": {20, 0, 0, 0},
	} {
		if s.String() != want {
			t.Errorf("%s, want %s", s, want)
		}
	}
}

// TestEquivalents: each entry is about a mutant of today's code.
func TestEquivalents(t *testing.T) {
	t.Parallel()
	listed, err := Listed()
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]bool{}
	for id := range listed {
		file, _, _ := strings.Cut(id, ":")
		dirs[filepath.Dir(file)] = true
	}
	for dir := range dirs {
		all, err := Mutants(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := listed.Check(dir, all); err != nil {
			t.Error(err)
		}
	}
}

func TestEquivalentsThatAreRefused(t *testing.T) {
	t.Parallel()
	all, err := Mutants(root, toy)
	if err != nil {
		t.Fatal(err)
	}
	const id = toy + "/toy.go:Larger:boundary:1"
	for text, wrong := range map[string]bool{
		id + "\n- if a > b {\n+ if a >= b {\nthe two\nare equal":            false,
		id + "\n- if a > b {\n+ if a >= b {\n":                              true, // no reason
		id + "\n- if a < b {\n+ if a >= b {\nthe two are equal":             true, // another line
		toy + "/toy.go:Larger:boundary:2\n- if a > b {\n+ if a >= b {\nwhy": true, // no such mutant
	} {
		listed, err := parseEquivalents("# about\n\n" + text + "\n")
		if err == nil {
			err = listed.Check(toy, all)
		}
		if (err != nil) != wrong {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSubsets: the tests that they name exist.
func TestSubsets(t *testing.T) {
	t.Parallel()
	for dir, steps := range Subsets {
		for _, s := range steps {
			if found, _ := filepath.Glob(filepath.Join(root, s.Dir, "*_test.go")); len(found) == 0 {
				t.Errorf("%s is judged by %s, which has no tests", dir, s.Dir)
			}
		}
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			t.Error(err)
		}
	}
}
