package system

import (
	"fmt"
	"sort"
	"strings"

	"fencepost/checker"
)

// Core is the production lock client and sink.
const Core = "core"

// System is what a run drives.
type System struct {
	Name  string // core, broken/NAME
	About string
	// Binary is the worker's executable, beside the tool's own.
	Binary string
	// Variant is the known-broken variant that the worker takes on, "" for none.
	Variant string
	// LinksInert (a broken harness): faults on links are never put in force.
	LinksInert bool
	// MissingWorkers (a broken harness): so many workers of the scenario are not
	// started, and nobody says so.
	MissingWorkers int
	// Red says how a known-broken variant must be found; nil for a sound system.
	Red *Red
}

// Red is the directed run that must expose a variant.
type Red struct {
	Scenario   string
	Contention string
	Verdict    checker.Verdict
	// Properties: at least one of them must fail (be invalid, for INVALID).
	Properties []string
	// Mechanism is what the explanation of such a run must name; see checker.Mechanisms.
	Mechanism string
}

var core = System{Name: Core, About: "the production lock client and fenced sink on Cassandra", Binary: "worker"}

// Broken lists the known-broken variants.
func Broken() []System {
	out := make([]System, len(variants))
	for i, v := range variants {
		v.Binary = "worker"
		if !v.LinksInert && v.MissingWorkers == 0 {
			v.Binary, v.Variant = "worker-broken", strings.TrimPrefix(v.Name, broken)
		}
		out[i] = v
	}
	return out
}

// Find returns a system by name.
func Find(name string) (System, error) {
	if name == "" || name == Core {
		return core, nil
	}
	names := []string{Core}
	for _, v := range Broken() {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	sort.Strings(names[1:])
	return System{}, fmt.Errorf("unknown system %q; there are: %s", name, strings.Join(names, ", "))
}
