//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
)

// locker is the example as these tests start it.
const locker = "exec:python3 ../examples/python-lock/locker.py"

func needsPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: programs of users' own, as python3 is missing: apt-get install python3-minimal")
	}
}

// TestOwnSystem runs the example in Python: sound under a partition, and red by the
// sink's properties when its writes are not fenced.
func TestOwnSystem(t *testing.T) {
	needsPython(t)
	t.Run("partition", func(t *testing.T) {
		code, res, out := chaos(t, "partition", "--system="+locker, "--contention=high", "--seed=3")
		if code != 0 || res.Verdict != checker.Pass {
			t.Errorf("exit code %d, verdict %s, want 0 and PASS\n%s", code, res.Verdict, out)
			keep(t, out)
		}
		for _, p := range res.Properties {
			if want := slices.Contains([]string{"P5", "P12", "P16", "P17"}, p.ID); want != (p.Status == checker.StatusNA) {
				t.Errorf("%s is %s: %s", p.ID, p.Status, p.Detail)
			}
		}
		if code, text := fencepost(t, "lint", runDir(t, out)); code != 0 {
			t.Errorf("lint: exit code %d\n%s", code, text)
		}
	})
	t.Run("no fence", func(t *testing.T) {
		code, res, out := chaos(t, "pause-worker", "--system="+locker+" --no-fence", "--contention=high", "--seed=3")
		failed := func(id string) bool {
			return slices.ContainsFunc(res.Properties, func(p checker.Property) bool { return p.ID == id && p.Status == checker.StatusFail })
		}
		if code != 1 || res.Verdict != checker.Fail || !failed("P3") || !failed("P4") {
			t.Errorf("exit code %d, verdict %s, want 1 and FAIL by P3 and P4\n%s", code, res.Verdict, out)
			keep(t, out)
		}
		if got := explained(t, out); !slices.Contains(got, "sink-checks-no-token") {
			t.Errorf("explained by %v", got)
		}
	})
}

// cheater is the example with a client that cheats at the point effect-sent.
const cheater = "exec:python3 testdata/cheat.py"

// cheats are its ways to cheat, and how each is found.
var cheats = []struct {
	how                 string
	verdict             checker.Verdict
	property, mechanism string
}{
	{"refusal", checker.Fail, "P10", "answer-made-up"},
	{"early", checker.Invalid, "P14", "point-not-kept"},
	{"never", checker.Fail, "P4", "answer-made-up"},
}

// TestCheatingSystem: what a program says of the sink's answers, and of where it stands, is
// compared with what its links carried. The cheats take turns by the date.
func TestCheatingSystem(t *testing.T) {
	needsPython(t)
	day, _ := today(t)
	c := cheats[day%len(cheats)]
	code, res, out := chaos(t, "pause-worker", "--system="+cheater+" "+c.how, "--contention=high", "--seed=3")
	i := slices.IndexFunc(res.Properties, func(p checker.Property) bool { return p.ID == c.property })
	if code != c.verdict.ExitCode() || res.Verdict != c.verdict || res.Properties[i].Count == 0 {
		t.Errorf("%s: exit code %d, verdict %s, want %s by %s\n%s", c.how, code, res.Verdict, c.verdict, c.property, out)
		keep(t, out)
	}
	if got := explained(t, out); !slices.Contains(got, c.mechanism) {
		t.Errorf("%s is explained by %v, want %s", c.how, got, c.mechanism)
	}
}

// TestBrokenOwnSystem: each way to be broken is told with the program's own words. One that
// dies is a violation, one whose record is worth nothing ends the run at once.
func TestBrokenOwnSystem(t *testing.T) {
	needsPython(t)
	const head = `import os, sys, time, urllib.request
if os.environ["FENCEPOST_TASK"] != "work": sys.exit(0)
urllib.request.urlopen(urllib.request.Request(os.environ["FENCEPOST_CONTROL"] + "/ready", method="POST"))
`
	for name, c := range map[string]struct {
		scenario, program string
		code              int
		want              []string
	}{
		"ends by itself": {"steady", "print('the table is gone', file=sys.stderr)\nsys.exit(5)\n", 1, []string{"P18: w", ".1 (program, pid ", "ended by itself (exit status 5): nobody had asked it to; its log: the table is gone"}},
		"quits":          {"steady", "", 1, []string{"P18: w", "ended by itself (exit status 0)"}},
		"malformed": {"steady", "print('going on', file=sys.stderr, flush=True)\nos.write(os.open(os.environ['FENCEPOST_HISTORY'], os.O_WRONLY | os.O_APPEND), b'{\"op\": 1}\\n')\ntime.sleep(60)\n", 2,
			[]string{"its history is malformed: ", ".1.jsonl:2: not a valid event", "going on"}},
		"no points": {"pause-worker", "", 64, []string{`stands at the point "effect-sent"`, "offers no points at all"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "mine.py")
			if err := os.WriteFile(file, []byte(head+c.program), 0o644); err != nil {
				t.Fatal(err)
			}
			code, out := fencepost(t, "chaos", c.scenario, "--cluster=up", "--runs="+filepath.Join(dir, "runs"), "--system=exec:python3 "+file)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in:\n%s", want, out)
				}
			}
		})
	}
}
