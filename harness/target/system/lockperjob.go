package system

import "fencepost/harness/record/verdict"

// lockPerJob is the design that the core is compared with; docs/lock-per-job.md tells
// what it is, which properties cannot apply to it, and why.
var lockPerJob = System{
	Name: LockPerJob, About: "a scheduler of the plain design, a lock for each job, with its known holes",
	Binary: "worker", Scheduler: LockPerJob,
	Promises: []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P12", "P13"},
	// It rescues nobody and hands nothing over, has no inboxes, tells no holder that
	// its lock is lost, refuses no effect, and does not send conditional requests
	// twice. What it takes over it does by chance: the pending row must be left.
	Unreached: []string{"rescue", "hand-over", "inbox", "lease-lost", "stale-refused", "resend", "takeover"},
}

// hole is one known hole of lock-per-job.
type hole struct {
	name, about string
	red         Red
}

var holes = []hole{
	{"tokens-fall", "fencing tokens come from Hi/Lo blocks, taken before the lock", Red{
		Scenario: "jobs-steady", Contention: "medium", Verdict: verdict.Fail, Properties: []string{"P1"}}},
	{"renewal-ignored", "a renewal that fails is only logged, the run continues", Red{
		Scenario: "jobs-partition-client", Contention: "medium", Verdict: verdict.Fail, Properties: []string{"P7"}}},
	{"job-lost", "the pending row is deleted before the run, and nothing reconciles", Red{
		Scenario: "jobs-kill-worker", Contention: "medium", Verdict: verdict.Fail, Properties: []string{"P5"}}},
	{"token-unchecked", "tokens are recorded with effects and never compared", Red{
		Scenario: "jobs-pause-claim", Contention: "medium", Verdict: verdict.Fail, Properties: []string{"P3", "P4"}}},
	{"wall-expiry", "locks expire by the wall clocks of those who want them", Red{
		Scenario: "jobs-clock-ahead", Contention: "medium", Verdict: verdict.Fail, Properties: []string{"P8"}}},
}
