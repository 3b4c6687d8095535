package scripts

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var updateBudget = flag.Bool("budget.update", false, "write scripts/budget: today's numbers and half a percent more")

// lines are lines of Go with something but a comment on them. Tests are those of _test.go files
// and of packages that only tests use, which are named …test.
type lines struct{ code, tests int }

// budget is scripts/budget.
type budget struct {
	areas  map[string]lines // by directory
	limits map[string]int   // files that git tracks, and what of them is in results/
}

func readBudget(t *testing.T) budget {
	t.Helper()
	text, err := os.ReadFile("budget")
	if err != nil {
		t.Fatal(err)
	}
	b := budget{map[string]lines{}, map[string]int{}}
	for row := range strings.Lines(string(text)) {
		f := strings.Fields(row)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		var n []int
		for _, s := range f[1:] {
			i, err := strconv.Atoi(s)
			if err != nil {
				t.Fatalf("scripts/budget: %s: %v", row, err)
			}
			n = append(n, i)
		}
		switch len(n) {
		case 1:
			b.limits[f[0]] = n[0]
		case 2:
			b.areas[f[0]] = lines{n[0], n[1]}
		default:
			t.Fatalf("scripts/budget: %q has neither one number nor two", row)
		}
	}
	return b
}

// areaOf is the longest directory of the table that a file is in.
func (b budget) areaOf(file string) (area string) {
	for a := range b.areas {
		if strings.HasPrefix(file, a+"/") && len(a) > len(area) {
			area = a
		}
	}
	return area
}

// countLines counts a Go file that is formatted, which make lint sees to. A generated one has none.
func countLines(src []byte) int {
	if bytes.Contains(src, []byte("\n// Code generated ")) || bytes.HasPrefix(src, []byte("// Code generated ")) {
		return 0
	}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	n, last := 0, 0
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return n
		case tok == token.SEMICOLON && lit == "\n":
			continue
		}
		line := file.Line(pos)
		for text := range strings.Lines(cmp.Or(lit, tok.String())) { // raw strings have several
			if strings.TrimSpace(text) != "" && line > last {
				n++
			}
			last = max(last, line)
			line++
		}
	}
}

// tracked are the files that git knows, seen from the repository.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("not a git repository: ", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}

// TestBudget: no area grows beyond its lines in scripts/budget, and the repository not beyond
// its files. To raise a number is a decision, and the diff shows it.
func TestBudget(t *testing.T) {
	t.Parallel()
	limit, have := readBudget(t), budget{map[string]lines{}, map[string]int{}}
	for _, name := range tracked(t) {
		b, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		} else if err != nil {
			t.Fatal(err)
		}
		have.limits["tracked-files"]++
		if strings.HasPrefix(name, "results/") {
			have.limits["results-files"]++
			have.limits["results-bytes"] += len(b)
		}
		if filepath.Ext(name) != ".go" || filepath.Base(name) == "doc.go" {
			continue
		}
		area := limit.areaOf(name)
		if area == "" {
			t.Errorf("%s is in no area of scripts/budget", name)
		}
		n := have.areas[area]
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(filepath.Dir(name), "test") {
			n.tests += countLines(b)
		} else {
			n.code += countLines(b)
		}
		have.areas[area] = n
	}
	if *updateBudget {
		if err := writeBudget(have); err != nil {
			t.Fatal(err)
		}
		return
	}
	for area, max := range limit.areas {
		n := have.areas[area]
		t.Logf("%-14s code %6d of %6d, tests %6d of %6d", area, n.code, max.code, n.tests, max.tests)
		if n.code > max.code || n.tests > max.tests {
			t.Errorf("%s has %d lines of code (at most %d) and %d of tests (at most %d)", area, n.code, max.code, n.tests, max.tests)
		}
	}
	for what, max := range limit.limits {
		t.Logf("%-14s %d of %d", what, have.limits[what], max)
		if have.limits[what] > max {
			t.Errorf("%s: %d, at most %d", what, have.limits[what], max)
		}
	}
}

// writeBudget writes the table again with what there is. The limits of files stay.
func writeBudget(have budget) error {
	text, err := os.ReadFile("budget")
	if err != nil {
		return err
	}
	var out strings.Builder
	for row := range strings.Lines(string(text)) {
		if f := strings.Fields(row); len(f) == 3 && f[0] != "#" {
			n := have.areas[f[0]]
			row = fmt.Sprintf("%-30s %7d %7d\n", f[0], roomFor(n.code), roomFor(n.tests))
		}
		out.WriteString(row)
	}
	return os.WriteFile("budget", []byte(out.String()), 0o644)
}

// roomFor is n and half a percent, of little ten lines.
func roomFor(n int) int {
	if n == 0 {
		return 0
	}
	return n + max(n/200, 10)
}

func TestCountLines(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]int{
		"package a\n": 1,
		"// A comment.\n\npackage a // and one more\n\n/* two\nlines */\n":             1,
		"package a\n\nvar x = `one\n\ntwo` + `three\n`\n\nvar y = 1 /* c */ + 2\n":     5,
		"package a\n\nfunc f() {\n\tg(\n\t\t1, // one\n\t\t2,\n\t)\n}\n":               7,
		"// Code generated by x. DO NOT EDIT.\n\npackage a\n\nvar x = 1\n":             0,
		"//go:build linux\n\n// Code generated by x. DO NOT EDIT.\n\npackage a\n":      0,
		"package a\n\n// x has a string that ends a line.\nvar x = \"a\" +\n\t\"b\"\n": 3,
	} {
		if got := countLines([]byte(src)); got != want {
			t.Errorf("%d lines, want %d:\n%s", got, want, src)
		}
	}
}
