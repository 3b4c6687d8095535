package fault

import (
	"testing"

	"fencepost/harness/target/system"
)

// Each family of faults has a known-broken harness that leaves it out, directed at a run
// that needs it.
func TestEveryFamilyHasItsInertVariant(t *testing.T) {
	t.Parallel()
	left := map[Family]bool{}
	for _, f := range Families() {
		left[f] = true
	}
	for _, v := range system.Broken() {
		if v.Inert == "" {
			continue
		}
		if !left[Family(v.Inert)] {
			t.Errorf("%s: there is no family %q, or it is taken", v.Name, v.Inert)
		}
		delete(left, Family(v.Inert))
		if v.Name != Family(v.Inert).Inert() {
			t.Errorf("%s leaves out %q", v.Name, v.Inert)
		}
	}
	for f := range left {
		t.Errorf("no known-broken harness leaves out %q", f)
	}
}
