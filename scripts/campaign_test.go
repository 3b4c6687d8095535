package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCampaign: each kind of evidence is a step, and what no commit would answer for is not begun.
func TestCampaign(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "bash", "campaign", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	steps := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, want := range []string{
		"evidence --set=locks --first=1 --", "evidence --set=locks --first=5 --", "evidence --set=jobs --first=3 --", "evidence --set=orders", "evidence --set=paxos",
		"evidence --set=bugs", "evidence --set=locks --sink=http", "evidence --set=locks --sink=postgres", "field --", "power --seeds=3",
		"power --swarm=20m", "soak flat ", "soak jobs-flat ", "evidence --set=locks --scenarios=swarm ", "scored simulation clusters", "scored mutation core/lock", "benchmark 2 jobs ",
	} {
		if !slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("no step is %q", want)
		}
	}

	dir := t.TempDir()
	text, err := os.ReadFile("campaign")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "scripts", "campaign"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"git", "init", "-q"}, {"git", "add", "scripts"}, {"git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "one"},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "scripts", "campaign"), append(text, "# changed\n"...), 0o755); err != nil {
		t.Fatal(err)
	}
	for want, arg := range map[string]string{"usage: scripts/campaign": "soon", "the work tree has changes": "1.5"} {
		cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "scripts", "campaign"), arg)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 64 || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", arg, err, out)
		}
	}
}
