package past

import (
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// WorkersIn finds the workers that targets name: a worker itself (w1), or a link
// of it to a node (w1->n2).
func WorkersIn(targets []string) []string {
	var out []string
	for _, t := range targets {
		for _, part := range strings.FieldsFunc(t, func(r rune) bool { return !alphanumeric(r) }) {
			if IsWorker(part) && !slices.Contains(out, part) {
				out = append(out, part)
			}
		}
	}
	return out
}

func alphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// IsWorker knows workers by their names: w and a number.
func IsWorker(name string) bool {
	return len(name) > 1 && name[0] == 'w' && strings.Trim(name[1:], "0123456789") == ""
}

// WorkerNames are the workers that recorded operations.
func (a *Past) WorkerNames() map[string]bool {
	out := map[string]bool{}
	for name, l := range a.Lives {
		if l.Recording && name != history.Harness {
			out[history.Worker(name)] = true
		}
	}
	return out
}
