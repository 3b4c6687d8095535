package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDigest: what decides a verdict changes it, and nothing else; what decides what runs changes the one
// of --ran too. A work tree has the digests of the commit that is made of it.
func TestDigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	digest := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("bash", append([]string{"-s", "--"}, args...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(Digest)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	judges := regexp.MustCompile(`^checker/|^cmd/fencepost/cmd_re`)
	if got := digest(); got != "unknown" {
		t.Errorf("without git: %q", got)
	}
	git("init", "-q")
	for _, name := range []string{"core/a.go", "core/b/b.go", "harness/h.go", "checker/c.go", "scenarios/steady.yaml", "examples/orders/o.go", "go.mod", "go.sum", "README.md"} {
		write(name, name+"\n")
	}
	write(".gitignore", "*.out\n")
	git("add", ".")
	first := digest()
	git("commit", "-q", "-m", "one")
	if got := digest(); len(first) != 16 || got != first || digest("HEAD") != first {
		t.Fatalf("before the commit %s, after it %s, of it %s", first, got, digest("HEAD"))
	}
	ran := digest("--ran")
	if ran == first || digest("--ran", "HEAD") != ran {
		t.Errorf("of what runs %s, of all %s, committed %s", ran, first, digest("--ran", "HEAD"))
	}
	for _, c := range []struct {
		name, text string
		changes    bool
	}{
		{"README.md", "x", false}, {"docs/a.md", "x", false}, {"reports/r.go", "x", false}, {"core/doc.md", "x", false},
		{"core/a_test.go", "x", false}, {"core/engine/enginetest/e.go", "x", false}, {"scenarios/steady.yaml", "x", false}, {"checker/testdata/x.json", "x", false}, {"core/x.out", "x", false},
		{"core/a.go", "x", true}, {"core/new.go", "x", true}, {"harness/h.go", "x", true}, {"checker/c.go", "x", true},
		{"cmd/worker/main.go", "x", true}, {"cmd/fencepost/cmd_chaos.go", "x", true}, {"core/checker/c.go", "x", true},
		{"cmd/fencepost/cmd_recheck.go", "x", true}, {"cmd/fencepost/cmd_recheck_store.go", "x", true}, {"cmd/fencepost/cmd_results_made.go", "x", true},
		{"core/sink/sinktest/s.go", "x", true}, {"examples/orders/o.go", "x", true}, {"go.mod", "x", true}, {"go.sum", "x", true},
	} {
		write(c.name, c.text)
		got := digest()
		if (got != first) != c.changes {
			t.Errorf("%s changes it: %v, want %v", c.name, got != first, c.changes)
		}
		ranNow := digest("--ran")
		if runs := c.changes && !judges.MatchString(c.name); (ranNow != ran) != runs {
			t.Errorf("%s changes that of what runs: %v, want %v", c.name, ranNow != ran, runs)
		}
		git("add", ".")
		git("commit", "-q", "--allow-empty", "-m", c.name)
		if digest("HEAD") != got || digest("--ran", "HEAD") != ranNow {
			t.Errorf("%s: the work tree has %s, its commit %s", c.name, got, digest("HEAD"))
		}
		git("reset", "-q", "--hard", "HEAD~1")
	}
	if err := os.Remove(filepath.Join(dir, "core/b/b.go")); err != nil {
		t.Fatal(err)
	}
	gone := digest()
	git("commit", "-qam", "gone")
	if gone == first || digest("HEAD") != gone {
		t.Errorf("without a file: %s, was %s, committed %s", gone, first, digest("HEAD"))
	}
}

// TestDigestHasAllThatIsBuilt: what the digest leaves out is in no executable.
func TestDigestHasAllThatIsBuilt(t *testing.T) {
	t.Parallel()
	left := regexp.MustCompile(`/(cassandra|engine|link|postgres|query|scheduler|store)test$`)
	if !strings.Contains(Digest, strings.TrimSuffix(left.String(), "$")) {
		t.Fatal("the digest leaves out something else")
	}
	for _, args := range [][]string{{"./cmd/...", "./core/cmd/..."}, {"-tags", "broken", "./cmd/..."}} {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, args...)...)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, pkg := range strings.Fields(string(out)) {
			if strings.HasPrefix(pkg, "fencepost/") && left.MatchString(pkg) {
				t.Errorf("%v: %s is built, and not in the digest", args, pkg)
			}
		}
	}
}
