package scripts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fencepost/internal/exetest"
	"fencepost/internal/turn"
)

// TestParts: parts are told in order with those of scripts that they start, a failed one ends
// the run, and a run that took too much processor time fails, for the machine that it is on.
func TestParts(t *testing.T) {
	t.Parallel()
	const head = "set -euo pipefail\n. ./parts.bash\nparts_pace() { echo 140; }\nparts_begin\ntrap 'parts_end $? 35' EXIT\n" +
		"took() { eval \"times() { printf '0m0.1s 0m0.1s\\n$(($1 / 60 - 1))m$(($1 % 60)).0s 1m0.4s\\n'; }\"; }\n" +
		"pace() { eval \"parts_pace() { echo $1; }\"; }\n"
	const inner = `bash -c '. ./parts.bash; parts_begin; trap "parts_end \$? 0" EXIT; part inner true'` + "\n"
	for _, c := range []struct {
		name, script string
		code         int
		parts        string // as the table at the end has them
		says         string
	}{
		{"all well", "part one true\n" + inner + "part 'two words' true\n", 0, "0.0 one|0.0 inner|0.0 two words|0.0 in all", ""},
		{"one fails", "part one true\npart two bash -c 'exit 3'\npart three true\n", 3, "0.0 one|0.0 two|0.0 in all", "== two failed with exit code 3; timers late by"},
		{"one takes processor time", "part one took 2000\npart two true\n", 0, "33.3 one|0.0 two|33.3 in all", ""},
		{"too much", "part one true\ntook 2160\n", 1, "0.0 one|36.0 in all", "it took more than 35 minutes of processor time"},
		{"much, and not too much", "part one true\ntook 2000\n", 0, "0.0 one|33.3 in all", ""},
		{"much on a slow machine", "pace 168\npart one took 2160\n", 0, "36.0 one|36.0 in all", ""},
		{"too much on a slow machine", "pace 168\npart one took 2580\n", 1, "43.0 one|43.0 in all", "it took more than 35 minutes of processor time"},
		{"slow for a while", "part one true\npace 1900\npart two true\npace 130\npart three took 2160\n", 1, "0.0 one|0.0 two|36.0 three|36.0 in all", "it took more than 35 minutes of processor time"},
		{"much on a fast machine", "pace 70\npart one took 2000\n", 0, "33.3 one|33.3 in all", ""},
		{"too much, and failed", "took 2160\npart one bash -c 'exit 3'\n", 3, "0.0 one|36.0 in all", "it took more than 35 minutes of processor time"},
		{"long on a busy host", "part one true\nSECONDS=9000\n", 0, "0.0 one|0.0 in all", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("bash", "-c", head+c.script)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "PARTS=") // make test counts its own parts
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(stderr.String(), c.says) || c.says == "" && stderr.Len() > 0 {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.says, &stderr)
			}
			var parts []string
			for _, m := range regexp.MustCompile(`(?m)^ *[0-9]+\.[0-9] min, +([0-9.]+) of processor time  ([^;\n]*)`).FindAllStringSubmatch(stdout.String(), -1) {
				parts = append(parts, m[1]+" "+m[2])
			}
			if got := strings.Join(parts, "|"); got != c.parts {
				t.Errorf("parts %q, want %q:\n%s", got, c.parts, &stdout)
			}
		})
	}
}

// testReal runs scripts/test-real in a tree in which every program only prints its arguments.
func testReal(t *testing.T, turn string) (code int, out string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		exetest.Write(t, filepath.Join(dir, name), text)
	}
	for _, name := range []string{"test-real", "parts.bash"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write("scripts/"+name, string(text))
	}
	const prints = "#!/bin/sh\necho \"ran ${0##*/} $*\"\n"
	for _, name := range []string{"go", "bin/fencepost", "scripts/fetch-postgres", "scripts/test-docker"} {
		write(name, prints)
	}
	write("core/a_integration_test.go", "//go:build integration\n")
	write("harness/target/system/a_integration_test.go", "//go:build integration\n")
	cmd := exec.Command(filepath.Join(dir, "scripts", "test-real"))
	cmd.Env = append(os.Environ(), "GO="+filepath.Join(dir, "go"), "TURN="+turn, "TMPDIR="+t.TempDir(), "PARTS=")
	b, err := cmd.CombinedOutput()
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// did are the parts that ran, and the end-to-end tests that were left out.
func did(out string) (parts, skipped []string) {
	for _, m := range regexp.MustCompile(`(?m)^== (.*)$`).FindAllStringSubmatch(out, -1) {
		parts = append(parts, m[1])
	}
	for _, m := range regexp.MustCompile(`-skip \^\(none\|?(.*)\)\$`).FindAllStringSubmatch(out, -1) {
		skipped = append(skipped, strings.FieldsFunc(m[1], func(r rune) bool { return r == '|' })...)
	}
	return parts, skipped
}

// TestTurns: four days after each other have all that TURN=all has, each something of its own, and each
// says how to have it again.
func TestTurns(t *testing.T) {
	t.Parallel()
	const days = 4
	parts, skipped := map[string][]string{}, map[string][]string{}
	run := func(turn string) {
		code, out := testReal(t, turn)
		if code != 0 || !strings.Contains(out, fmt.Sprintf("turn %s: repeat it with TURN=%[1]s make test", turn)) {
			t.Errorf("TURN=%s: exit code %d\n%s", turn, code, out)
		}
		parts[turn], skipped[turn] = did(out)
	}
	run("all")
	if len(skipped["all"]) > 0 {
		t.Errorf("TURN=all leaves out %v", skipped["all"])
	}
	times, missing := map[string]int{}, map[string]int{} // on how many days there is a part, and no such test
	for day := range days {
		turn := fmt.Sprint(20780 + day)
		run(turn)
		if len(parts[turn]) == len(parts["all"]) || len(skipped[turn]) == 0 {
			t.Errorf("TURN=%s leaves out nothing", turn)
		}
		for _, part := range parts[turn] {
			times[part]++
		}
		for _, name := range skipped[turn] {
			missing[name]++
		}
	}
	own := 0
	for _, part := range parts["all"] {
		switch times[part] {
		case days:
		case 1:
			own++
		default:
			t.Errorf("%s has its turn on %d of %d days", part, times[part], days)
		}
	}
	if own < days {
		t.Errorf("%d parts take turns: %v", own, times)
	}
	for name, n := range missing {
		if n == days {
			t.Errorf("%s has no turn", name)
		}
	}
	if slices.Contains(parts["20780"], "external clusters") || !slices.Contains(parts["20782"], "containers") {
		t.Errorf("the first day has %v, the third %v", parts["20780"], parts["20782"])
	}
	for day := 20780; day < 20785; day++ {
		if _, out := testReal(t, fmt.Sprint(day)); strings.Contains(out, "-skip ^(TestController|") == turn.HasStore(day, "postgres") {
			t.Errorf("on day %d schedulers on PostgreSQL are left out, or not\n%s", day, out)
		}
	}
	for _, turn := range []string{"1.5", "-1", "some", "08"} {
		if code, out := testReal(t, turn); code != 64 || !strings.Contains(out, "neither a number nor all") {
			t.Errorf("TURN=%s: exit code %d\n%s", turn, code, out)
		}
	}
}

// TestTurnOfToday: without TURN it is the day's, whatever the commit.
func TestTurnOfToday(t *testing.T) {
	t.Parallel()
	const script = `. ./parts.bash; date() { [[ $* == +%s ]] && echo "$NOW"; }; turn_begin; echo "TURN is $TURN"`
	for now, want := range map[string]string{"86399": "0", "86400": "1", "1795219200": "20778"} {
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "NOW="+now, "TURN=")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "\nTURN is "+want+"\n") {
			t.Errorf("at %s s: %v\n%s", now, err, out)
		}
	}
}
