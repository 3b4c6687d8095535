package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/scenario"
)

// TestWorkflow: the workflow runs scenarios that exist, and what it tells make
// reaches the command line.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	var w struct {
		Jobs map[string]struct {
			Strategy struct{ Matrix map[string][]string }
			Steps    []struct {
				Uses string
				Run  string
				If   string
				With map[string]string
				Env  map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(mustRead(t, "../../.github/workflows/chaos.yml")), &w); err != nil {
		t.Fatal(err)
	}
	j := w.Jobs["chaos"]
	if len(j.Strategy.Matrix["scenario"]) == 0 {
		t.Fatal("no scenarios")
	}
	for _, name := range j.Strategy.Matrix["scenario"] {
		if s, err := scenario.Load(name); err != nil || s.Drill != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	ran, kept := false, ""
	for _, s := range j.Steps {
		if strings.HasPrefix(s.Uses, "actions/upload-artifact@") && s.If == "always()" {
			kept = s.With["path"]
		}
		if !strings.HasSuffix(s.Run, "make chaos") {
			continue
		}
		ran = true
		cmd := exec.CommandContext(t.Context(), "make", "-n", "chaos", "COMMIT=c")
		cmd.Dir, cmd.Env = "../..", os.Environ()
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+strings.ReplaceAll(v, "${{ matrix.scenario }}", "partition"))
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		line := regexp.MustCompile(`(?m)^bin/fencepost chaos .*$`).FindString(string(out))
		for _, want := range []string{" chaos partition ", " --junit=" + s.Env["JUNIT"], " --summary=auto", " --cluster=local"} {
			if !strings.Contains(line+" ", want) {
				t.Errorf("%q lacks %q", line, want)
			}
		}
	}
	if !ran || !strings.Contains(kept, "runs/") || !strings.Contains(kept, "junit.xml") {
		t.Errorf("ran %v, kept %q", ran, kept)
	}
}

// The scenario of docs/ci.md is one, and its exit codes are those of the tool.
func TestGateIsDocumented(t *testing.T) {
	t.Parallel()
	doc := mustRead(t, "../../docs/ci.md")
	_, rest, _ := strings.Cut(doc, "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if s, err := scenario.Parse("example.yaml", []byte(example)); err != nil || !found || len(s.Expect.Thresholds) != 3 {
		t.Errorf("%v", err)
	}
	for _, code := range []string{"| 0 | PASS", "| 1 | FAIL", "| 2 | a run could not be carried out", "| 3 | INVALID", "| 4 | UNKNOWN", "| 64 | bad input"} {
		if !strings.Contains(doc, code) {
			t.Errorf("%q is not documented", code)
		}
	}
}
