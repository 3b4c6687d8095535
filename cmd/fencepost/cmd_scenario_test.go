package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/scenario"
)

// All shipped scenarios are well, and of several files each bad one is told, with its line.
func TestScenarioCheck(t *testing.T) {
	t.Parallel()
	if code, said := refused(t, append([]string{"scenario", "check"}, scenario.Names()...)...); code != 0 || said != "" {
		t.Errorf("exit code %d, said %q", code, said)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const expect = "expect: {min_cycles: {medium: {fault: 1}}}\n"
	good := file("good.yaml", "name: good\nabout: It goes on.\n"+expect)
	none := file("none.yaml", "name: none\nabout: No worker.\nworkload:\n  workers: 0\n"+expect)
	far := file("far.yaml", "name: far\nabout: No such node.\n"+expect+"faults:\n  - {fault: kill-node, targets: [n7], at: 1s, for: 1s}\n")
	cmd := newRootCmd()
	var out, said bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"scenario", "check", none, good, far})
	if code := exitCode(cmd.ExecuteContext(t.Context()), &said); code != exitUsage || out.String() != good+": It goes on.\n" {
		t.Errorf("exit code %d, %q", code, out.String())
	}
	for _, want := range []string{none + ":4: workload: workers 0", far + ":5: step kill-node: there is no n7 among 3 nodes"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	}
}
