package plan

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fencepost/core/store"
	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/drill"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

// Plan is a scenario with every choice made.
type Plan struct {
	Version int    `yaml:"version"` // Version
	Seed    uint64 `yaml:"seed"`
	System  string `yaml:"system"`
	// Workload names the set of parameters that the scenario's workload has; "" in older
	// plans and in those of drills.
	Workload string        `yaml:"workload,omitempty"`
	Spec     scenario.Spec `yaml:"scenario"`
	Steps    []Step        `yaml:"steps"`
	Locks    []string      `yaml:"locks"`
	Queue    string        `yaml:"queue,omitempty"` // of the job workload
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
	p.Spec.Workloads = nil // one is chosen
	if s.Kind().Workers {
		p.Workload = s.Set()
	}
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

// Queues are the queues of the job workload, Queue first.
func (p *Plan) Queues() []string {
	out := []string{p.Queue}
	for n := 2; n <= p.Spec.Workload.Queues(); n++ {
		out = append(out, fmt.Sprintf("%s.%d", p.Queue, n))
	}
	return out
}

// Shards are the run's shards, of all queues, also those that they get in it.
func (p *Plan) Shards() (out []store.ShardID) {
	times := 1
	for _, s := range p.Steps {
		if s.Fault == fault.MoreShards {
			times = max(times, int(s.Times))
		}
	}
	for _, q := range p.Queues() {
		for n := range times * p.Spec.Workload.Shards() {
			out = append(out, store.ShardID{Queue: q, Shard: n})
		}
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

// Digest is the same for two plans of the same runs, and for no others: 16 hex digits.
func (p *Plan) Digest() string {
	b, err := yaml.Marshal(p)
	if err != nil {
		panic(err) // it is plain values
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))[:16]
}

// Write stores the plan as YAML.
func (p *Plan) Write(path string) error {
	b, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// rows is how many rows are competed for, and what they are called; a queue has none.
func rows(s *scenario.Spec) (n int, name string) {
	switch k := s.Kind(); {
	case k.Jobs:
		return 0, ""
	case k.Workers:
		return s.Workload.Locks(), "lock"
	}
	attempts, _ := drill.Attempts(s.Drill) // Check has looked
	return attempts + 1, "row"
}

// name names what is competed for; place spreads it over the ring.
func (p *Plan) name(place string) {
	n, name := rows(&p.Spec)
	if n == 0 {
		p.Queue = "jobs." + place
	}
	for i := range n {
		p.Locks = append(p.Locks, fmt.Sprintf("%s-%02d.%s", name, i+1, place))
	}
}

var lockRule = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

func (p *Plan) checkNames() error {
	seen := map[string]bool{}
	for _, l := range p.Locks {
		if !lockRule.MatchString(l) || seen[l] {
			return fmt.Errorf("the lock name %q is not usable or not unique", l)
		}
		seen[l] = true
	}
	switch n, _ := rows(&p.Spec); {
	case n == 0 && (len(seen) > 0 || !lockRule.MatchString(p.Queue)):
		return fmt.Errorf("%d locks and queue %q: the job workload has no locks, and a queue", len(seen), p.Queue)
	case len(seen) != n && p.Spec.Drill != "":
		return fmt.Errorf("%d locks, drill %s needs %d", len(seen), p.Spec.Drill, n)
	case len(seen) != n:
		return fmt.Errorf("%d locks, contention %s needs %d", len(seen), p.Spec.Workload.Contention, n)
	}
	return nil
}

// Expectation is the history's note of what contention and plan demand.
func (p *Plan) Expectation() history.Expect {
	x := history.Expect{
		MinCycles: maps.Clone(p.Spec.Expect.MinCycles[p.Spec.Workload.Contention]),
		Success:   p.Spec.Expect.Success,
		Must:      p.Spec.Expect.Must,
		Sometimes: p.Spec.Expect.Sometimes,

		Exempt:          p.Spec.Expect.Exempt,
		RecoveryBoundMS: p.Spec.Expect.RecoveryBoundMS,
		Workers:         p.Spec.Workload.Workers,
		Progress:        p.progress(),
	}
	for _, t := range p.Spec.Expect.Thresholds {
		x.Thresholds = append(x.Thresholds, t.Noted(p.Spec.Workload.TTL.D()))
	}
	for _, st := range p.Steps {
		x.Faults = append(x.Faults, st.IDs...)
	}
	switch k := p.Spec.Kind(); {
	case k.Jobs:
		x.DrainBoundMS, x.RowsEnd = p.Spec.Workload.Jobs.Drain.D().Milliseconds(), true
	case !k.Workers:
		return drill.Expect()
	}
	return x
}

// progress are the plan's demands, as the history's expect note has them.
func (p *Plan) progress() (out []history.Progress) {
	for _, x := range p.Spec.Expect.Progress {
		if x.Exempt == "" {
			out = append(out, x.Noted(p.Spec.Workload))
		}
	}
	return out
}

// SetsServerClocks says whether a fault of the plan sets the clocks of servers: these are then
// started with clocks that can be set.
func (p *Plan) SetsServerClocks() bool {
	return slices.ContainsFunc(p.Steps, func(st Step) bool { return fault.Of(st.Fault).Family == fault.FamilyServerClock })
}

// DemandOf is what must get done under a fault, nil if nothing is said of it by name.
func (p *Plan) DemandOf(fault string) *scenario.Progress {
	for i := range p.Spec.Expect.Progress {
		if x := &p.Spec.Expect.Progress[i]; x.Fault == fault && x.Exempt == "" {
			return x
		}
	}
	return nil
}

// LastOf is the id of a fault's last injection in the plan.
func (p *Plan) LastOf(fault string) (id string) {
	for _, st := range p.Steps {
		if st.Fault == fault {
			id = st.IDs[len(st.IDs)-1]
		}
	}
	return id
}

// Demanded leaves out the points that a system does not come to, by design.
func Demanded(x history.Expect, sys system.System) history.Expect {
	unreached := func(point string) bool { return slices.Contains(sys.Unreached, point) }
	x.Must, x.Sometimes = slices.DeleteFunc(slices.Clone(x.Must), unreached), slices.DeleteFunc(slices.Clone(x.Sometimes), unreached)
	return x
}
