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
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
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

// For is the overrides without those that a scenario of this kind cannot have.
func (o Overrides) For(k Kind) Overrides {
	if !k.Workers {
		return Overrides{}
	}
	if k.Sink != "" {
		o.Sink = ""
	}
	return o
}

// Apply checks and applies the overrides.
func (s *Spec) Apply(o Overrides) error {
	if !s.Kind().Workers && o != (Overrides{}) {
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

// SinkName is the sink that a run of a system has.
func (s *Spec) SinkName(sys system.System) string {
	k, _ := sinks.Of(s.Workload.Sink, sys) // Suits has looked
	return k.Name
}

// NewPlan draws what is random in s from the seed. A target that there is not is an
// *InputError with file and line.
func NewPlan(s Spec, seed uint64, system string) (*Plan, error) {
	p := &Plan{Version: PlanVersion, Seed: seed, System: system, Spec: s}
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
	s.Kind().name(p, strconv.FormatUint(seed%(36*36*36), 36))
	return p, nil
}

// Shards are the run's shards.
func (p *Plan) Shards() []store.ShardID {
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
