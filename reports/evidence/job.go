package evidence

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/harness/record/verdict"
	"fencepost/internal/choice"
	"fencepost/reports/measure"
)

// Job is one run to do.
type Job struct {
	Scenario   string `json:"scenario"`
	Contention string `json:"contention"`
	Seed       uint64 `json:"seed"`
	// System is the system under test: core, broken/NAME.
	System string `json:"system"`
	// Sink is what takes the effects, "" for the system's own.
	Sink string `json:"sink,omitempty"`
	// Cassandra is the release of the nodes, "" for the default one.
	Cassandra string `json:"cassandra,omitempty"`
	// Inert: no fault is put in force, though the harness says so. What is found all the same does not
	// come from the fault.
	Inert bool `json:"inert,omitempty"`
}

// core is the system whose name is left out of names and texts.
const core = "core"

func (j Job) String() string {
	s := fmt.Sprintf("%s %s seed %d", j.Scenario, j.Contention, j.Seed)
	if j.System != core {
		s += " " + j.System
	}
	if j.Sink != "" {
		s += " sink " + j.Sink
	}
	if j.Cassandra != "" {
		s += " on Cassandra " + j.Cassandra
	}
	if j.Inert {
		s += ", faults inert"
	}
	return s
}

// name is the job's in the notes, without the attempt.
func (j Job) name() string {
	s := fmt.Sprintf("%s-%s-%d", j.Scenario, j.Contention, j.Seed)
	if j.System != core {
		s += "-" + strings.ReplaceAll(j.System, "/", "_")
	}
	if j.Sink != "" {
		s += "-sink_" + j.Sink
	}
	if j.Cassandra != "" {
		s += "-cassandra_" + j.Cassandra
	}
	if j.Inert {
		s += "-inert"
	}
	return s
}

var (
	part    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	release = regexp.MustCompile(`^[0-9][a-z0-9.-]*(\+[a-z]+)*$`)
)

// check refuses a job whose name would be no word. Of a program of a user's own that is any.
func (j Job) check() error {
	parts := []string{j.Scenario, j.Contention}
	if !strings.HasPrefix(j.System, "exec:") {
		parts = append(parts, strings.Split(j.System, "/")...)
	}
	if j.Sink != "" {
		parts = append(parts, j.Sink)
	}
	for _, s := range parts {
		if !part.MatchString(s) {
			return fmt.Errorf("job %q: %q must be lower-case letters, digits and -", j, s)
		}
	}
	if j.Cassandra != "" && !release.MatchString(j.Cassandra) {
		return fmt.Errorf("job %q: %q is no release, such as 4.1.10", j, j.Cassandra)
	}
	return nil
}

// compare sorts by scenario, contention, system, sink, release, seed.
func compare(a, b Job) int {
	return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(rank(a.Contention), rank(b.Contention)),
		cmp.Compare(a.Contention, b.Contention),
		cmp.Compare(a.System, b.System), cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Cassandra, b.Cassandra), cmp.Compare(a.Seed, b.Seed), cmp.Compare(word(a.Inert), word(b.Inert)))
}

func word(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func rank(contention string) int { return slices.Index([]string{"low", "medium", "high"}, contention) }

// Error is the verdict of a run that could not be carried out or not be checked.
const Error checker.Verdict = "ERROR"

// ExitCode is the exit code that a verdict stands for.
func ExitCode(v checker.Verdict) int {
	if v == Error {
		return 2
	}
	return v.ExitCode()
}

// Worst returns the verdict that wins: FAIL, ERROR, INVALID, UNKNOWN, PASS. A
// violation outweighs everything; a run that did not happen outweighs one that
// tested too little.
func Worst(v, w checker.Verdict) checker.Verdict {
	for _, x := range []checker.Verdict{checker.Fail, Error} {
		if v == x || w == x {
			return x
		}
	}
	return verdict.Worst(v, w)
}

// Keys of rundir.Info's Versions: the commit that the tool was built from, with
// DirtyCommit behind it for a changed work tree, the digest of the code that decides a verdict, and
// that of the run's plan. Of a run that was judged again the first two are of who judged, and
// RanCommitKey and RanTreeKey of who ran it.
const (
	CommitKey    = "fencepost"
	DirtyCommit  = "-dirty"
	TreeKey      = "tree"
	PlanKey      = "plan"
	RanCommitKey = "ran_commit"
	RanTreeKey   = "ran_tree"
)

// Version of the format of a stored result.
const Version = 2

// Result is what a run showed.
type Result struct {
	Version int `json:"version"`
	Job     Job `json:"job"`
	// Attempt counts from 1; a job that was run again has several results.
	Attempt int             `json:"attempt"`
	Verdict checker.Verdict `json:"verdict"` // the checker's, or ERROR
	// Error is why there is no verdict.
	Error string      `json:"error,omitempty"`
	Info  rundir.Info `json:"run"`
	// Check is verdict.json without events and drawings; nil if the run was not checked.
	Check *checker.Result `json:"check,omitempty"`
	// Sometimes are the points that the scenario expects now and then.
	Sometimes []string `json:"sometimes,omitempty"`
	// Points are those that faults waited for, with what became of the operations there; nil
	// in results that are older than them.
	Points []measure.Reach `json:"points,omitempty"`
	// Orphan is the longest time that a lock taken over had been without a sign
	// of life of its holder, in lease times (ttl).
	Orphan float64 `json:"orphan_ttl,omitempty"`
	// P99Before and P99During are the 99th percentiles of waiting for a lock
	// before the fault and in the fault phase.
	P99Before time.Duration `json:"p99_before_ns,omitempty"`
	P99During time.Duration `json:"p99_during_ns,omitempty"`
	// Detection is how fast a known-broken variant was found; nil for others.
	Detection *Detection `json:"detection,omitempty"`
	// Took is the time that all of it took, with the check.
	Took time.Duration `json:"took_ns"`
	// History is the archive of a PASS, whose directory is gone; nil of others, which
	// keep theirs, and in results that are older than archives.
	History *rundir.Archive `json:"history,omitempty"`

	// Dir is the run's directory; of a PASS it is removed when the result and the archive
	// are stored.
	Dir string `json:"-"`
	// Meant are the points for which the faults of its plan wait, each armed as often.
	Meant []measure.Reach `json:"-"`
}

// Detection is counted from the begin of the run's load.
type Detection struct {
	// Violation is when the first event happened that contradicts an expected
	// property (of those that the verdict lists); 0 if none fired.
	Violation time.Duration `json:"violation_ns,omitempty"`
	// Verdict is when the verdict was there.
	Verdict time.Duration `json:"verdict_ns"`
	// Causes are the mechanisms that the explanation names first; nil in results that
	// are older than explanations, and of a PASS.
	Causes []string `json:"causes,omitempty"`
}

// Name is the result's in the notes: NAME, and NAME.2 for the second attempt.
func (r Result) Name() string {
	if r.Attempt <= 1 {
		return r.Job.name()
	}
	return fmt.Sprintf("%s.%d", r.Job.name(), r.Attempt)
}

// Tree is the digest of what decided the verdict, "" if it is not known.
func (r Result) Tree() string { return r.Info.Versions[TreeKey] }

// Fired lists the properties that are violated, or invalid.
func (r Result) Fired() []string {
	var out []string
	if r.Check == nil {
		return nil
	}
	for _, p := range r.Check.Properties {
		if p.Status == checker.StatusFail || p.Status == checker.StatusInvalid {
			out = append(out, p.ID)
		}
	}
	return out
}

// Standing is the verdict of a job with all its attempts: a violation stays one
// whatever a later attempt shows; else the last attempt counts.
func Standing(attempts []Result) checker.Verdict {
	for _, r := range attempts {
		if r.Verdict == checker.Fail {
			return checker.Fail
		}
	}
	if len(attempts) == 0 {
		return checker.Unknown
	}
	return attempts[len(attempts)-1].Verdict
}

// Scenario is what a set needs to know of one.
type Scenario struct {
	Name string
	// Contentions are the levels that it was made for; none means all.
	Contentions []string
	// Default is the level that it has by itself.
	Default string
}

// Set is a collection of scenarios, by patterns over their names.
type Set struct {
	Name  string
	About string
	// Only and Except are patterns (path.Match); no Only means all.
	Only, Except []string
	// Bugs: its runs are those of these; its scenarios are theirs.
	Bugs []Bug
}

// Sets are the collections that there are.
var Sets = []Set{
	{Name: "locks", About: "every scenario of the lock workload", Except: []string{"soak", "paxos-*", "trap-*", "jobs-*", "orders-*"}},
	{Name: "jobs", About: "every scenario of the job workload", Only: []string{"jobs-*"}},
	{Name: "orders", About: "every scenario of orders in PostgreSQL", Only: []string{"orders-*"}},
	{Name: "smoke", About: "three short ones, to see that all works", Only: []string{"steady", "kill-worker", "pause-worker"}},
	{Name: "paxos", About: "the drills of the lock store's own consensus", Only: []string{"paxos-*"}},
	{Name: "releases", About: "bugs of releases of Cassandra by name, each with the release or the use that has it and one that has not",
		Bugs: Bugs},
	{Name: "bugs", About: "bugs of libraries of locks by name, with their systems on their stores, and those of releases", Bugs: slices.Concat(Libraries, Bugs)},
}

// FindSet returns a set by name.
func FindSet(name string) (Set, error) {
	var names []string
	for _, s := range Sets {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Set{}, choice.Unknown("set", name, names...)
}

// Of returns the scenarios of the set.
func (s Set) Of(all []Scenario) []Scenario {
	runs := runsOf(s.Bugs)
	return slices.DeleteFunc(slices.Clone(all), func(c Scenario) bool {
		return len(runs) > 0 && !slices.ContainsFunc(runs, func(r BugRun) bool { return r.Scenario == c.Name }) ||
			len(s.Only) > 0 && !matches(s.Only, c.Name) || matches(s.Except, c.Name)
	})
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// levels are those wanted that the scenario was made for, or its own.
func (s Scenario) levels(wanted []string) []string {
	out := slices.DeleteFunc(slices.Clone(wanted), func(c string) bool {
		return len(s.Contentions) > 0 && !slices.Contains(s.Contentions, c)
	})
	if len(out) == 0 {
		return []string{s.Default}
	}
	return out
}

// Jobs lists scenarios x contentions x seeds on the core. Seeds are the outermost,
// so that a part of the list has every scenario.
func Jobs(scenarios []Scenario, contentions []string, first uint64, seeds int) []Job {
	var out []Job
	for i := range seeds {
		for _, s := range scenarios {
			for _, c := range s.levels(contentions) {
				out = append(out, Job{Scenario: s.Name, Contention: c, Seed: first + uint64(i), System: core})
			}
		}
	}
	return out
}

// Random yields jobs of random scenarios, contentions and seeds until the time
// is over: each run has a seed of its own and can be repeated alone.
func Random(scenarios []Scenario, contentions []string, rng *rand.Rand, until time.Time, now func() time.Time) iter.Seq[Job] {
	return func(yield func(Job) bool) {
		for len(scenarios) > 0 && now().Before(until) {
			s := scenarios[rng.IntN(len(scenarios))]
			levels := s.levels(contentions)
			j := Job{Scenario: s.Name, Contention: levels[rng.IntN(len(levels))], Seed: rng.Uint64N(1_000_000_000), System: core}
			if !yield(j) {
				return
			}
		}
	}
}
