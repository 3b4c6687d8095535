package evidence

import (
	"slices"

	"fencepost/checker"
	"fencepost/harness/target/system"
)

// FieldFaults are the scenarios of the field's table: what locks on all stores are put through, one
// after the other. The first is without faults.
var FieldFaults = []string{
	"steady", "pause-worker", "kill-worker", "partition-client", "lost-take", "flaky-links", "kill-node", "kill-nodes", "pause-node", "partition",
	"node-loses-data", "primary-fails-over", "server-clock-jump",
}

// fieldContention is that of all runs of the table: what is compared is alike.
const fieldContention = "medium"

// FieldTwins are the runs that make a red one of these count: the same with inert faults.
func FieldTwins(red []Result) (out []Job) {
	for _, r := range red {
		j := r.Job
		j.Inert = true
		if r.Verdict == checker.Fail && !r.Job.Inert && !slices.Contains(out, j) {
			out = append(out, j)
		}
	}
	return out
}

// FieldJobs are the runs of these systems under FieldFaults, those of one system together. suits says
// which of them there are: not every store can have every fault.
func FieldJobs(systems []system.System, first uint64, seeds int, suits func(Job) bool) (out []Job) {
	for _, s := range systems {
		for i := range seeds {
			for _, name := range FieldFaults {
				j := Job{Scenario: name, Contention: fieldContention, Seed: first + uint64(i), System: s.Name}
				if suits(j) {
					out = append(out, j)
				}
			}
		}
	}
	return out
}
