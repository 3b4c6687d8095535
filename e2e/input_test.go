//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadInput: exit code 64 and an error that names what is wrong and where.
func TestBadInput(t *testing.T) {
	file := func(t *testing.T, body string) string {
		name := filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(name, []byte("name: mine\nabout: mine\n"+body), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, c := range map[string]struct {
		args func(t *testing.T) []string
		want string
	}{
		"misspelt key": {func(t *testing.T) []string { return []string{"chaos", file(t, "fauls: []\n")} }, `mine.yaml:3: unknown key "fauls"`},
		"unknown fault": {func(t *testing.T) []string {
			return []string{"chaos", file(t, "faults:\n  - fault: meteor\n    targets: [n1]\n    for: 1s\n")}
		}, `mine.yaml:4: unknown fault "meteor"`},
		"negative duration": {func(t *testing.T) []string { return []string{"chaos", file(t, "phases: {before: -3s}\n")} }, `mine.yaml:3: duration -3s is negative`},
		"unknown scenario":  {func(*testing.T) []string { return []string{"chaos", "no-such"} }, `unknown scenario "no-such"`},
		"unknown system":    {func(*testing.T) []string { return []string{"chaos", "steady", "--system=broken/no-such"} }, `unknown system`},
		"no such program":   {func(*testing.T) []string { return []string{"chaos", "steady", "--system=exec:./no-such --fast"} }, `exec:./no-such --fast: the program cannot be started`},
		"clocks of others":  {func(*testing.T) []string { return []string{"chaos", "clock-jump", "--system=exec:sh mine"} }, `its fault clock changes the clocks`},
		"unknown variant":   {func(*testing.T) []string { return []string{"chaos", "steady", "--paxos=v3"} }, `unknown Paxos variant "v3"`},
		"other variant": {func(*testing.T) []string {
			return []string{"chaos", "paxos-lease", "--cluster=up", "--paxos=v1"}
		}, `kept up has Paxos v2, not v1: use --cluster=local`},
		"unknown flag": {func(*testing.T) []string { return []string{"chaos", "steady", "--sede=3"} }, `unknown flag`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := fencepost(t, c.args(t)...)
			if code != 64 || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want 64; output %q, want %q in it", code, out, c.want)
			}
		})
	}
}
