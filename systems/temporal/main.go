// Command temporal is a job scheduler by the activities of Temporal, driven through its own library as
// fencepost's contract for programs wants it:
//
//	schedulers-temporal NAME
//
// It is a module of its own, so that the others do not need that library: make systems SYSTEM=temporal builds it.
package main

import "fencepost/systems/drive"

var schedulers = map[string]drive.Scheduler{
	"temporal":        {Setup: setUp, Open: open},
	"temporal-fenced": {Setup: setUp, Open: open, Fenced: true},
}

func main() { drive.MainJobs(schedulers) }
