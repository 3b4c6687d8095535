package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/scripts"
)

// rejudged is a repository with results, and commits by what they changed.
type rejudged struct {
	t                   *testing.T
	home, results, runs string
	commits             map[string]string
}

func newRejudged(t *testing.T) *rejudged {
	t.Helper()
	home := t.TempDir()
	r := &rejudged{t, home, filepath.Join(home, "results"), filepath.Join(home, "runs"), map[string]string{}}
	must(t, os.Mkdir(r.runs, 0o755))
	r.git("init", "-q")
	for _, file := range []string{"core/a.go", "checker/a.go", "core/b.go"} {
		must(t, os.MkdirAll(filepath.Join(home, filepath.Dir(file)), 0o755))
		must(t, os.WriteFile(filepath.Join(home, file), []byte(file), 0o644))
		r.git("add", file)
		r.git("commit", "-q", "-m", file)
		r.commits[file] = r.git("rev-parse", "--short=12", "HEAD")
	}
	return r
}

// Commits of the repository: who ran, who judges, and who would run something else.
const (
	whoRan, whoJudges, whoDiffers = "core/a.go", "checker/a.go", "core/b.go"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rejudged) git(args ...string) string {
	r.t.Helper()
	out, err := git(r.home, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	must(r.t, err)
	return out
}

func (r *rejudged) tree(who string) string {
	r.t.Helper()
	tree, err := repoAround(r.results).tree(r.commits[who])
	must(r.t, err)
	return tree
}

func (r *rejudged) store() *evidence.Store {
	return evidence.NewStore(filepath.Join(r.results, reports.KeptEvidence, "smoke"+evidence.Ending))
}

func (r *rejudged) all() []evidence.Result {
	r.t.Helper()
	all, err := r.store().All()
	must(r.t, err)
	return all
}

// add stores a run of whoRan that was judged as v. Its record is packed, or is gone.
func (r *rejudged) add(name string, v checker.Verdict, change func(w, h []history.Event) ([]history.Event, []history.Event), more func(*evidence.Result)) {
	r.t.Helper()
	dir := recordedRun(r.t, r.runs, name, change)
	judgedAs(r.t, dir, v)
	a, err := rundir.Pack(dir)
	must(r.t, err)
	job := evidence.Job{Scenario: "steady", Contention: "medium", Seed: 1, System: "core"}
	res := evidence.Result{
		Job: job, Verdict: v, Check: evidence.Condense(verdictOf(r.t, dir)), History: &a, Took: 7,
		Info: rundir.Info{Run: name, Versions: map[string]string{
			evidence.CommitKey: r.commits[whoRan], evidence.TreeKey: r.tree(whoRan), evidence.PlanKey: planDigest(job), "go": "1",
		}},
	}
	must(r.t, rundir.Remove(dir))
	if more != nil {
		more(&res)
	}
	_, err = r.store().Put(res)
	must(r.t, err)
}

// recheck judges by the tool of a commit.
func (r *rejudged) recheck(commit, tree string) (int, string) {
	r.t.Helper()
	exe, err := os.Executable()
	must(r.t, err)
	var out bytes.Buffer
	f := recheckFlags{results: r.results, runs: r.runs, store: true, commit: commit, tree: tree}
	return exitCode(f.run(context.Background(), &out, exe, []string{"smoke"}), &out), out.String()
}

func TestRecheckStore(t *testing.T) {
	t.Parallel()
	gone := func(res *evidence.Result) { res.History = nil }
	for _, tc := range []struct {
		name   string
		make   func(r *rejudged)
		judge  string
		code   int
		says   string
		stored []checker.Verdict
	}{
		{"as before", func(r *rejudged) { r.add("a", checker.Pass, nil, nil) }, whoJudges, 0, "1 stored", []checker.Verdict{checker.Pass}},
		{"a PASS that is FAIL", func(r *rejudged) { r.add("a", checker.Pass, unreleased, nil) }, whoJudges, 1, "FAIL by P2", []checker.Verdict{checker.Fail}},
		{"a FAIL that is PASS", func(r *rejudged) { r.add("a", checker.Fail, nil, nil) }, whoJudges, 3, "PASS, was FAIL", []checker.Verdict{checker.Pass}},
		{"a FAIL and its second attempt", func(r *rejudged) {
			r.add("a", checker.Fail, unreleased, nil)
			r.add("b", checker.Pass, nil, nil)
		}, whoJudges, 3, "2 stored", []checker.Verdict{checker.Fail, checker.Pass}},
		{"a FAIL without a record", func(r *rejudged) {
			r.add("a", checker.Fail, unreleased, gone)
			r.add("b", checker.Pass, nil, nil)
		}, whoJudges, 0, "not stored: a run of it cannot be judged that counts", nil},
		{"interrupted", func(r *rejudged) {
			r.add("a", checker.Fail, nil, func(res *evidence.Result) { res.Info.Interrupted = "stopped by a signal" })
		}, whoJudges, 2, "it was interrupted", nil},
		{"it would run something else", func(r *rejudged) { r.add("a", checker.Pass, nil, nil) }, whoDiffers, 2, "1 runs by other code", nil},
		{"another plan", func(r *rejudged) {
			r.add("a", checker.Pass, nil, func(res *evidence.Result) { res.Info.Versions[evidence.PlanKey] = "0" })
		}, whoJudges, 2, "0 stored", nil},
		{"of a changed work tree", func(r *rejudged) {
			r.add("a", checker.Pass, nil, func(res *evidence.Result) { res.Info.Versions[evidence.CommitKey] += evidence.DirtyCommit })
		}, whoJudges, 2, "1 runs by code that no commit answers for", nil},
		{"of a commit that was rebased", func(r *rejudged) {
			r.add("a", checker.Pass, nil, func(res *evidence.Result) { res.Info.Versions[evidence.CommitKey] = "0123456789ab" })
			other := evidence.Job{Scenario: "steady", Contention: "high", Seed: 1, System: "core"}
			v := map[string]string{evidence.CommitKey: r.commits[whoRan], evidence.TreeKey: r.tree(whoRan)}
			_, err := r.store().Put(evidence.Result{Job: other, Verdict: evidence.Error, Info: rundir.Info{Run: "o", Versions: v}})
			must(r.t, err)
		}, whoJudges, 0, "1 stored", []checker.Verdict{checker.Pass}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRejudged(t)
			tc.make(r)
			before, tree := r.all(), r.tree(tc.judge)
			code, out := r.recheck(r.commits[tc.judge], tree)
			if code != tc.code || !strings.Contains(out, tc.says) {
				t.Fatalf("exit code %d, want %d and %q:\n%s", code, tc.code, tc.says, out)
			}
			after := r.all()
			now := evidence.Current(after, tree, planDigest)
			var verdicts []checker.Verdict
			for _, res := range now {
				verdicts = append(verdicts, res.Verdict)
			}
			if !slices.Equal(verdicts, tc.stored) || len(after) != len(before)+len(now) {
				t.Fatalf("%v is stored, want %v; %d results, were %d", verdicts, tc.stored, len(after), len(before))
			}
			if len(now) == 0 {
				return
			}
			old, res := before[0], now[0]
			if tc.name != "of a commit that was rebased" {
				if commit, of := res.Ran(); commit != r.commits[whoRan] || of != r.tree(whoRan) {
					t.Errorf("run by %s of %s", commit, of)
				}
				if v := res.Info.Versions; v[evidence.CommitKey] != r.commits[whoJudges] || v["go"] != "1" || res.Took != old.Took || *res.History != *old.History || res.Info.Run != old.Info.Run {
					t.Errorf("stored %+v", res)
				}
			}
			if code, out := r.recheck(r.commits[whoJudges], tree); code != 0 || !strings.Contains(out, "0 stored") || len(r.all()) != len(after) {
				t.Errorf("a second time: exit code %d, %d results:\n%s", code, len(r.all()), out)
			}
		})
	}
}

// TestRecheckStoreCarriesOn: judged twice again, it names who ran it, and not who judged it before.
func TestRecheckStoreCarriesOn(t *testing.T) {
	t.Parallel()
	r := newRejudged(t)
	r.add("a", checker.Pass, nil, func(res *evidence.Result) {
		maps.Copy(res.Info.Versions, map[string]string{
			evidence.CommitKey: r.commits[whoJudges], evidence.TreeKey: r.tree(whoJudges), evidence.RanCommitKey: r.commits[whoRan], evidence.RanTreeKey: r.tree(whoRan),
		})
	})
	r.git("reset", "-q", "--hard", r.commits[whoJudges])
	must(t, os.WriteFile(filepath.Join(r.home, "checker", "a.go"), []byte("third"), 0o644))
	r.git("commit", "-qam", "third")
	r.commits["third"] = r.git("rev-parse", "--short=12", "HEAD")
	if code, out := r.recheck(r.commits["third"], r.tree("third")); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	all := r.all()
	if commit, tree := all[len(all)-1].Ran(); len(all) != 2 || commit != r.commits[whoRan] || tree != r.tree(whoRan) {
		t.Errorf("%d results, run by %s of %s", len(all), commit, tree)
	}
	f := resultsFlags{dir: r.results, file: filepath.Join(r.home, "RESULTS.md"), tree: r.tree("third")}
	must(t, f.run(io.Discard, nil))
	text, err := os.ReadFile(f.file)
	must(t, err)
	want := fmt.Sprintf("Commits: %s. 1 of the runs was made by commit %s and judged again.", r.commits["third"], r.commits[whoRan])
	if today, _, _ := strings.Cut(string(text), "# Older results"); !strings.Contains(today, want) {
		t.Errorf("no %q in\n%s", want, today)
	}
}

func TestRecheckStoreRefuses(t *testing.T) {
	t.Parallel()
	r := newRejudged(t)
	r.add("a", checker.Pass, nil, nil)
	commit, tree := r.commits[whoJudges], r.tree(whoJudges)
	for _, tc := range []struct{ name, commit, tree, says string }{
		{"a changed work tree", commit + evidence.DirtyCommit, tree, "made by a changed work tree"},
		{"not stamped", unknownBuild, unknownBuild, "made by code of which nothing is known"},
		{"no tree", commit, unknownBuild, "made of a tree of which nothing is known"},
		{"another tree", commit, r.tree(whoRan), "said to be made by the tree"},
		{"no such commit", "0123456789ab", "0123456789abcdef", "which is not in"},
	} {
		code, out := r.recheck(tc.commit, tc.tree)
		if code != exitUsage || !strings.Contains(out, tc.says) || !strings.Contains(out, "make build") || len(r.all()) != 1 {
			t.Errorf("%s: exit code %d, %d results, want %q:\n%s", tc.name, code, len(r.all()), tc.says, out)
		}
	}
}

// TestResultsJudgedAgain: what ran is verified like what judged, and runs the same.
func TestResultsJudgedAgain(t *testing.T) {
	t.Parallel()
	r := newRejudged(t)
	versions := func(judge, ran, ranTree string) map[string]string {
		return map[string]string{
			evidence.CommitKey: r.commits[judge], evidence.TreeKey: r.tree(judge), evidence.RanCommitKey: ran, evidence.RanTreeKey: ranTree,
		}
	}
	ran, tree := r.commits[whoRan], r.tree(whoRan)
	for _, tc := range []struct {
		name     string
		versions map[string]string
		verdict  checker.Verdict
		says     string
	}{
		{"both", versions(whoJudges, ran, tree), checker.Pass, ""},
		{"another tree ran", versions(whoJudges, ran, aTree), checker.Pass, "judged again, and the run was said to be made by the tree " + aTree},
		{"no such commit ran", versions(whoJudges, "0123456789ab", aTree), checker.Pass, "judged again, and the run was made by commit 0123456789ab, which is not in"},
		{"no tree", versions(whoJudges, ran, ""), checker.Pass, "nothing says which tree ran"},
		{"no commit", versions(whoJudges, "", tree), checker.Pass, "judged again, and the run was made by code of which nothing is known"},
		{"it runs something else", versions(whoDiffers, ran, tree), checker.Pass, "whose code that runs is not that of commit " + ran},
		{"of a FAIL nothing is claimed", versions(whoDiffers, ran, tree), checker.Fail, ""},
	} {
		f := resultsFlags{dir: r.results, file: filepath.Join(r.home, "RESULTS.md"), tree: r.tree(whoJudges)}
		must(t, os.RemoveAll(f.dir))
		keepStored(t, f, 1, tc.verdict, tc.versions)
		if tc.verdict == checker.Fail {
			note(t, f, "- {result: evidence/smoke/steady-medium-1, cause: a mistake}\n")
		}
		err := f.run(io.Discard, nil)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
	}
}

// TestRanLeavesOutWhatRunsNothing: what scripts/digest --ran leaves out decides nothing in a command that
// runs something. Beside the commands themselves, other files use only what is listed here.
func TestRanLeavesOutWhatRunsNothing(t *testing.T) {
	t.Parallel()
	allowed := map[string]string{
		"maker": "the note that results will be refused", "verdictIn": "the verdict of a run that is over",
		"records": "runs points", "record": "runs points", "recheckFlags": "runs points", "stored": "runs points",
	}
	line := regexp.MustCompile(`shows='(.*)'`).FindStringSubmatch(scripts.Digest)
	if line == nil {
		t.Fatal("scripts/digest has no such line")
	}
	out := regexp.MustCompile(line[1])
	files, err := filepath.Glob("*.go")
	must(t, err)
	declared, used := map[string]bool{}, map[string]string{}
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		if out.MatchString("blob cmd/fencepost/" + name) {
			n++
			for _, d := range file.Decls {
				for _, id := range namesOf(d) {
					declared[id] = true
				}
			}
			continue
		}
		var look func(ast.Node) bool
		look = func(x ast.Node) bool {
			switch x := x.(type) {
			case *ast.SelectorExpr: // of another package, or of a value, whose type is used then
				ast.Inspect(x.X, look)
				return false
			case *ast.Ident:
				used[x.Name] = name
			}
			return true
		}
		ast.Inspect(file, look)
	}
	if n < 7 {
		t.Errorf("it leaves out %d files", n)
	}
	for id := range declared {
		if where, ok := used[id]; ok && allowed[id] == "" && !strings.HasPrefix(id, "new") {
			t.Errorf("%s uses %s, which the digest of what runs leaves out", where, id)
		}
	}
}

// namesOf are the names that a declaration makes, but for methods.
func namesOf(d ast.Decl) (out []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			out = append(out, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					out = append(out, id.Name)
				}
			}
		}
	}
	return out
}
