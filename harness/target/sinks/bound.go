package sinks

import (
	"cmp"
	"fmt"

	"fencepost/harness/target/system"
)

// bound are the systems that can have one kind of sink only, and why. The text is of the
// system's name, and of the sink that it cannot have.
var bound = []struct {
	has       func(system.System) bool
	kind, why string
}{
	{designed(system.Exec), HTTP, // which every language speaks
		"system %s is a program of its own, which is given the sink " + HTTP + ": it cannot have the sink %s"},
	{func(s system.System) bool { return s.BrokenSink != "" }, HTTP,
		"what is broken in system %s is the service of the sink " + HTTP + ": it cannot have the sink %s"},
	{designed(system.LockPerJob), Cassandra,
		"system %s writes its effects into rows of the sink " + Cassandra + " itself, so it cannot have the sink %s"},
}

func designed(design string) func(system.System) bool {
	return func(s system.System) bool { return s.Design() == design }
}

// Of returns the sink that a run of a system has: the named one, or if none is named the
// system's own. A system that cannot have it is an error.
func Of(name string, sys system.System) (Kind, error) {
	only := ""
	for _, b := range bound {
		if !b.has(sys) {
			continue
		}
		if k, err := Find(cmp.Or(name, b.kind)); err == nil && k.Name != b.kind {
			return k, fmt.Errorf(b.why, sys.Name, k.Name)
		}
		only = b.kind
	}
	return Find(cmp.Or(name, only))
}
