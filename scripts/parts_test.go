package scripts

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestParts: parts are told in order with those of scripts that they start, a failed one ends
// the run, and so does a run that took too long.
func TestParts(t *testing.T) {
	t.Parallel()
	const head = "set -euo pipefail\n. ./parts.bash\nparts_begin\ntrap 'parts_end $? 35' EXIT\n"
	const inner = `bash -c '. ./parts.bash; parts_begin; trap "parts_end \$? 0" EXIT; part inner true'` + "\n"
	for _, c := range []struct {
		name, script string
		code         int
		parts        string // as the table at the end has them
		says         string
	}{
		{"all well", "part one true\n" + inner + "part 'two words' true\n", 0, "one|inner|two words|in all", ""},
		{"one fails", "part one true\npart two bash -c 'exit 3'\npart three true\n", 3, "one|two|in all", "== two failed with exit code 3; timers late by"},
		{"too long", "part one true\nSECONDS=2101\n", 1, "one|in all", "it took more than 35 minutes"},
		{"long, and not too long", "part one true\nSECONDS=2000\n", 0, "one|in all", ""},
		{"too long, and failed", "SECONDS=2101\npart one bash -c 'exit 3'\n", 3, "one|in all", "it took more than 35 minutes"},
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
			for _, m := range regexp.MustCompile(`(?m)^ *[0-9]+\.[0-9] min +(.*)$`).FindAllStringSubmatch(stdout.String(), -1) {
				parts = append(parts, m[1])
			}
			if got := strings.Join(parts, "|"); got != c.parts {
				t.Errorf("parts %q, want %q:\n%s", got, c.parts, &stdout)
			}
		})
	}
}
