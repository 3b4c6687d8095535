package evidence

import (
	"cmp"
	"slices"

	"fencepost/checker"
	"fencepost/harness/target/system"
)

// Bug is one of a library of locks, of Cassandra or of its driver, or something that users run into
// on every release, with the runs that show it.
type Bug struct {
	// Name is its number, or what it is called here. About says in a sentence what it does.
	Name, About string
	// Source is where it was reported and what its report says of releases that have the fix; ""
	// if no report is known: it is then unconfirmed.
	Source string
	// Red are the runs that must find it, Green those beside it that must not.
	Red, Green []BugRun
}

// BugRun is a run that shows a bug, or that it is not there: a drill on a release of Cassandra, which
// finds a bug by P2, or a system under a scenario. A row of that system says by what it must be red
// (package system).
type BugRun struct {
	Scenario  string
	Cassandra string // "": the run is of a system
	System    string // "": the run is a drill
	// Contention is that of a system's run, "" for the scenario's own.
	Contention string
}

// job is a run's, of a scenario in its own contention if the run names none.
func (r BugRun) job(own string, seed uint64) Job {
	return Job{Scenario: r.Scenario, Contention: cmp.Or(r.Contention, own), Seed: seed, System: cmp.Or(r.System, core), Cassandra: r.Cassandra}
}

// current are the newest releases of the lines that people run, and of what comes next.
var current = []string{"4.0.19", "4.1.10", "5.0.9", "6.0-alpha2"}

// Bugs are those of Cassandra and of its driver.
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
		Name: "commit-log", About: "a node that is killed has forgotten what it acknowledged last, a write of a lease and its promise too: with another node out of reach the next client gets the lease too",
		Source: "by design: commitlog_sync is periodic by default, and what comes after the log's last marker is not replayed (decision 0005)",
		Red:    on(periodic(current), "trap-killed-node"),
		Green:  on(current, "trap-killed-node"),
	},
	{
		Name: "driver-retries", About: "gocql 1.7 with a retry policy sends a conditional write again whose answer was lost: the second copy is rejected by the first, and a client that has the lease is told that it has not",
		Source: "CASSGO-27 (apache/cassandra-gocql-driver #1803): fixed in 2.0.0 of the driver, which gocql 1.7 comes before",
		Red:    on(current, "trap-driver-retries"),
		Green:  on(current, "trap-driver-asks-once"),
	},
}

// periodic are releases whose nodes sync their commit log periodically.
func periodic(releases []string) (out []string) {
	for _, r := range releases {
		out = append(out, r+"+periodic")
	}
	return out
}

// each are several drills on one release.
func each(release string, scenarios ...string) (out []BugRun) {
	for _, s := range scenarios {
		out = append(out, BugRun{Scenario: s, Cassandra: release})
	}
	return out
}

// on is one drill on several releases.
func on(releases []string, scenario string) (out []BugRun) {
	for _, r := range releases {
		out = append(out, BugRun{Scenario: scenario, Cassandra: r})
	}
	return out
}

// foundBy is the property that finds all of them.
const foundBy = "P2"

// NoContention stands for the contention of a scenario that has no clients to compete.
const NoContention = "none"

// runsOf are all runs of these bugs.
func runsOf(bugs []Bug) (out []BugRun) {
	for _, b := range bugs {
		out = append(append(out, b.Red...), b.Green...)
	}
	return out
}

// BugJobs are the runs of these bugs of these scenarios, those of one release and of one system together.
func BugJobs(bugs []Bug, scenarios []Scenario, first uint64, seeds int) []Job {
	type place struct{ cassandra, system string }
	runs := runsOf(bugs)
	var places []place
	for _, r := range runs {
		if at := (place{r.Cassandra, r.System}); !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	var out []Job
	for _, at := range places {
		for i := range seeds {
			for _, r := range runs {
				n := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == r.Scenario })
				if at == (place{r.Cassandra, r.System}) && n >= 0 {
					out = append(out, r.job(scenarios[n].Default, first+uint64(i)))
				}
			}
		}
	}
	return out
}

// MustFind are the properties of which one must find something in a job: a drill on a release that
// has its bug, a lock on another store under what it is not made for, or under a bug of its library. Of all others it is nil.
func MustFind(j Job) []string {
	if j.Inert {
		return nil
	}
	if j.System == core && slices.ContainsFunc(Bugs, func(b Bug) bool { return slices.Contains(b.Red, BugRun{Scenario: j.Scenario, Cassandra: j.Cassandra}) }) {
		return []string{foundBy}
	}
	if s, ok := system.FindOnStore(j.System, j.Scenario, j.Contention); ok && s.Red.Verdict == checker.Fail {
		return s.Red.Properties
	}
	return nil
}

// Counts is what a job's attempts count as: their standing verdict, and of a job that must find
// something PASS if the last one did, by a property that must, and FAIL if it found nothing. Of one whose
// faults are inert it is PASS if nothing was found.
func Counts(attempts []Result) checker.Verdict {
	if len(attempts) == 0 {
		return Standing(attempts)
	}
	if last := attempts[len(attempts)-1]; last.Job.Inert {
		return countsInert(last)
	}
	must := MustFind(attempts[0].Job)
	if must == nil {
		return Standing(attempts)
	}
	switch last := attempts[len(attempts)-1]; {
	case last.Verdict == checker.Fail && slices.ContainsFunc(last.Fired(), func(id string) bool { return slices.Contains(must, id) }):
		return checker.Pass
	case last.Verdict == checker.Pass:
		return checker.Fail
	default:
		return last.Verdict
	}
}

// countsInert: without its fault a run is INVALID, as the harness cannot prove one, and must violate nothing.
func countsInert(r Result) checker.Verdict {
	if r.Verdict == checker.Invalid {
		return checker.Pass
	}
	return r.Verdict
}
