package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"fencepost/bench"
	"fencepost/bench/checkers"
	"fencepost/bench/effects"
	"fencepost/bench/jobs"
	"fencepost/bench/locks"
	"fencepost/bench/recorder"
	"fencepost/internal/choice"
)

// subjects of a benchmark.
const (
	subjectLocks    = "locks"
	subjectJobs     = "jobs"
	subjectRecorder = "recorder"
	subjectChecker  = "checker"
	subjectEffects  = "effects"
	subjectField    = "field"
)

// benchSubject is something to measure.
type benchSubject struct {
	name string
	// flags are those that mean something to it and not to all others.
	flags []string
	// suites checks everything before anything starts.
	suites func(benchFlags) ([]benchSuite, error)
	// alone: it needs no cluster of the user's choice. Untimed: what its arms do takes as long as it takes.
	alone, untimed bool
	// servers: it starts all that it needs itself, in a sandbox, and a Cassandra cluster beside.
	servers bool
}

func benchSubjects() []benchSubject {
	return []benchSubject{
		{name: subjectLocks, flags: []string{"system", "contention", "threads", "ttl", "processes"}, suites: benchFlags.lockSuites},
		{name: subjectJobs, flags: []string{"shards", "schedulers", "in-flight", "steady", "rate"}, suites: benchFlags.jobSuites},
		{name: subjectRecorder, flags: []string{"contention", "threads"}, suites: benchFlags.recorderSuites},
		{name: subjectEffects, suites: benchFlags.effectSuites, alone: true},
		{name: subjectField, flags: []string{"locks"}, suites: benchFlags.fieldSuites, alone: true, servers: true},
		{name: subjectChecker, flags: []string{"ops"}, suites: benchFlags.checkerSuites, alone: true, untimed: true},
	}
}

func subjectNames() (names []string) {
	for _, s := range benchSubjects() {
		names = append(names, s.name)
	}
	return names
}

// of finds the subject.
func (f *benchFlags) of() (benchSubject, error) {
	for _, s := range benchSubjects() {
		if s.name == f.subject {
			return s, nil
		}
	}
	return benchSubject{}, usageError(choice.Unknown("subject", f.subject, subjectNames()...))
}

// belong refuses flags of other subjects: they would change nothing.
func (f *benchFlags) belong(fl *pflag.FlagSet) error {
	subject, err := f.of()
	if err != nil {
		return err
	}
	owners := map[string][]string{}
	for _, s := range benchSubjects() {
		for _, name := range s.flags {
			owners[name] = append(owners[name], s.name)
		}
		for name, has := range map[string]bool{"cluster": !s.alone, "image": !s.alone, "arm": !s.untimed} {
			if has {
				owners[name] = append(owners[name], s.name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		if fl.Changed(name) && !slices.Contains(owners[name], subject.name) {
			return usageError(fmt.Errorf("--%s is a flag of --subject=%s", name, strings.Join(owners[name], ", --subject=")))
		}
	}
	f.counted, f.chosen = fl.Changed("rounds"), fl.Changed("schedulers")
	if f.counted && fl.Changed("budget") {
		return usageError(errors.New("--rounds and --budget: a budget decides how many rounds there are, so give one of them"))
	}
	if f.budget <= 0 {
		return usageError(fmt.Errorf("--budget=%s: use more than 0", f.budget))
	}
	for _, name := range slices.Concat(subject.flags, []string{"rounds", "budget", "arm"}) {
		// The contention is said with each suite, as each has one of those that were given.
		if x := fl.Lookup(name); name != "contention" && x.Changed {
			f.given += fmt.Sprintf(" --%s=%s", name, strings.Trim(x.Value.String(), "[]"))
		}
	}
	return nil
}

// benchSuite is a suite, and what repeats it.
type benchSuite struct {
	bench.Suite
	command string
	// config is what a suite with arms in several processes was made from: they make it again.
	config suiteConfig
}

// suites are those of the subject.
func (f benchFlags) suites() ([]benchSuite, error) {
	subject, err := f.of()
	if err != nil {
		return nil, err
	}
	out, err := subject.suites(f)
	if err != nil {
		return nil, usageError(err)
	}
	return out, nil
}

func (f benchFlags) config() bench.Config {
	c := bench.Config{Rounds: f.rounds, Window: f.arm, Seed: f.seed}
	if !f.counted {
		c.Budget = f.budget
	}
	return c
}

func (f benchFlags) lockSuites() ([]benchSuite, error) {
	levels, err := locks.ParseContentions(f.contention)
	if err != nil {
		return nil, err
	}
	variant, ok := locks.FindVariant(f.system)
	if !ok {
		return nil, choice.Unknown("system for a benchmark of locks", f.system, locks.Systems()...)
	}
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of locks")
	}
	spreads, err := locks.ParseSpreads(f.processes)
	if err != nil {
		return nil, fmt.Errorf("--processes: %w", err)
	}
	var out []benchSuite
	for _, c := range levels {
		made := suiteConfig{Locks: &locks.Config{Config: f.config(), Contention: c, Threads: f.threads, TTLs: f.ttls, Spreads: spreads, Variant: variant}}
		s, err := made.suite()
		if err != nil {
			return nil, err
		}
		out = append(out, benchSuite{s, f.command("contention", string(c)), made})
	}
	return out, nil
}

func (f benchFlags) jobSuites() ([]benchSuite, error) {
	if f.inFlight == 0 || f.rate == 0 {
		return nil, errors.New("--in-flight and --rate must be more than 0")
	}
	schedulers, err := jobs.ParseSchedulers(f.schedulers)
	if err != nil {
		return nil, fmt.Errorf("--schedulers: %w", err)
	}
	if !f.chosen {
		schedulers = slices.DeleteFunc(schedulers, func(n int) bool { return n > f.shards[0] })
	}
	made := suiteConfig{Jobs: &jobs.Config{
		Config: f.config(), Shards: f.shards, Schedulers: schedulers, InFlight: f.inFlight, Steady: f.steady, Rate: f.rate, NoRounds: f.counted && f.rounds == 0,
	}}
	s, err := made.suite()
	if err != nil {
		return nil, err
	}
	return []benchSuite{{s, f.command("subject", subjectJobs), made}}, nil
}

func (f benchFlags) recorderSuites() ([]benchSuite, error) {
	levels, err := locks.ParseContentions(f.contention)
	if err != nil {
		return nil, err
	}
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of the recorder")
	}
	var out []benchSuite
	for _, c := range levels {
		s, err := recorder.New(recorder.Config{Config: f.config(), Contention: c, Threads: f.threads})
		if err != nil {
			return nil, err
		}
		out = append(out, benchSuite{Suite: s, command: f.command("subject", subjectRecorder+" --contention="+string(c))})
	}
	return out, nil
}

func (f benchFlags) effectSuites() ([]benchSuite, error) {
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of effects")
	}
	s, err := effects.New(effects.Config{Config: f.config()})
	if err != nil {
		return nil, err
	}
	return []benchSuite{{Suite: s, command: f.command("subject", subjectEffects)}}, nil
}

func (f benchFlags) checkerSuites() ([]benchSuite, error) {
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of the checker")
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s, err := checkers.New(checkers.Config{Config: f.config(), Sizes: f.ops, Exe: exe})
	if err != nil {
		return nil, err
	}
	return []benchSuite{{Suite: s, command: f.command("subject", subjectChecker)}}, nil
}

// command repeats a suite.
func (f benchFlags) command(name, value string) string {
	return fmt.Sprintf("bin/fencepost bench --%s=%s --seed=%d", name, value, f.seed) + f.given
}
