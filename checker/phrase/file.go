package phrase

import (
	"path/filepath"
	"strings"
)

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
