package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fencepost/internal/choice"
)

// OpTimeout bounds one operation of a fault (not the time that it is in force).
const OpTimeout = 30 * time.Second

// RestartTimeout bounds the restart of a node, which takes 10 s on an idle machine.
const RestartTimeout = 120 * time.Second

// Spec is a fault as scenario files write it. A parameter that a fault does not
// take is an error.
type Spec struct {
	// Fault is the name of its Kind.
	Fault string `yaml:"fault"`
	// Targets are nodes (n1), workers (w1), the sink, the queues, random-node, random-worker, all-nodes,
	// all-workers or coordinator.
	Targets []string `yaml:"targets"`
	// The Params.
	Mode    string        `yaml:"mode,omitempty"`
	Sense   string        `yaml:"sense,omitempty"`
	Latency time.Duration `yaml:"latency,omitempty"`
	Jitter  time.Duration `yaml:"jitter,omitempty"`
	Offset  time.Duration `yaml:"offset,omitempty"`
	RatePPM int64         `yaml:"rate_ppm,omitempty"`
	Zone    string        `yaml:"zone,omitempty"`
	Change  int64         `yaml:"change,omitempty"`
	Times   float64       `yaml:"times,omitempty"`
	// Isolation is a level's name in SQL, in lower case.
	Isolation string `yaml:"isolation,omitempty"`
	// Seed of what the fault draws itself; the plan sets it.
	Seed uint64 `yaml:"seed,omitempty"`
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
	// Probe looks whether the fault takes effect; called once, before Heal.
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
	// Inject makes its control measurements and puts it in force. env is that of this
	// injection: see Env.For.
	Inject(ctx context.Context, env *Env, targets []string) (Active, error)
}

// TargetKind is node, worker, sink or queues.
type TargetKind string

// Target kinds.
const (
	Node   TargetKind = "node"
	Worker TargetKind = "worker"
	// SinkService has one target, SinkTarget.
	SinkService TargetKind = "sink"
	// Queues has one target, QueuesTarget.
	Queues TargetKind = "queues"
)

// New makes the fault that s names, or says what is wrong with s.
func New(s Spec) (Fault, error) {
	k, ok := kinds[s.Fault]
	if !ok {
		return nil, choice.Unknown("fault", s.Fault, slices.Sorted(maps.Keys(kinds))...)
	}
	for _, p := range Params {
		if p.Of(s) != "" && !slices.Contains(k.Params, p.Name) {
			return nil, fmt.Errorf("fault %s has no %s", s.Fault, p.Name)
		}
	}
	f, err := k.New(s)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", s.Fault, err)
	}
	if len(s.Targets) == 0 {
		return nil, fmt.Errorf("fault %s has no targets", s.Fault)
	}
	for _, t := range s.Targets {
		if err := checkTarget(k.On, t); err != nil {
			return nil, fmt.Errorf("fault %s: %w", s.Fault, err)
		}
	}
	return f, nil
}

func checkTarget(kind TargetKind, t string) error {
	if only, ok := map[TargetKind]string{SinkService: SinkTarget, Queues: QueuesTarget}[kind]; ok {
		if t != only {
			return fmt.Errorf("target %q: the only one is %s", t, only)
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

// Param is a parameter that kinds of faults take: a field of Spec.
type Param struct {
	Name, Means string
	// Of says its value in a Spec, "" if it is not given.
	Of func(Spec) string
}

// Params are all there are.
var Params = []Param{
	{"mode", "how a cut treats bytes: stall (hold them and deliver at heal, as TCP does; default) or drop (discard, and close at heal)",
		func(s Spec) string { return text("mode %s", s.Mode) }},
	{"sense", "the sense that is cut or delayed: out (what the targets send; default) or in (what they are sent)",
		func(s Spec) string { return text("sense %s", s.Sense) }},
	{"latency", "a delay, one way",
		func(s Spec) string { return text("latency %s", s.Latency) }},
	{"jitter", "the largest deviation from the latency, at most as long; default none",
		func(s Spec) string { return text("jitter %s", s.Jitter) }},
	{"offset", "by how much a wall clock is wrong; it may be negative",
		func(s Spec) string { return text("offset %s", s.Offset) }},
	{"zone", "a time zone (IANA name): a wall clock is set to 6 s before its clocks change",
		func(s Spec) string { return text("zone %s", s.Zone) }},
	{"change", "which of the zone's next changes; default 1",
		func(s Spec) string { return text("change %d", s.Change) }},
	{"times", "of overload, how many times as many jobs come as ended under the saturate before, above 1; of more-shards, how many times as many shards there are as at first; at most 10",
		func(s Spec) string { return text("%g times", s.Times) }},
	{"isolation", "the isolation level of transactions that name none: repeatable read or serializable",
		func(s Spec) string { return text("isolation %s", s.Isolation) }},
	{"rate_ppm", "by how many millionths a lease clock runs too fast; it may be negative",
		func(s Spec) string { return text("rate %+d ppm", s.RatePPM) }},
}

// text says a value that is given.
func text[T string | time.Duration | int64 | float64](format string, v T) string {
	var none T
	if v == none {
		return ""
	}
	return fmt.Sprintf(format, v)
}
