package cassandra

import (
	"fmt"
	"regexp"
	"strconv"
)

// ReleaseError is a node whose release breaks what everything here rests on: a conditional
// write that timed out may take effect after a SERIAL read, or a rejected conditional write, has shown
// that it did not (CASSANDRA-12126; fixed in 3.0.24, 3.11.10 and 4.0-beta4). A lock can then have
// two holders with one token.
type ReleaseError struct{ Node, Release string }

func (e *ReleaseError) Error() string {
	return fmt.Sprintf("cassandra: node %s runs %s, in which a conditional write that timed out may take effect after it was seen not to have happened (CASSANDRA-12126): a shard could have two owners; use 4.0 or later", e.Node, e.Release)
}

// releaseForm is a release: three numbers, what a vendor adds, and of one before the first
// final release which it is.
var releaseForm = regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?(?:[.\d]*)(?:-(alpha|beta|rc)(\d*))?`)

// linearizable reports whether a release has the fix of CASSANDRA-12126. One that says nothing
// that can be read is taken to have it.
func linearizable(release string) bool {
	m := releaseForm.FindStringSubmatch(release)
	if m == nil {
		return true
	}
	n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v }
	major, minor, patch := n(1), n(2), n(3)
	switch {
	case major > 4 || major == 4 && minor > 0:
		return true
	case major == 4:
		return patch > 0 || m[4] == "" || m[4] == "rc" || m[4] == "beta" && n(5) >= 4
	case major == 3 && minor == 11:
		return patch >= 10
	case major == 3 && minor == 0:
		return patch >= 24
	}
	return false
}
