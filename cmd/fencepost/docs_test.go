package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/record/progress"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

// TestDocs: commands, names, examples and links of the documentation are real.
func TestDocs(t *testing.T) {
	t.Parallel()
	c := newDocCheck(t)
	files := []string{"README.md", "CONTRIBUTING.md", "core/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md", "docs/systems/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(repository, f)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, rel)
		}
	}
	for _, f := range files {
		for _, p := range c.problems(f, mustRead(t, filepath.Join(repository, f))) {
			t.Error(p)
		}
	}
	if c.commands < 50 || c.links < 50 || c.examples < 3 {
		t.Errorf("%d commands, %d links and %d scenarios found: too few to be all", c.commands, c.links, c.examples)
	}
}

// What TestDocs must find, and what it must not.
func TestDocsAreChecked(t *testing.T) {
	t.Parallel()
	c := newDocCheck(t)
	console := func(line string) string { return "# A\n\n```console\n$ " + line + "\n```\n" }
	for name, test := range map[string]struct{ text, want string }{
		"target":            {console("make choas SCENARIO=partition"), `d.md:4: make has no target "choas"`},
		"variable":          {console("make chaos SCENARIO=partition CONTENTON=high"), `the Makefile reads no CONTENTON`},
		"scenario":          {console("make chaos SCENARIO=partition,partion"), `unknown scenario "partion"`},
		"system":            {console("make chaos SCENARIO=partition SYSTEM=broken/none"), `unknown system "broken/none"`},
		"contention":        {console("make chaos SCENARIO=partition CONTENTION=huge"), `unknown contention "huge"`},
		"workload":          {console("make chaos SCENARIO=steady WORKLOAD=none"), `unknown workload "none"`},
		"system in a text":  {"Try SYSTEM=broken/nothing.\n", `d.md:1: unknown system "broken/nothing"`},
		"scenario in make":  {console("make chaos"), `SCENARIO is missing`},
		"value":             {console("make chaos SCENARIO=partition SEED=x"), `--seed`},
		"mutant":            {console("make power MUTANT=hilo-tokens,no-such"), `no-such`},
		"set":               {console("make evidence SET=keys"), `unknown set "keys"`},
		"command":           {console("bin/fencepost choas all"), `unknown command "choas"`},
		"no command":        {console("bin/fencepost"), `names no command`},
		"flag":              {console("bin/fencepost explain runs/latest --yaml"), `unknown flag: --yaml`},
		"flag's value":      {console("bin/fencepost replay RUN --times=many"), `--times`},
		"own program":       {console("make chaos SCENARIO=partition SYSTEM='exec:python3 examples/none.py --fast'"), `no file examples/none.py`},
		"no own program":    {console("bin/fencepost chaos partition --system='exec: '"), `no program is named`},
		"arguments":         {console("bin/fencepost explain"), `explain takes one argument`},
		"argument":          {console("bin/fencepost chaos partion"), `unknown scenario "partion"`},
		"indented":          {"Text:\n\n    make nothing\n", `make has no target "nothing"`},
		"span":              {"Say `fencepost nothing` or so.\n", `unknown command "nothing"`},
		"span's target":     {"Say `make nothing`.\n", `make has no target "nothing"`},
		"flag alone":        {"It has `--nothing=FILE`.\n", `no command has a flag --nothing`},
		"file":              {"[a](b.md)\n", `d.md:1: no file docs/b.md`},
		"anchor":            {"[a](#b)\n\n# A b\n", `d.md:1: docs/d.md has no heading #b`},
		"anchor elsewhere":  {"[a](properties.md#p99)\n", `docs/properties.md has no heading #p99`},
		"anchor by name":    {"[a](#c) [a](#b)\n\n<a id=\"b\"></a>B\n", `docs/d.md has no heading #c`},
		"anchor in a block": {"[a](#b)\n\n```yaml\n# b\n```\n", `no heading #b`},
		"scenario's text":   {"```yaml\nname: mine\nabout: mine\nfauls: []\n```\n", `d.md:4: unknown key "fauls"`},
	} {
		got := c.problems("docs/d.md", test.text)
		if len(got) != 1 || !strings.Contains(got[0], test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for _, text := range []string{
		console("make chaos SCENARIO=partition SEED=7 SYSTEM=broken/row-ttl   # with a word"),
		console("make chaos SCENARIO=mine.yaml"),
		console("make soak HOURS=8"),
		console("bin/fencepost exec -- cqlsh --no-such-flag"),
		console("bin/fencepost replay RUN --times=N"),
		console("ls --no-such-flag"),
		console("make bench contention=low,high"),
		console("make chaos SCENARIO=pause-worker SYSTEM='exec:python3 examples/python-lock/locker.py --no-fence' SEED=1"),
		console("bin/fencepost chaos steady --system='exec:./mine  --fast'"),
		"`make nightly [SEEDS=20]`, `make chaos SCENARIO=…`, `SYSTEM=broken/NAME`, `fencepost power --explain`, `--times=N`, `make bench contention=low|high`, `make` itself, `--`\n",
		"# A `b` (c), D\n\n[x](#a-b-c-d) `[x](nothing.md)` [y](https://example.com/z.md) [z](../docs/properties.md#verdicts)\n",
		"```\nmake nothing\n[x](nothing.md)\n```\n",
	} {
		if got := c.problems("docs/d.md", text); len(got) > 0 {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// The safety argument names, for each of its steps, variants that the property beside
// them finds, and leaves out none but those of the harness itself.
func TestSafetyArgumentIsRefutable(t *testing.T) {
	t.Parallel()
	doc := mustRead(t, filepath.Join(repository, "docs/lock-safety.md"))
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| .* \| (P\d+(?:, P\d+)*) \| (.*) \|$`).FindAllStringSubmatch(doc, -1) {
		properties := strings.Split(row[1], ", ")
		for _, name := range strings.Split(row[2], ", ") {
			s, err := system.Find("broken/" + name)
			if err != nil {
				t.Error(err)
				continue
			}
			named[s.Label()] = true
			if !slices.ContainsFunc(s.Red.Properties, func(p string) bool { return slices.Contains(properties, p) }) {
				t.Errorf("%s is found by %v, not by %v", name, s.Red.Properties, properties)
			}
		}
	}
	for _, s := range system.Broken() {
		harness := strings.HasPrefix(s.Label(), "harness-") || strings.HasPrefix(s.Label(), "recorder-")
		if !harness && !named[s.Label()] {
			t.Errorf("no step of the argument names %s", s.Label())
		}
	}
}

// The page tells of every event, and of every field that it can have.
func TestEventsAreDocumented(t *testing.T) {
	t.Parallel()
	doc := mustRead(t, filepath.Join(repository, "docs/cli.md"))
	for _, kind := range progress.Kinds {
		row := regexp.MustCompile("(?m)^\\| `" + string(kind) + "` \\|.*$").FindString(doc)
		if row == "" {
			t.Errorf("docs/cli.md has no row of %s", kind)
		}
		field, ok := reflect.TypeFor[progress.Event]().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, string(kind)) })
		if !ok || field.Type.Kind() != reflect.Pointer {
			continue
		}
		for i := range field.Type.Elem().NumField() {
			name, _, _ := strings.Cut(field.Type.Elem().Field(i).Tag.Get("json"), ",")
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("docs/cli.md: the row of %s lacks `%s`", kind, name)
			}
		}
	}
}

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
