package api

import (
	"fmt"
	"slices"
)

// Operations are the routes, as the test of the document writes them.
func Operations() (out []string) {
	for _, r := range (&server{}).routes() {
		out = append(out, fmt.Sprintf("%s %s %s open=%t", r.method, r.path, r.id, r.open))
	}
	slices.Sort(out)
	return out
}
