package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fencepost/core/store"
	"fencepost/harness/fault"
	"fencepost/harness/sinks"
	"fencepost/harness/system"
	"fencepost/harness/workload"
)

// Plan is a scenario with every choice made.
type Plan struct {
	Version int           `yaml:"version"` // PlanVersion
	Seed    uint64        `yaml:"seed"`
	System  string        `yaml:"system"`
	Spec    Spec          `yaml:"scenario"`
	Steps   []PlannedStep `yaml:"steps"`
	Locks   []string      `yaml:"locks"`
	Queue   string        `yaml:"queue,omitempty"` // of the job workload
}

// PlannedStep is a Step with its targets and times drawn.
type PlannedStep struct {
	Step `yaml:",inline"`
	// IDs are the ids of its injections in the history, one a repetition.
	IDs []string `yaml:"ids"`
}

// Overrides change a scenario from the command line; zero values change nothing.
type Overrides struct {
	Contention string
	Workers    int
	Clients    int
	TTL        time.Duration
	Sink       string        // see package sinks
	Duration   time.Duration // of each of the phases before, fault, recover
}

// Apply checks and applies the overrides.
func (s *Spec) Apply(o Overrides) error {
	if s.Drill != "" && o != (Overrides{}) {
		return errors.New("it has no workers and phases that contention, workers, clients, ttl, sink or duration could change")
	}
	if o.Contention != "" {
		if err := ValidContention(o.Contention); err != nil {
			return err
		}
		s.Workload.Contention = o.Contention
	}
	if o.Workers < 0 || o.Clients < 0 || o.TTL < 0 || o.Duration < 0 {
		return fmt.Errorf("workers, clients, ttl and duration must not be negative")
	}
	if o.Workers > 0 {
		s.Workload.Workers = o.Workers
	}
	if o.Clients > 0 {
		s.Workload.Clients = o.Clients
	}
	if o.TTL > 0 {
		s.Workload.TTL = Duration(o.TTL)
	}
	if o.Sink != "" {
		if _, err := sinks.Find(o.Sink); err != nil {
			return err
		}
		s.Workload.Sink = o.Sink
	}
	if o.Duration > 0 {
		d := Duration(o.Duration)
		s.Phases.Before, s.Phases.Fault, s.Phases.Recover = d, d, d
	}
	return s.validate()
}

// Suits says why a system cannot be run by the scenario, nil if it can.
func (s *Spec) Suits(sys system.System) error {
	if s.Drill == "" {
		if _, err := sinks.Of(s.Workload.Sink, sys); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	if err := s.suitsSink(sys); err != nil {
		return err
	}
	switch {
	case s.Drill != "" && sys.Variant != "":
		return fmt.Errorf("%s: it has no workers, so system %s cannot be run by it", s.Name, sys.Name)
	case sys.Command != nil:
		return s.suitsOwn(sys)
	case s.Workload.MixedVersions && (sys.Command != nil || sys.Scheduler != ""):
		return fmt.Errorf("%s: it runs two versions of the core, so system %s cannot be run by it", s.Name, sys.Name)
	case sys.Scheduler != "" && s.Workload.Jobs == nil:
		return fmt.Errorf("%s: it has no jobs, and system %s runs nothing else: take one of jobs-…", s.Name, sys.Name)
	case sys.Scheduler != "" && s.Workload.Jobs.Every > 0:
		return fmt.Errorf("%s: it has recurring schedules, and system %s has none", s.Name, sys.Name)
	case sys.Scheduler != "" && s.Workload.Jobs.Orders != nil:
		return fmt.Errorf("%s: it takes orders, which are sequences of jobs, and system %s has none", s.Name, sys.Name)
	case sys.Scheduler != "" && s.Workload.Jobs.Sequence > 0:
		return fmt.Errorf("%s: its jobs follow each other, and system %s has no sequences", s.Name, sys.Name)
	case sys.Scheduler != "":
		for _, st := range s.Faults {
			if fault.NeedsJobs(st.Fault) {
				return fmt.Errorf("%s: its fault %s has nothing to cut, as the processes of system %s know nothing of each other", s.Name, st.Fault, sys.Name)
			}
		}
	}
	return nil
}

// suitsSink: faults of the sink's process need a sink that has one.
func (s *Spec) suitsSink(sys system.System) error {
	k, _ := sinks.Of(s.Workload.Sink, sys) // Suits has looked
	for _, st := range s.Faults {
		if fault.NeedsService(st.Fault) && (k.Start == nil || sys.Command != nil) {
			return fmt.Errorf("%s: its fault %s needs a sink that is a process of its own, such as --sink=%s, and no program of a user's own as the system", s.Name, st.Fault, sinks.HTTP)
		}
	}
	return nil
}

// sinkName is the sink that a run of a system has.
func (s *Spec) sinkName(sys system.System) string {
	k, _ := sinks.Of(s.Workload.Sink, sys) // Suits has looked
	return k.Name
}

// NewPlan draws what is random in s from the seed. A target that there is not is an
// *InputError with file and line.
func NewPlan(s Spec, seed uint64, system string) (*Plan, error) {
	p := &Plan{Version: PlanVersion, Seed: seed, System: system, Spec: s}
	if s.Drill != "" {
		keys, err := drillKeys(s.Drill, seed)
		p.Locks = keys
		return p, err
	}
	nodes := s.Layout().Nodes()
	rng := workload.Rand(seed, "plan")
	steps := s.Faults
	if s.Swarm != nil {
		steps = append(slices.Clone(steps), s.Swarm.draw(workload.Rand(seed, "swarm"), nodes, s.Workload)...)
		p.Spec.Phases.Fault = max(p.Spec.Phases.Fault, s.Swarm.For)
	}
	n := 0
	for _, st := range steps {
		ps := PlannedStep{Step: st}
		ps.Targets = nil
		for _, t := range st.Targets {
			ps.Targets = append(ps.Targets, draw(rng, t, nodes, s.Workload.Workers)...)
		}
		if st.On != nil {
			on := *st.On
			switch {
			case on.Worker == "" && strings.HasPrefix(ps.Targets[0], "w"): // worker-at-point too, of whichever
				on.Worker = ps.Targets[0]
			case on.Worker == "":
				on.Worker = fault.RandomWorker
			}
			on.Worker = draw(rng, on.Worker, nodes, s.Workload.Workers)[0]
			ps.On = &on
		}
		if ps.Seed == 0 {
			// From a stream of its own: the targets of older plans stay as they were.
			ps.Seed = workload.Rand(seed, fmt.Sprintf("fault %d", len(p.Steps))).Uint64()
		}
		injections := st.Repeat
		if st.InTurn {
			injections *= len(ps.Targets)
		}
		for range injections {
			n++
			ps.IDs = append(ps.IDs, fmt.Sprintf("f%d", n))
		}
		p.Steps = append(p.Steps, ps)
	}
	if err := p.checkSteps(); err != nil {
		return nil, &InputError{position(s.file, err)}
	}
	// The seed in the name spreads the runs' locks and shards over the ring.
	place := strconv.FormatUint(seed%(36*36*36), 36)
	if s.Workload.Jobs != nil {
		p.Queue = "jobs." + place
		return p, nil
	}
	for i := range s.Workload.locks() {
		p.Locks = append(p.Locks, fmt.Sprintf("lock-%02d.%s", i+1, place))
	}
	return p, nil
}

// locks is how many locks the workload's clients compete for.
func (w Workload) locks() int {
	switch w.Contention {
	case Low:
		return w.Workers * w.Clients
	case High:
		return 1
	}
	return mediumLocks
}

// shards are the run's shards.
func (p *Plan) shards() []store.ShardID {
	out := make([]store.ShardID, p.Spec.Workload.Shards())
	for i := range out {
		out[i] = store.ShardID{Queue: p.Queue, Shard: i}
	}
	return out
}

func draw(rng *rand.Rand, t string, nodes, workers int) []string {
	all := func(prefix string, n int) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%s%d", prefix, i+1))
		}
		return out
	}
	switch t {
	case fault.RandomNode:
		return []string{fmt.Sprintf("n%d", 1+rng.IntN(nodes))}
	case fault.RandomWorker:
		return []string{fmt.Sprintf("w%d", 1+rng.IntN(workers))}
	case fault.AllNodes:
		return all("n", nodes)
	case fault.AllWorkers:
		return all("w", workers)
	}
	return []string{t}
}

// Write stores the plan as YAML.
func (p *Plan) Write(path string) error {
	b, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
