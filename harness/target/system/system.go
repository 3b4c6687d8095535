package system

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/harness/record/verdict"
	"fencepost/internal/choice"
)

// Core is the production lock client and sink.
const Core = "core"

// LockPerJob is the scheduler with a lock for each job (harness/target/system/lockperjob).
const LockPerJob = "lock-per-job"

// Exec is what the names of users' own programs begin with: exec:CMD.
const Exec = "exec:"

// System is what a run drives.
type System struct {
	Name  string // core, lock-per-job, broken/NAME, exec:CMD
	About string
	// Case names one of several directed runs of a system, "" if it has one or none.
	Case string
	// Binary is the worker's executable, beside the tool's own.
	Binary string
	// Child is a program that Binary starts, "" for none. It is beside Binary, and make systems
	// SYSTEM=… builds it.
	Child string
	// Variant is the known-broken variant that the worker takes on, "" for none.
	Variant string
	// Scheduler is what its workers run jobs with, "" for the core's. It has no locks
	// to run without jobs.
	Scheduler string
	// Command is a program that is run instead of a worker (package own); nil for fencepost's.
	// Its promises it makes itself. With a Binary these are the arguments of that one.
	Command []string
	// Store is where it keeps its locks (package servers), "" for Cassandra; of exec:CMD whatever
	// a run names.
	Store string
	// OptIn: nothing builds or runs it but what names it or its store, as that takes minutes.
	OptIn bool
	// Redelivery is how much later than a lease is over it gives what a dead owner had to another.
	Redelivery time.Duration
	// Promises are the properties that it claims; none means all. The rest is n/a.
	Promises []string
	// Unreached are the points of scenarios that it does not come to, by design.
	Unreached []string
	// Inert (a broken harness): faults of this family (package fault) are never put in
	// force, though the harness says so; "" for none, "every" for all.
	Inert string
	// MissingWorkers (a broken harness): so many workers of the scenario are not
	// started, and nobody says so.
	MissingWorkers int
	// BrokenSink is what is broken in the sink's service (lab.ForgesLedger), "" for nothing.
	BrokenSink string
	// Sink is the only one that it can have, as its mistake is in how it uses that; "": any.
	Sink string
	// Chapter is where docs/known-broken.md has a known-broken variant, Note what it says
	// beside About, and Seen where real systems have had the mistake, with references; the
	// last two may be "".
	Chapter, Note, Seen string
	// Red says how a known-broken variant must be found; nil for a sound system.
	Red *Red
}

// Label is the name in tables and on the command line: of a known-broken variant
// without its prefix, of a case with it.
func (s System) Label() string {
	if s.Case != "" {
		return s.Name + "/" + s.Case
	}
	return strings.TrimPrefix(s.Name, broken)
}

// Design is the design of what runs in its workers: Core, LockPerJob or Exec.
func (s System) Design() string {
	switch {
	case s.Command != nil:
		return Exec
	case s.Scheduler != "":
		return s.Scheduler
	}
	return Core
}

// Words are the command line of a program that is run instead of a worker; binDir is where
// the tool's executables are.
func (s System) Words(binDir string) []string {
	if s.Binary == "" {
		return s.Command
	}
	return append([]string{filepath.Join(binDir, s.Binary)}, s.Command...)
}

// Red is the directed run that must expose a variant, or a hole in a design.
type Red struct {
	Scenario   string
	Contention string
	// Workload is the set of workload parameters of that run, "" for the scenario's own.
	Workload string
	Verdict  verdict.Verdict // in the rows here: none means FAIL
	// Properties: at least one of them must fail (be invalid, for INVALID).
	Properties []string
	// Mechanism is what the explanation of such a run must name; see checker.Mechanisms.
	Mechanism string
}

var core = System{Name: Core, About: "the production lock client and fenced sink on Cassandra", Binary: "worker"}

// Broken lists the known-broken variants.
func Broken() []System { return slices.Clone(variants) }

// Directed lists everything that a directed run on Cassandra must find: the known-broken
// variants, and each known hole of lock-per-job as a case of it.
func Directed() []System {
	out := slices.DeleteFunc(Broken(), func(s System) bool { return s.Store != "" })
	for _, h := range holes {
		s := lockPerJob
		s.Case, s.About, s.Red = h.Case, h.About, h.Red
		out = append(out, s)
	}
	return out
}

// OnStores lists what a directed run on another store must find: known-broken variants, and what
// locks there cannot keep, as cases of them.
func OnStores() []System {
	out := slices.DeleteFunc(Broken(), func(s System) bool { return s.Store == "" })
	all := slices.Concat(stored, reported)
	for _, u := range unkept {
		s := all[slices.IndexFunc(all, func(s System) bool { return s.Name == u.Name })]
		s.Case, s.About, s.Red = u.Case, u.About, u.Red
		out = append(out, s)
	}
	return out
}

// Stored lists the locks on other stores that are compared (docs/field.md).
func Stored() []System { return slices.Clone(stored) }

// Field lists what is compared under the same faults: the core, and Stored.
func Field() []System { return append([]System{core}, stored...) }

// FindDirected returns what a run of a system under a scenario must find.
func FindDirected(name, scenario, contention string) (System, bool) {
	return find(Directed(), name, scenario, contention)
}

// FindOnStore is FindDirected of OnStores.
func FindOnStore(name, scenario, contention string) (System, bool) {
	return find(OnStores(), name, scenario, contention)
}

func find(all []System, name, scenario, contention string) (System, bool) {
	for _, s := range all {
		if s.Name == name && s.Red.Scenario == scenario && s.Red.Contention == contention {
			return s, true
		}
	}
	return System{}, false
}

// Designs lists the systems that are whole designs, not variants of one.
func Designs() []System { return slices.Concat([]System{core, lockPerJob}, stored, reported) }

// Find returns a system by name.
func Find(name string) (System, error) {
	if name == "" {
		return core, nil
	}
	if line, own := strings.CutPrefix(name, Exec); own {
		words := strings.Fields(line)
		if len(words) == 0 {
			return System{}, fmt.Errorf("%sCMD: no program is named, such as exec:python3 examples/python-lock/locker.py", Exec)
		}
		return System{Name: Exec + strings.Join(words, " "), About: "a program of your own", Command: words}, nil
	}
	var names []string
	for _, d := range Designs() {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	first := len(names)
	for _, v := range variants {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	slices.Sort(names[first:])
	return System{}, choice.Unknown("system", name, append(names, Exec+"CMD")...)
}

// lockPerJob is the design that the core is compared with; docs/lock-per-job.md tells
// what it is, which properties cannot apply to it, and why.
var lockPerJob = System{
	Name: LockPerJob, About: "a scheduler of the plain design, a lock for each job, with its known holes",
	Binary: "worker", Scheduler: LockPerJob,
	Promises: []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P12", "P13"},
	// It rescues nobody and hands nothing over, has no inboxes, tells no holder that
	// its lock is lost, refuses no effect, and does not send conditional requests
	// twice. What it takes over it does by chance: the pending row must be left.
	Unreached: []string{"rescue", "abandon", "hand-over", "move", "inbox", "lease-lost", "stale-refused", "resend", "takeover"},
}

// holes are its known ones.
var holes = red([]System{
	{Case: "tokens-fall", About: "fencing tokens come from Hi/Lo blocks, taken before the lock",
		Red: &Red{Scenario: "jobs-steady", Contention: "medium", Properties: []string{"P1"}}},
	{Case: "renewal-ignored", About: "a renewal that fails is only logged, the run continues",
		Red: &Red{Scenario: "jobs-partition-client", Contention: "medium", Properties: []string{"P7"}}},
	{Case: "job-lost", About: "the pending row is deleted before the run, and nothing reconciles",
		Red: &Red{Scenario: "jobs-kill-worker", Contention: "medium", Properties: []string{"P5"}}},
	{Case: "token-unchecked", About: "tokens are recorded with effects and never compared",
		Red: &Red{Scenario: "jobs-pause-claim", Contention: "medium", Properties: []string{"P3", "P4"}}},
	{Case: "wall-expiry", About: "locks expire by the wall clocks of those who want them",
		Red: &Red{Scenario: "jobs-clock-ahead", Contention: "medium", Properties: []string{"P8"}}},
})
