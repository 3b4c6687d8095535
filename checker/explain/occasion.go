package explain

import (
	"fmt"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// befell says what a fault does to the worker that it is aimed at. Other faults are
// reported by name.
var befell = map[string]string{
	"clock":             "had a wrong clock",
	"flaky-links":       "had flaky links",
	"heartbeat-loss":    "was not seen by the others",
	"kill-worker":       "was dead",
	"latency":           "had slow links",
	"lost-replies":      "got no answers from the lock store",
	"partition-client":  "was cut off from the lock store",
	"partition-peers":   "was cut off from the other workers",
	"partition-ring":    "was cut off from one node",
	"pause-worker":      "was paused",
	"sink-lost-replies": "got no answers from the sink",
	"sink-outage":       "was cut off from the sink",
	"slow-job":          "was slow in its critical section",
	"stop-worker":       "was stopped",
	"suspend":           "was suspended",
}

// FaultTold says whether an answer has words for what a fault does to workers.
func FaultTold(name string) bool { return befell[name] != "" }

// occasion is what befell the first worker of a case, by the last fault that was aimed at it.
func occasion(x *property.Inquiry, s *property.Suspect, faults []history.FaultWindow) string {
	if len(s.Procs) == 0 {
		return ""
	}
	worker := history.Worker(s.Procs[0])
	for _, f := range slices.Backward(faults) {
		if !slices.Contains(past.WorkersIn(f.Fault.Targets), worker) {
			continue
		}
		did := befell[f.Fault.Name]
		if did == "" {
			did = "was under " + f.Fault.Name
		}
		text := fmt.Sprintf("worker %s %s for %s", worker, did, inSeconds(f.To-f.From))
		if ttl := longestLease(x.Past); ttl > 0 && f.To-f.From > ttl {
			text += fmt.Sprintf(", past its lease of %s", inSeconds(ttl))
		}
		return text
	}
	return ""
}

// longestLease is the longest ttl of a lock or shard, 0 if there is none.
func longestLease(a *past.Past) int64 {
	longest := int64(0)
	for _, l := range a.Rows {
		for _, c := range l.CAS {
			longest = max(longest, c.TTL())
		}
	}
	return longest
}

func inSeconds(ns int64) string { return fmt.Sprintf("%.1f s", float64(ns)/1e9) }
