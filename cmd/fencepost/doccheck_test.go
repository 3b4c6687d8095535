package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fencepost/bench/locks"
	"fencepost/harness/env/cluster"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

// docCheck holds what documents are checked against, and counts what it saw.
type docCheck struct {
	t                         *testing.T
	makefile                  string
	made                      map[string][]string // make's command lines, by what was asked
	commands, links, examples int
}

func newDocCheck(t *testing.T) *docCheck {
	return &docCheck{t: t, makefile: mustRead(t, filepath.Join(repository, "Makefile")), made: map[string][]string{}}
}

var (
	spanRE    = regexp.MustCompile("`([^`]+)`")
	linkRE    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	flagRE    = regexp.MustCompile(`^--[a-z-]+`)
	headingRE = regexp.MustCompile(`^#+ +(.*)$`)
	// nameRE finds scenarios and systems as one gives them to make, wherever they stand.
	nameRE = regexp.MustCompile(`\b(SCENARIO|SYSTEM)=([a-z][A-Za-z0-9/,._:-]*)`)
	// placeholderRE: NAME, RUN_DIR, …: for the reader to fill in.
	placeholderRE = regexp.MustCompile(`^[A-Z][A-Z_]*$|…|\.\.\.`)
)

// problems of a document, which is at path from the repository's root.
func (c *docCheck) problems(path, text string) []string {
	var out []string
	add := func(line int, err error) {
		if err != nil {
			out = append(out, fmt.Sprintf("%s:%d: %v", path, line, err))
		}
	}
	anchors := headings(text)
	fence, example, began := "", "", 0
	for i, line := range strings.Split(text, "\n") {
		n := i + 1
		if lang, ok := strings.CutPrefix(line, "```"); ok {
			if fence == "" {
				fence, example, began = "block "+lang, "", n
				continue
			}
			if fence == "block yaml" && strings.HasPrefix(example, "name:") {
				c.examples++
				if _, err := scenario.Parse("example", []byte(strings.Repeat("\n", began)+example)); err != nil {
					var at int
					msg := err.Error()
					if _, scan := fmt.Sscanf(msg, "example:%d:", &at); scan == nil {
						_, msg, _ = strings.Cut(msg, ": ")
					}
					add(max(at, began), errors.New(msg))
				}
			}
			fence = ""
			continue
		}
		switch {
		case fence == "block console":
			if cmd, ok := strings.CutPrefix(line, "$ "); ok {
				add(n, c.command(cmd, true))
			}
		case fence != "":
			example += line + "\n"
		case strings.HasPrefix(line, "    "):
			add(n, c.command(strings.TrimSpace(line), true))
		default:
			for _, m := range spanRE.FindAllStringSubmatch(line, -1) {
				add(n, c.span(m[1]))
			}
			prose := spanRE.ReplaceAllStringFunc(line, func(s string) string { return strings.NewReplacer("[", "", "]", "").Replace(s) })
			for _, m := range linkRE.FindAllStringSubmatch(prose, -1) {
				add(n, c.link(path, m[1], anchors))
			}
			for _, m := range nameRE.FindAllStringSubmatch(spanRE.ReplaceAllString(line, ""), -1) {
				add(n, names(m[1], strings.TrimRight(m[2], ".,:")))
			}
		}
	}
	if fence != "" {
		add(began, errors.New("the block does not end"))
	}
	return out
}

// span checks a piece of code within a sentence, if it is a command or part of one.
func (c *docCheck) span(s string) error {
	if flag := flagRE.FindString(s); flag != "" {
		flag = strings.TrimPrefix(flag, "--")
		if !hasFlag(newRootCmd(), flag) {
			return fmt.Errorf("no command has a flag --%s", flag)
		}
		return nil
	}
	if strings.HasPrefix(s, "make ") || strings.HasPrefix(s, "fencepost ") || strings.HasPrefix(s, "bin/fencepost ") {
		return c.command(strings.NewReplacer("[", "", "]", "").Replace(s), false)
	}
	for _, m := range nameRE.FindAllStringSubmatch(s, -1) {
		if err := names(m[1], m[2]); err != nil {
			return err
		}
	}
	return nil
}

func hasFlag(cmd *cobra.Command, name string) bool {
	return cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil ||
		slices.ContainsFunc(cmd.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name) })
}

// command checks a line of shell, if it is one of make or of the tool. A whole one
// must be one that could be run; in a sentence arguments may be left out.
func (c *docCheck) command(line string, whole bool) error {
	line, _, _ = strings.Cut(line, " #")
	words := shellWords(line)
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "make":
		c.commands++
		return c.makes(words[1:], whole)
	case "fencepost", "bin/fencepost":
		c.commands++
		return tool(words[1:], whole)
	}
	return nil
}

// shellWords splits a line as a shell does that knows single quotes.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	inside, quoted := false, false
	for _, r := range line + " " {
		switch {
		case r == '\'':
			inside, quoted = true, !quoted
		case quoted || r != ' ' && r != '\t':
			inside = true
			word.WriteRune(r)
		case inside:
			words = append(words, word.String())
			word.Reset()
			inside = false
		}
	}
	return words
}

// passed says whether the Makefile hands a variable on as this flag.
func passed(makefile, flag string) bool {
	return regexp.MustCompile(`\$\(call (?:flags|switches),[^)]*\b` + regexp.QuoteMeta(flag) + `\b`).MatchString(makefile)
}

// makes checks a call of make, and the calls of the tool that make would make.
func (c *docCheck) makes(words []string, whole bool) error {
	args := []string{"-n", "COMMIT=c"}
	var values []string // of the variables, for strings.NewReplacer
	for _, w := range words {
		name, value, isVar := strings.Cut(w, "=")
		if !isVar {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(w) + `:`).MatchString(c.makefile) {
				return fmt.Errorf("make has no target %q", w)
			}
			args = append(args, w)
			continue
		}
		if flag := strings.ToLower(strings.ReplaceAll(name, "_", "-")); !strings.Contains(c.makefile, "$("+name+")") && !passed(c.makefile, flag) {
			return fmt.Errorf("the Makefile reads no %s", name)
		}
		if placeholderRE.MatchString(value) {
			whole = false
		}
		if err := names(name, value); err != nil {
			return err
		}
		args, values = append(args, name+"=@"+name+"@"), append(values, "@"+name+"@", value)
	}
	if !whole {
		return nil
	}
	lines, err := c.make(args)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if call, ok := strings.CutPrefix(l, "bin/fencepost "); ok {
			call, _, _ = strings.Cut(call, ">")
			args := shellWords(call)
			for i := range args {
				args[i] = strings.NewReplacer(values...).Replace(args[i])
			}
			if err := tool(args, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// make returns the command lines that make would run; once for all calls that
// differ in the values of variables only.
func (c *docCheck) make(args []string) ([]string, error) {
	key := strings.Join(args, " ")
	if lines, ok := c.made[key]; ok {
		return lines, nil
	}
	cmd := exec.CommandContext(c.t.Context(), "make", args...)
	cmd.Dir = repository
	for _, kv := range os.Environ() { // not what this test was called with
		if !strings.HasPrefix(kv, "MAKE") && !strings.HasPrefix(kv, "MFLAGS") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	c.made[key] = strings.Split(string(out), "\n")
	return c.made[key], nil
}

// tool parses the tool's arguments with its own commands, without running any.
func tool(args []string, whole bool) error {
	root := newRootCmd()
	root.InitDefaultCompletionCmd() // else it comes with the first call
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if !cmd.HasParent() {
		return cmp.Or(noneOf(root, rest), errors.New("it names no command"))
	}
	known := rest[:0:0]
	for _, a := range rest {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if strings.HasPrefix(a, "--") && hasValue && placeholderRE.MatchString(value) {
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
				return fmt.Errorf("unknown flag: --%s", name)
			}
			continue
		}
		known = append(known, a)
	}
	if err := cmd.ParseFlags(known); err != nil {
		return err
	}
	given := cmd.Flags().Args()
	if whole {
		if err := cmd.ValidateArgs(given); err != nil {
			return err
		}
	}
	for flag, variable := range map[string]string{"system": "SYSTEM", "contention": "CONTENTION", "paxos": "PAXOS", "workload": "WORKLOAD", "set": "SET", "mutant": "MUTANT", "scenarios": "SCENARIOS"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			if err := names(variable, f.Value.String()); err != nil {
				return err
			}
		}
	}
	if cmd.Name() == "chaos" && len(given) == 1 {
		return names("SCENARIO", given[0])
	}
	return nil
}

// names checks the value of a variable of make's that names something.
func names(variable, value string) error {
	if line, own := strings.CutPrefix(value, system.Exec); own && variable == "SYSTEM" {
		return ownProgram(line)
	}
	for _, v := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == '|' }) {
		if placeholderRE.MatchString(v[strings.LastIndex(v, "/")+1:]) {
			continue
		}
		var err error
		switch variable {
		case "SCENARIO", "SCENARIOS":
			if v != "all" && !strings.HasSuffix(v, ".yaml") {
				_, err = scenario.Load(v)
			}
		case "SYSTEM":
			if _, err = system.Find(v); slices.Contains(locks.Systems(), v) {
				err = nil // a benchmark's
			}
		case "CONTENTION", "contention":
			err = scenario.ValidContention(v)
		case "WORKLOAD":
			if v != scenario.Plain {
				_, err = scenario.FindSet(v)
			}
		case "PAXOS":
			if !slices.Contains(cluster.PaxosVariants(), v) {
				err = fmt.Errorf("unknown Paxos variant %q", v)
			}
		case "SET":
			_, err = evidence.FindSet(v)
		case "MUTANT":
			if !slices.ContainsFunc(system.Directed(), func(s system.System) bool { return s.Label() == v }) {
				err = fmt.Errorf("unknown variant %q", v)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownProgram checks that the files of this repository exist that a command line names.
func ownProgram(line string) error {
	if placeholderRE.MatchString(line) {
		return nil
	}
	if _, err := system.Find(system.Exec + line); err != nil {
		return err
	}
	for _, w := range strings.Fields(line) {
		if strings.HasPrefix(w, "examples/") {
			if _, err := os.Stat(filepath.Join(repository, w)); err != nil {
				return fmt.Errorf("no file %s", w)
			}
		}
	}
	return nil
}

// link checks that a relative link leads to a file, and to a heading in it.
func (c *docCheck) link(from, target string, own []string) error {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	c.links++
	file, anchor, hasAnchor := strings.Cut(target, "#")
	to, anchors := from, own
	if file != "" {
		to = filepath.Join(filepath.Dir(from), file)
		if _, err := os.Stat(filepath.Join(repository, to)); err != nil {
			return fmt.Errorf("no file %s", to)
		}
		if hasAnchor && strings.HasSuffix(to, ".md") {
			anchors = headings(mustRead(c.t, filepath.Join(repository, to)))
		}
	}
	if hasAnchor && strings.HasSuffix(to, ".md") && !slices.Contains(anchors, anchor) {
		return fmt.Errorf("%s has no heading #%s", to, anchor)
	}
	return nil
}

// namedRE finds the anchors that a document names itself.
var namedRE = regexp.MustCompile(`<a id="([^"]+)"></a>`)

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headings returns the anchors of a document's headings, as GitHub makes them, and those that it names.
func headings(text string) []string {
	var out []string
	times := map[string]int{}
	block := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			block = !block
		}
		if block {
			continue
		}
		for _, named := range namedRE.FindAllStringSubmatch(line, -1) {
			out = append(out, named[1])
		}
		m := headingRE.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		a := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		times[a]++
		if n := times[a]; n > 1 {
			a = fmt.Sprintf("%s-%d", a, n-1)
		}
		out = append(out, a)
	}
	return out
}
