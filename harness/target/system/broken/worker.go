package broken

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/harness/target/workload"
)

// variants make the hooks of a process; those of one variant may share state.
var variants = map[string]func() workload.Hooks{}

// plant makes known what hooks plant the variant of a name, which is a row of package
// system without "broken/". It panics on a second one.
func plant(name string, hooks func() workload.Hooks) {
	if variants[name] != nil {
		panic("broken: variant " + name + " is planted twice")
	}
	variants[name] = hooks
}

// only is hooks without shared state.
func only(h workload.Hooks) func() workload.Hooks { return func() workload.Hooks { return h } }

// Names lists the variants of the worker.
func Names() []string { return slices.Sorted(maps.Keys(variants)) }

// Worker returns the hooks of a variant by its name without "broken/".
func Worker(name string) (workload.Hooks, error) {
	if h, ok := variants[name]; ok {
		return h(), nil
	}
	return workload.Hooks{}, fmt.Errorf("unknown variant %q; there are: %s", name, strings.Join(Names(), ", "))
}
