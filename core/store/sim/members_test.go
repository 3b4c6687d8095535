package sim_test

import (
	"testing"

	"fencepost/core/store/sim"
	"fencepost/core/store/storetest"
)

func TestMembersConformance(t *testing.T) {
	t.Parallel()
	storetest.RunMembers(t, sim.New().Connect("p", 1), "conformance")
}
