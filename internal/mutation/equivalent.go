package mutation

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed equivalent.txt
var equivalent string

// Equivalents are the mutants of equivalent.txt that behave as the original does.
type Equivalents map[string]Equivalent

// Equivalent is one of them.
type Equivalent struct{ Was, Is, Reason string }

// Listed reads equivalent.txt.
func Listed() (Equivalents, error) { return parseEquivalents(equivalent) }

// parseEquivalents reads entries of four lines: id, the line before, the line after, the reason.
func parseEquivalents(text string) (Equivalents, error) {
	all := Equivalents{}
	for entry := range strings.SplitSeq(text, "\n\n") {
		var lines []string
		for line := range strings.Lines(entry) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		if len(lines) < 4 || !strings.HasPrefix(lines[1], "- ") || !strings.HasPrefix(lines[2], "+ ") {
			return nil, fmt.Errorf("equivalent.txt: want an id, a line with -, one with + and a reason, not %q", lines)
		}
		if _, twice := all[lines[0]]; twice {
			return nil, fmt.Errorf("equivalent.txt: %s is there twice", lines[0])
		}
		all[lines[0]] = Equivalent{lines[1][2:], lines[2][2:], strings.Join(lines[3:], " ")}
	}
	return all, nil
}

// Check reports an entry of the package dir that is not among its mutants, or is now about
// another line: the source has changed, and the reason must be looked at again.
func (e Equivalents) Check(dir string, mutants []Mutant) error {
	known := map[string]Mutant{}
	for _, m := range mutants {
		known[m.ID] = m
	}
	for id, eq := range e {
		if !of(id, dir) {
			continue
		}
		m, ok := known[id]
		switch {
		case !ok:
			return fmt.Errorf("equivalent.txt: there is no mutant %s", id)
		case m.Was != eq.Was || m.Is != eq.Is:
			return fmt.Errorf("equivalent.txt: %s is now\n- %s\n+ %s\nand was listed as\n- %s\n+ %s", id, m.Was, m.Is, eq.Was, eq.Is)
		}
	}
	return nil
}

// of reports whether an id is of a package: its files are, those of directories below are not.
func of(id, dir string) bool {
	rest, ok := strings.CutPrefix(id, dir+"/")
	file, _, _ := strings.Cut(rest, ":")
	return ok && !strings.Contains(file, "/")
}
