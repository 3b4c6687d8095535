package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/internal/score"
	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// aTree is the digest of the tool of these tests.
const aTree = "00112233445566aa"

var madeBy = map[string]string{evidence.CommitKey: "0123456789ab", evidence.TreeKey: aTree}

// chaosRun writes the files of a checked and reported run that is FAIL.
func chaosRun(t *testing.T, name string) string {
	return chaosRunBy(t, name, checker.Fail, madeBy)
}

func chaosRunBy(t *testing.T, name string, verdict checker.Verdict, versions map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(file string, v any) {
		if err := rundir.WriteJSON(filepath.Join(dir, file), v); err != nil {
			t.Fatal(err)
		}
	}
	write(rundir.InfoFile, rundir.Info{
		Run: name, Scenario: "steady", System: "core", Contention: "high", Seed: 5, TTL: 6 * time.Second,
		Command: "make chaos SCENARIO=steady SEED=5", Versions: versions,
	})
	write(rundir.VerdictFile, checker.Result{Version: 1, Run: name, Verdict: verdict, Properties: []checker.Property{{
		ID: "P1", Status: checker.StatusFail, Count: 2, Visualization: "porcupine-x.html",
		Violations: []checker.Violation{{Message: "first"}, {Message: "second"}},
	}}})
	write(reports.JSONFile, reports.Report{
		Version: 1, Latencies: []measure.Latency{{Op: history.OpLock, Phase: "before", OK: 5, P99: time.Millisecond}},
		Takeovers: []reports.ReportTakeover{{Lock: "a"}},
	})
	return dir
}

func benchRun(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	b := reports.BenchResult{Version: reports.BenchVersion, Name: name, Versions: madeBy, Arms: []reports.BenchArm{{ID: "C/1", Scenario: "bare LWT", Contention: "low", Threads: 1,
		Rounds: []reports.BenchRound{{Round: 1, Seconds: 2, OK: 10}}}}}
	if err := rundir.WriteJSON(filepath.Join(dir, reports.BenchFile), b); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestResultsKeepAndWriteAgain(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	f := resultsFlags{dir: filepath.Join(home, "results"), file: filepath.Join(home, "RESULTS.md"), tree: aTree}
	var out bytes.Buffer
	var notes *reports.NotesError
	if err := f.run(&out, []string{chaosRun(t, "run-a"), benchRun(t, "bench-a")}); !errors.As(err, &notes) || !slices.Equal(notes.Missing, []string{"chaos/run-a"}) {
		t.Fatalf("a FAIL without a note: %v", err)
	}
	note(t, f, "- {result: chaos/run-a, cause: a mistake that is no more, mended: 0123456}\n")
	if err := f.run(&out, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "1 runs, 1 benchmarks") {
		t.Errorf("it says %q", out.String())
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"run-a", "bench-a", "1 FAIL", "0123456789ab", "Of the tree `" + aTree + "`", "a mistake that is no more"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lacks %q:\n%s", want, text)
		}
	}
	kept, err := f.store(reports.KeptChaos).All()
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	if p := kept[0].Check.Properties[0]; len(p.Violations) != 1 || p.Count != 2 || p.Visualization != "" {
		t.Errorf("the kept verdict is not condensed: %+v", p)
	}

	// From the kept files alone it is the same text again.
	f.check = true
	if err := f.run(&out, nil); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(f.file, append(text, "edited\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.run(&out, nil); err == nil {
		t.Error("--check accepted a file that was edited")
	}
	if err := os.Remove(f.file); err != nil {
		t.Fatal(err)
	}
	if err := f.run(&out, nil); err == nil {
		t.Error("--check accepted a missing file")
	}
}

func TestResultsRefuse(t *testing.T) {
	t.Parallel()
	unchecked := chaosRun(t, "unchecked")
	if err := os.Remove(filepath.Join(unchecked, rundir.VerdictFile)); err != nil {
		t.Fatal(err)
	}
	cut := chaosRunBy(t, "cut", checker.Pass, madeBy)
	info, err := rundir.ReadInfo(cut)
	if err != nil {
		t.Fatal(err)
	}
	info.Interrupted = "stopped by a signal"
	if err := rundir.WriteJSON(filepath.Join(cut, rundir.InfoFile), info); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, want string
		usage           bool
	}{
		{"interrupted", cut, "cut was interrupted (stopped by a signal)", true},
		{"nothing there", filepath.Join(t.TempDir(), "gone"), "no such file", true},
		{"an empty directory", t.TempDir(), "neither a chaos run", true},
		{"not checked", unchecked, "check it first", false},
		{"no name", benchRun(t, ""), "has no name", false},
		{"a changed work tree", chaosRunBy(t, "a", checker.Pass, map[string]string{evidence.CommitKey: "0123456789ab-dirty", evidence.TreeKey: aTree}), "made by a changed work tree (0123456789ab-dirty)", false},
		{"no commit", chaosRunBy(t, "a", checker.Pass, map[string]string{evidence.CommitKey: "unknown"}), "nothing is known", false},
		{"nothing of its maker", chaosRunBy(t, "a", checker.Pass, nil), "nothing is known", false},
	} {
		home := t.TempDir()
		f := resultsFlags{dir: filepath.Join(home, "results"), file: filepath.Join(home, "RESULTS.md"), tree: aTree}
		err := f.run(&bytes.Buffer{}, []string{c.dir})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		var ee *exitError
		if usage := errors.As(err, &ee) && ee.code == exitUsage; usage != c.usage {
			t.Errorf("%s: a usage error: %v, want %v", c.name, usage, c.usage)
		}
		if _, err := os.Stat(f.file); err == nil {
			t.Errorf("%s: the file was written", c.name)
		}
	}
}

// note writes the notes.
func note(t *testing.T, f resultsFlags, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, evidence.NotesFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// keepStored keeps a result of a set.
func keepStored(t *testing.T, f resultsFlags, seed uint64, v checker.Verdict, versions map[string]string) {
	t.Helper()
	r := evidence.Result{
		Job: evidence.Job{Scenario: "steady", Contention: "medium", Seed: seed, System: "core"}, Verdict: v, Check: &checker.Result{Verdict: v},
		Info: rundir.Info{Run: "r", Versions: versions},
	}
	if _, err := evidence.NewStore(filepath.Join(f.dir, reports.KeptEvidence, "smoke"+evidence.Ending)).Put(r); err != nil {
		t.Fatal(err)
	}
}

// TestResultsOfTrees: today's come first, and a check goes by the tree that the file names.
func TestResultsOfTrees(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	f := resultsFlags{dir: filepath.Join(home, "results"), file: filepath.Join(home, "RESULTS.md"), tree: aTree}
	older := map[string]string{evidence.CommitKey: "ba9876543210", evidence.TreeKey: "ffeeddccbbaa9988"}
	keepStored(t, f, 1, checker.Pass, madeBy)
	keepStored(t, f, 2, checker.Pass, older)
	keepStored(t, f, 3, checker.Pass, map[string]string{evidence.CommitKey: "5432"}) // older than digests
	var out bytes.Buffer
	read := func() (today, before string) {
		t.Helper()
		text, err := os.ReadFile(f.file)
		if err != nil {
			t.Fatal(err)
		}
		today, before, _ = strings.Cut(string(text), "\n# Older results\n")
		return today, before
	}
	if err := f.run(&out, nil); err != nil {
		t.Fatal(err)
	}
	today, before := read()
	if !strings.Contains(today, "1 run of 1 scenario") || strings.Contains(today, "ba9876543210") || !strings.Contains(before, "2 runs of 1 scenario") || !strings.Contains(before, "Commits: 5432, ba9876543210") {
		t.Errorf("today's:\n%s\nolder:\n%s", today, before)
	}
	// Other code does not make the file wrong: it says of what tree it is.
	f.check, f.tree = true, "1111111111111111"
	out.Reset()
	if err := f.run(&out, nil); err != nil || !strings.Contains(out.String(), "is of the tree "+aTree) {
		t.Errorf("%v: %s", err, &out)
	}
	f.tree = unknownBuild // as go run has it
	if err := f.run(&out, nil); err != nil {
		t.Error(err)
	}
	f.check = false
	if err := f.run(&out, nil); err == nil || !strings.Contains(err.Error(), "does not know what it was built from") {
		t.Errorf("written by a tool that does not know itself: %v", err)
	}
	f.tree = "1111111111111111"
	if err := f.run(&out, nil); err != nil {
		t.Fatal(err)
	}
	if today, before = read(); strings.Contains(today, "## Evidence") || !strings.Contains(before, "3 runs of 1 scenario") {
		t.Errorf("today's:\n%s\nolder:\n%s", today, before)
	}
}

// TestResultsNotes: what is kept and did not end as it should has a note, and nothing else.
func TestResultsNotes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, notes, want string
	}{
		{"all", "- {result: evidence/smoke/steady-medium-2, cause: a mistake, mended: 0123456}\n- {result: evidence/smoke/steady-medium-3, cause: not known}\n", ""},
		{"one is missing", "- {result: evidence/smoke/steady-medium-3, cause: not known}\n", "no note says why these did not end as they should: evidence/smoke/steady-medium-2"},
		{"of a PASS", "- {result: evidence/smoke/steady-medium-1, cause: x}\n- {result: evidence/smoke/steady-medium-2, cause: x}\n- {result: evidence/smoke/steady-medium-3, cause: x}\n",
			"notes of no such run: evidence/smoke/steady-medium-1"},
		{"twice", "- {result: a, cause: x}\n- {result: a, cause: x}\n", `the result "a" is not named, or twice`},
		{"no cause", "- {result: a, mended: 0123456}\n", "a: missing cause"},
		{"no commit", "- {result: a, cause: x, mended: later}\n", `"later" is not a commit`},
		{"misspelt", "- {result: a, couse: x}\n", "couse"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			f := resultsFlags{dir: filepath.Join(home, "results"), file: filepath.Join(home, "RESULTS.md"), tree: aTree}
			keepStored(t, f, 1, checker.Pass, madeBy)
			keepStored(t, f, 2, checker.Fail, madeBy)
			// What is red is kept whatever made it.
			keepStored(t, f, 3, checker.Invalid, map[string]string{evidence.CommitKey: "0123456789ab-dirty"})
			note(t, f, c.notes)
			err := f.run(&bytes.Buffer{}, nil)
			f.check = true
			if e := f.run(&bytes.Buffer{}, nil); (e == nil) != (err == nil) {
				t.Errorf("--check says %v", e)
			}
			if c.want == "" && err == nil {
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestResultsInARepository: a claim's commit is one of the repository's, and has the tree.
func TestResultsInARepository(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := git(home, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		if err != nil {
			t.Fatal(args, err)
		}
		return out
	}
	run("init", "-q")
	if err := os.Mkdir(filepath.Join(home, "core"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "core", "a.go"), []byte("package core\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("add", ".")
	run("commit", "-q", "-m", "one")
	commit := run("rev-parse", "--short=12", "HEAD")
	tree, err := repoAround(filepath.Join(home, "results")).tree(commit)
	if err != nil || len(tree) != 16 {
		t.Fatalf("tree %q, %v", tree, err)
	}
	// A digest is what its commit's own script says.
	if err := errors.Join(os.Mkdir(filepath.Join(home, "scripts"), 0o755), os.WriteFile(filepath.Join(home, "scripts", "digest"), []byte("echo 0123456789abcdef\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	run("add", ".")
	run("commit", "-q", "-m", "two")
	second := run("rev-parse", "--short=12", "HEAD")
	for _, c := range []struct {
		name     string
		versions map[string]string
		want     string
	}{
		{"its tree, by another script", map[string]string{evidence.CommitKey: second, evidence.TreeKey: "0123456789abcdef"}, ""},
		{"its tree, by today's script", map[string]string{evidence.CommitKey: second, evidence.TreeKey: tree}, "said to be made by the tree " + tree},
		{"its tree", map[string]string{evidence.CommitKey: commit, evidence.TreeKey: tree}, ""},
		{"older than digests", map[string]string{evidence.CommitKey: commit}, ""},
		{"another tree", map[string]string{evidence.CommitKey: commit, evidence.TreeKey: aTree}, "said to be made by the tree " + aTree},
		{"a commit that was squashed", map[string]string{evidence.CommitKey: "0123456789ab", evidence.TreeKey: "0123456789abcdef"}, ""},
		{"another commit", map[string]string{evidence.CommitKey: "0123456789ab", evidence.TreeKey: aTree}, "which is not in"},
		{"another commit, older than digests", map[string]string{evidence.CommitKey: "0123456789ab"}, "which is not in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := chaosRunBy(t, "run-a", checker.Pass, c.versions)
			f := resultsFlags{dir: filepath.Join(home, "results"), file: filepath.Join(home, "RESULTS.md"), tree: tree}
			err := f.run(&bytes.Buffer{}, []string{dir})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			// The same for one that is in results already.
			if c.want != "" {
				keepStored(t, f, 9, checker.Pass, c.versions)
				if err := f.run(&bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("kept already: %v", err)
				}
			}
			if err := os.RemoveAll(f.dir); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestResultsScores: a score is a claim like any other.
func TestResultsScores(t *testing.T) {
	t.Parallel()
	f := resultsFlags{dir: t.TempDir(), file: filepath.Join(t.TempDir(), "RESULTS.md"), tree: aTree}
	for made, want := range map[string]string{
		"0123456789ab " + aTree:       "",
		"0123456789ab-dirty " + aTree: "made by a changed work tree (0123456789ab-dirty)",
	} {
		versions, err := score.Made(made)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(f.store(reports.KeptScores).File()); err != nil {
			t.Fatal(err)
		}
		s := score.Score{Kind: score.Mutation, Name: "core/lock", Share: score.Share{Good: 295, Of: 300}, Versions: versions}
		if err := s.Append(f.store(reports.KeptScores).File()); err != nil {
			t.Fatal(err)
		}
		switch err := f.run(io.Discard, nil); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", made, err, want)
		}
	}
	if text, err := os.ReadFile(f.file); err != nil || !strings.Contains(string(text), "| mutation | core/lock | 300 | 295 | 98.3 % (96.2 to 99.3) |") {
		t.Errorf("%v: %s", err, text)
	}
}
