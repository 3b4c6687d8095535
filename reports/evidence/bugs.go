package evidence

import (
	"slices"

	"fencepost/checker"
)

// Bug is one of Cassandra or of its driver, or something that users run into on every release,
// with the runs that show it. All runs are drills.
type Bug struct {
	// Name is its number, or what it is called here. About says in a sentence what it does.
	Name, About string
	// Source is where it was reported and what its report says of releases that have the fix; ""
	// if no report is known: it is then unconfirmed.
	Source string
	// Red are the runs that must find it, by P2, Green those beside it that must not.
	Red, Green []OnRelease
}

// OnRelease is a drill on a release.
type OnRelease struct{ Scenario, Cassandra string }

// current are the newest releases of the lines that people run, and of what comes next.
var current = []string{"4.0.19", "4.1.10", "5.0.9", "6.0-alpha2"}

// Bugs are all that are shown by name.
var Bugs = []Bug{
	{
		Name: "CASSANDRA-12126", About: "a conditional write that timed out takes effect after a read, or another conditional write, has shown that it did not happen: a lock has two holders",
		Source: "CASSANDRA-12126: fixed in 3.0.24, 3.11.10 and 4.0-beta4",
		Red:    each("3.11.9", "paxos-incomplete-read", "paxos-rejected-cas", "paxos-release", "paxos-lease"),
		Green:  each("3.11.10", "paxos-incomplete-read", "paxos-rejected-cas", "paxos-release", "paxos-lease"),
	},
	{
		Name: "CASSANDRA-14092", About: "a lease with a TTL that ends after January 2038 is applied and gone at once, so that the next client gets it too",
		Source: "CASSANDRA-14092: fixed in 2.1.20, 2.2.12, 3.0.16 and 3.11.2",
		Red:    each("3.11.1", "trap-lease-2038"),
		Green:  each("3.11.9", "trap-lease-2038"),
	},
	{
		Name: "accord-ttl", About: "in a table of Accord's a conditional INSERT with a TTL is applied for everybody who tries",
		Red:   each("6.0-alpha2+accord", "trap-accord-lease"),
		Green: each("6.0-alpha2+accord", "trap-accord-lock"),
	},
	{
		Name: "write-ahead", About: "a plain write by a clock that is ahead wins against the conditional writes that follow: they are applied, and change nothing",
		Source: "by design: conditional and plain writes of one row must not be mixed (CASSANDRA-13767 among others)",
		Red:    on(current, "trap-write-ahead"),
		Green:  on(current, "trap-write-in-time"),
	},
	{
		Name: "partial-renewal", About: "the columns of a row expire one by one: a renewal that sets the owner alone leaves a lease without its token",
		Source: "by design: a TTL is a column's",
		Red:    on(current, "trap-renews-owner"),
		Green:  on(current, "trap-renews-all"),
	},
	{
		Name: "driver-retries", About: "gocql 1.7 with a retry policy sends a conditional write again whose answer was lost: the second copy is rejected by the first, and a client that has the lease is told that it has not",
		Source: "CASSGO-27 (apache/cassandra-gocql-driver #1803): fixed in 2.0.0 of the driver, which gocql 1.7 comes before",
		Red:    on(current, "trap-driver-retries"),
		Green:  on(current, "trap-driver-asks-once"),
	},
}

// each are several drills on one release.
func each(release string, scenarios ...string) (out []OnRelease) {
	for _, s := range scenarios {
		out = append(out, OnRelease{s, release})
	}
	return out
}

// on is one drill on several releases.
func on(releases []string, scenario string) (out []OnRelease) {
	for _, r := range releases {
		out = append(out, OnRelease{scenario, r})
	}
	return out
}

// foundBy is the property that finds all of them.
const foundBy = "P2"

// NoContention stands for the contention of a scenario that has no clients to compete.
const NoContention = "none"

// BugJobs are the runs of Bugs of these scenarios, those of one release together.
func BugJobs(scenarios []Scenario, first uint64, seeds int) []Job {
	var runs []OnRelease
	for _, b := range Bugs {
		runs = append(append(runs, b.Red...), b.Green...)
	}
	var releases []string
	for _, r := range runs {
		if !slices.Contains(releases, r.Cassandra) {
			releases = append(releases, r.Cassandra)
		}
	}
	var out []Job
	for _, release := range releases {
		for i := range seeds {
			for _, r := range runs {
				if r.Cassandra == release && slices.ContainsFunc(scenarios, func(s Scenario) bool { return s.Name == r.Scenario }) {
					out = append(out, Job{Scenario: r.Scenario, Contention: NoContention, Seed: first + uint64(i), System: core, Cassandra: release})
				}
			}
		}
	}
	return out
}

// MustBeRed reports whether a job is a drill on a release that has its bug.
func MustBeRed(j Job) bool {
	return j.System == core && slices.ContainsFunc(Bugs, func(b Bug) bool { return slices.Contains(b.Red, OnRelease{j.Scenario, j.Cassandra}) })
}

// Counts is what a job's attempts count as: their standing verdict, and of a job that must be
// red PASS if the last one was, by the property that finds it, and FAIL if it was not found.
func Counts(attempts []Result) checker.Verdict {
	if len(attempts) == 0 || !MustBeRed(attempts[0].Job) {
		return Standing(attempts)
	}
	switch last := attempts[len(attempts)-1]; {
	case last.Verdict == checker.Fail && slices.Contains(last.Fired(), foundBy):
		return checker.Pass
	case last.Verdict == checker.Pass:
		return checker.Fail
	default:
		return last.Verdict
	}
}
