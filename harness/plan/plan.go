package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fencepost/core/store"
	"fencepost/harness/fault"
	"fencepost/harness/scenario"
	"fencepost/harness/target/workload"
)

// Plan is a scenario with every choice made.
type Plan struct {
	Version int           `yaml:"version"` // Version
	Seed    uint64        `yaml:"seed"`
	System  string        `yaml:"system"`
	Spec    scenario.Spec `yaml:"scenario"`
	Steps   []Step        `yaml:"steps"`
	Locks   []string      `yaml:"locks"`
	Queue   string        `yaml:"queue,omitempty"` // of the job workload
}

// Step is a Step with its targets and times drawn.
type Step struct {
	scenario.Step `yaml:",inline"`
	// IDs are the ids of its injections in the history, one a repetition.
	IDs []string `yaml:"ids"`
}

// New draws what is random in s from the seed. A target that there is not is a
// *scenario.InputError with file and line.
func New(s scenario.Spec, seed uint64, system string) (*Plan, error) {
	p := &Plan{Version: Version, Seed: seed, System: system, Spec: s}
	nodes := s.Layout().Nodes()
	rng := workload.Rand(seed, "plan")
	steps := s.Faults
	if s.Swarm != nil {
		steps = append(slices.Clone(steps), drawSwarm(workload.Rand(seed, "swarm"), s.Swarm.For.D(), nodes, s.Workload)...)
		p.Spec.Phases.Fault = max(p.Spec.Phases.Fault, s.Swarm.For)
	}
	n := 0
	for _, st := range steps {
		ps := Step{Step: st}
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
		return nil, scenario.InFile(s.File(), err)
	}
	p.name(strconv.FormatUint(seed%(36*36*36), 36))
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
