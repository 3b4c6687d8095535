package fault

import (
	"context"
	"fencepost/internal/choice"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OpTimeout bounds one operation of a fault (not the time that it is in force).
const OpTimeout = 30 * time.Second

// RestartTimeout bounds the restart of a node, which takes 10 s on an idle machine.
const RestartTimeout = 120 * time.Second

// Spec is a fault as scenario files write it. A parameter that a fault does not
// take is an error.
type Spec struct {
	// Fault is the name: see Names.
	Fault string `yaml:"fault"`
	// Targets are nodes (n1), workers (w1), the sink, random-node, random-worker, all-nodes,
	// all-workers or coordinator.
	Targets []string `yaml:"targets"`
	// Mode is how a cut treats bytes: stall (hold them and deliver at heal, as
	// TCP does; default) or drop (discard, and close at heal).
	Mode string `yaml:"mode,omitempty"`
	// Sense of a one-way partition: out (what the targets send is lost; default)
	// or in (what they are sent).
	Sense string `yaml:"sense,omitempty"`
	// Latency is a one-way delay, Jitter the largest deviation from it.
	Latency time.Duration `yaml:"latency,omitempty"`
	Jitter  time.Duration `yaml:"jitter,omitempty"`
	// Offset is by how much a wall clock is wrong, RatePPM by how many millionths
	// a lease clock runs too fast; both may be negative.
	Offset  time.Duration `yaml:"offset,omitempty"`
	RatePPM int64         `yaml:"rate_ppm,omitempty"`
	// Seed of what the fault draws itself; the plan sets it.
	Seed uint64 `yaml:"seed,omitempty"`
}

// given names the parameters that are set.
func (s Spec) given() []string {
	var out []string
	for _, p := range []struct {
		name string
		set  bool
	}{
		{"mode", s.Mode != ""}, {"sense", s.Sense != ""}, {"latency", s.Latency != 0}, {"jitter", s.Jitter != 0},
		{"offset", s.Offset != 0}, {"rate_ppm", s.RatePPM != 0},
	} {
		if p.set {
			out = append(out, p.name)
		}
	}
	return out
}

// Targets that are resolved when the plan is made.
const (
	RandomNode   = "random-node"
	RandomWorker = "random-worker"
	AllNodes     = "all-nodes"
	AllWorkers   = "all-workers"
)

// WorkerAtPoint as a target is the worker whose client reaches the step's point first, found
// when it does: one that was drawn may not get there while others keep the lock busy.
const WorkerAtPoint = "worker-at-point"

// Coordinator as a target is the node through which the clients' requests for
// the run's first lock go, found when the fault is injected: a fault of another
// node may leave a single lock's clients untouched. A node that does not run is
// passed over.
const Coordinator = "coordinator"

// Evidence is what a proof found.
type Evidence struct {
	Proven bool
	Text   string
}

// also adds what else a fault demands to the evidence.
func (ev *Evidence) also(holds bool, format string, args ...any) {
	ev.Proven = ev.Proven && holds
	if ev.Text != "" {
		ev.Text += "; "
	}
	ev.Text += fmt.Sprintf(format, args...)
}

// Active is a fault in force.
type Active interface {
	// Probe looks whether the fault bites; called once, before Heal.
	Probe(ctx context.Context) Evidence
	// Heal ends the fault and returns when it is over.
	Heal(ctx context.Context) error
}

// Aftermath is an Active whose proof has a second part: what it took away is there again.
type Aftermath interface {
	// After looks when the fault is healed; called once, after Heal.
	After(ctx context.Context) Evidence
}

// Fault is a fault that can be put in force.
type Fault interface {
	// Kind is what its targets are.
	Kind() TargetKind
	// Inject makes its control measurements and puts it in force. env is that of this
	// injection: see Env.For.
	Inject(ctx context.Context, env *Env, targets []string) (Active, error)
}

// TargetKind is node, worker or sink.
type TargetKind string

// Target kinds.
const (
	Node   TargetKind = "node"
	Worker TargetKind = "worker"
	// SinkService has one target, SinkTarget.
	SinkService TargetKind = "sink"
)

// jobsOnly are the faults of what only workers with jobs have.
var jobsOnly = []string{"partition-peers", "heartbeat-loss"}

// NeedsClocks reports whether the fault changes clocks of fencepost's own workers, which
// no other program reads.
func NeedsClocks(name string) bool { return name == "clock" || name == "suspend" }

// NeedsHold reports whether the fault is nothing but the hold of its trigger.
func NeedsHold(name string) bool { return name == slowJobName }

// NeedsJobs reports whether the fault is one of job scenarios only.
func NeedsJobs(name string) bool { return slices.Contains(jobsOnly, name) }

// New makes the fault that s names, or says what is wrong with s.
func New(s Spec) (Fault, error) {
	e, ok := table[s.Fault]
	if !ok {
		return nil, choice.Unknown("fault", s.Fault, Names()...)
	}
	for _, p := range s.given() {
		if !slices.Contains(e.takes, p) {
			return nil, fmt.Errorf("fault %s has no %s", s.Fault, p)
		}
	}
	f, err := e.make(s)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", s.Fault, err)
	}
	if len(s.Targets) == 0 {
		return nil, fmt.Errorf("fault %s has no targets", s.Fault)
	}
	for _, t := range s.Targets {
		if err := checkTarget(f.Kind(), t); err != nil {
			return nil, fmt.Errorf("fault %s: %w", s.Fault, err)
		}
	}
	return f, nil
}

func checkTarget(kind TargetKind, t string) error {
	if kind == SinkService {
		if t != SinkTarget {
			return fmt.Errorf("target %q: the only one is %s", t, SinkTarget)
		}
		return nil
	}
	prefix, random, all := "n", RandomNode, AllNodes
	if kind == Worker {
		prefix, random, all = "w", RandomWorker, AllWorkers
	}
	if t == random || t == all || kind == Node && t == Coordinator || kind == Worker && t == WorkerAtPoint || len(t) > 1 && strings.HasPrefix(t, prefix) && strings.Trim(t[1:], "0123456789") == "" {
		return nil
	}
	return fmt.Errorf("target %q is not a %s (such as %s1, or %s)", t, kind, prefix, random)
}
