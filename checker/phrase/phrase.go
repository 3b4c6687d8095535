package phrase

import (
	"cmp"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
)

// MS says a duration in ns as milliseconds.
func MS(ns int64) string { return fmt.Sprintf("%.1f ms", float64(ns)/1e6) }

// Plural says "1 gap", "2 gaps".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// PluralIs says "1 gap is", "2 gaps are".
func PluralIs(n int, noun string) string {
	if n == 1 {
		return Plural(n, noun) + " is"
	}
	return Plural(n, noun) + " are"
}

// PluralWas says "1 gap was", "2 gaps were".
func PluralWas(n int, noun string) string {
	if n == 1 {
		return Plural(n, noun) + " was"
	}
	return Plural(n, noun) + " were"
}

// FirstFive are the first five of some texts, in order.
func FirstFive(texts []string) string {
	sort.Strings(texts)
	if len(texts) > 5 {
		texts = append(texts[:5:5], "…")
	}
	return strings.Join(texts, "; ")
}

// NumberOrNone is a number that may be missing, or "none".
func NumberOrNone(v *int64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}

// Times says "never", "once", "3 times".
func Times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// OrNone is a text, or "(none)" for the empty one.
func OrNone(s string) string { return cmp.Or(s, "(none)") }

// File makes name relative to dir if it lies below it.
func File(dir, name string) string {
	if dir == "" {
		return name
	}
	rel, err := filepath.Rel(dir, name)
	if err != nil || strings.HasPrefix(rel, "..") {
		return name
	}
	return rel
}

// FileLine says "file:line", with the file below dir unless it has a path of its own.
func FileLine(dir, file string, line int) string {
	if dir != "" && !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	return fmt.Sprintf("%s:%d", file, line)
}
