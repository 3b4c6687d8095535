package sinks

import (
	"cmp"
	"fmt"

	"fencepost/harness/target/system"
)

// bound are the systems that can have one kind of sink only, and why. The text names the
// system and the refused sink.
var bound = []struct {
	has       func(system.System) bool
	kind, why string
}{
	{designed(system.Exec), HTTP, // which every language speaks
		"system %s supports only the sink " + HTTP + ", not %s"},
	{func(s system.System) bool { return s.BrokenSink != "" }, HTTP,
		"system %s is broken in the service of the sink " + HTTP + ", so it supports only that sink, not %s"},
	{designed(system.LockPerJob), Cassandra,
		"system %s writes its effects into rows of the sink " + Cassandra + " itself, so it supports only that sink, not %s"},
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
