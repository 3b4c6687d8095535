// Command temporal is a job scheduler by the activities of Temporal, driven through its own library as
// fencepost's contract for programs wants it:
//
//	schedulers-temporal NAME
//
// It is a module of its own, so that the others do not need that library: make systems SYSTEM=temporal builds it.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"fencepost/systems/drive"
)

var schedulers = map[string]drive.Scheduler{
	"temporal":        {Setup: setUp, Open: open},
	"temporal-fenced": {Setup: setUp, Open: open, Fenced: true},
}

func main() {
	if len(os.Args) == 2 {
		if s, ok := schedulers[os.Args[1]]; ok {
			drive.MainJobs(s)
		}
	}
	fmt.Fprintf(os.Stderr, "usage: schedulers-temporal NAME; the names are %s\n", strings.Join(slices.Sorted(maps.Keys(schedulers)), ", "))
	os.Exit(64)
}
