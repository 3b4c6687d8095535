// Package choice words the refusal of a name that is none of those that there are.
package choice

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

// Unknown is the error about a name that is not among names: what it should be, such as
// "scenario", what there is, and the one that was probably meant.
func Unknown(what, name string, names ...string) error {
	hint := ""
	if near := Nearest(name, names...); near != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return fmt.Errorf("unknown %s %q%s; there are: %s", what, name, hint, strings.Join(names, ", "))
}

// Nearest is the name that is spelt most like a given one; "" if none comes near.
func Nearest(name string, names ...string) (best string) {
	const near = 0.6 // of 1: two of five letters may differ
	top := 0.0
	for _, n := range names {
		if like := levenshtein.Similarity(strings.ToLower(name), strings.ToLower(n), nil); like >= near && like > top {
			best, top = n, like
		}
	}
	return best
}
