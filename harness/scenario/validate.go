package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/workload"
	"fencepost/internal/choice"
)

// MustPoints are the points that a scenario may demand, beside the armed ones.
var MustPoints = []string{
	"takeover", "stale-refused", "unknown-settled", "lease-lost", "resend", "duplicate", "late-answer", "rescue", "retry", "dlq",
	"redrive", "hasten", "pause", "cancel", "abandon", "sweep", "forget",
	"order-shipped", "order-rejected", "order-cancelled", "inbox", "hand-over", "move", "fire", "trigger", "missed", "follow", "stop", "interrupt",
	history.PointMemberGone, history.PointMemberCame,
}

// defaults are those of what is not given at all; what is given in part has its own.
func (s *Spec) defaults() {
	k := s.Kind()
	if !k.Workers {
		return
	}
	if s.Workload == (Workload{}) {
		s.Workload = defaultWorkload
	}
	if s.Phases == (Phases{}) {
		s.Phases = defaultPhases
	}
	s.Workload.Sink = cmp.Or(s.Workload.Sink, k.Sink)
}

var (
	defaultWorkload = Workload{
		Workers: 4, Clients: 3, Contention: Medium, TTL: Duration(6 * time.Second),
		Hold: Duration(20 * time.Millisecond), Think: Duration(10 * time.Millisecond),
	}
	defaultJobs = Jobs{
		Rate: 60, Steps: 1, MaxAttempts: 8, Slots: 32, Length: Duration(20 * time.Millisecond), Retry: Duration(500 * time.Millisecond),
		Drain: Duration(time.Minute), Window: Duration(time.Hour), Dedupe: Duration(workload.DedupeWindow),
	}
	defaultOrders = Orders{Items: 4, Stock: 1000, Hold: Duration(time.Minute)}
	defaultPhases = Phases{
		Warmup: Duration(3 * time.Second), Before: Duration(6 * time.Second), Fault: Duration(8 * time.Second), Recover: Duration(6 * time.Second),
	}
	defaultPace  = Duration(4 * time.Second)
	defaultSwarm = Swarm{For: Duration(40 * time.Second)}
)

// UnmarshalYAML has the defaults of what is not given: a zero that is given stays one.
func (w *Workload) UnmarshalYAML(n *yaml.Node) error {
	type plain Workload
	*w = defaultWorkload
	return Decode(n, (*plain)(w))
}

// UnmarshalYAML is as Workload's.
func (j *Jobs) UnmarshalYAML(n *yaml.Node) error {
	type plain Jobs
	*j = defaultJobs
	return Decode(n, (*plain)(j))
}

// UnmarshalYAML is as Workload's.
func (r *Recurring) UnmarshalYAML(n *yaml.Node) error {
	type plain Recurring
	if err := Decode(n, (*plain)(r)); err != nil {
		return err
	}
	if r.Upset != "" && r.Pace == 0 {
		r.Pace = defaultPace
	}
	return nil
}

// UnmarshalYAML is as Workload's.
func (o *Orders) UnmarshalYAML(n *yaml.Node) error {
	type plain Orders
	*o = defaultOrders
	return Decode(n, (*plain)(o))
}

// UnmarshalYAML is as Workload's.
func (p *Phases) UnmarshalYAML(n *yaml.Node) error {
	type plain Phases
	*p = defaultPhases
	return Decode(n, (*plain)(p))
}

// UnmarshalYAML is as Workload's.
func (s *Swarm) UnmarshalYAML(n *yaml.Node) error {
	type plain Swarm
	*s = defaultSwarm
	return Decode(n, (*plain)(s))
}

var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// Check checks what single values cannot show.
func (s *Spec) Check() error {
	if !nameRule.MatchString(s.Name) {
		return within(fmt.Errorf("%q: lower-case letters, digits and - only", s.Name), "name")
	}
	if s.About == "" {
		return errors.New("about is missing: say in a sentence what happens and what must hold")
	}
	if err := s.validateCluster(); err != nil {
		return within(err, "cluster")
	}
	if err := s.checkWorkloads(); err != nil {
		return within(err, "workloads")
	}
	k := s.Kind()
	if !k.Workers {
		return k.section(s)
	}
	w := s.Workload
	if w.Workers < 1 || w.Workers > 16 || w.Clients < 1 || w.Clients > 100 {
		return within(fmt.Errorf("workers %d (1 to 16) and clients %d (1 to 100) are out of range", w.Workers, w.Clients), "workload")
	}
	if err := ValidContention(w.Contention); err != nil {
		return within(err, "workload")
	}
	if w.TTL.D() < time.Second {
		return within(fmt.Errorf("ttl %s is below 1s, which is the resolution of a busy machine", w.TTL.D()), "workload")
	}
	if _, err := sinks.Find(w.Sink); err != nil {
		return within(err, "workload")
	}
	if err := k.section(s); err != nil {
		return err
	}
	if p := s.Phases; min(p.Before, p.Fault, p.Recover) == 0 {
		return within(errors.New("before, fault and recover last some time"), "phases")
	}
	if s.Swarm != nil && s.Swarm.For == 0 {
		return within(errors.New("for is 0s: a swarm lasts some time"), "swarm")
	}
	for _, st := range s.Faults {
		for _, p := range st.Points() {
			if control.OfJobs(p) && !k.Jobs || control.OfLocks(p) && k.Jobs {
				return fmt.Errorf("line %d: point %s is never reached by this workload", st.line, p)
			}
		}
		if !k.Jobs && fault.Of(st.Fault).Needs.Jobs {
			return fmt.Errorf("line %d: fault %s requires a job workload", st.line, st.Fault)
		}
		if st.For == 0 {
			return fmt.Errorf("line %d: fault %s: missing duration; set `for:`", st.line, st.Fault)
		}
		for _, t := range st.Targets {
			if numberOf(t) > w.Workers {
				return fmt.Errorf("line %d: there is no worker %s among %d", st.line, t, w.Workers)
			}
		}
	}
	return s.validateExpect()
}

// numberOf is the number in the name of a worker, w3; 0 in another name.
func numberOf(worker string) int {
	if digits, ok := strings.CutPrefix(worker, "w"); ok {
		n, _ := strconv.ParseUint(digits, 10, 16)
		return int(n)
	}
	return 0
}

// ValidContention says whether c is a contention level.
func ValidContention(c string) error {
	if c != Low && c != Medium && c != High {
		return choice.Unknown("contention", c, Low, Medium, High)
	}
	return nil
}

// Contentions are the levels that a scenario was made for, the least first: those for
// which it states its least number of cycles, all if it states none.
func (s *Spec) Contentions() []string {
	levels := []string{Low, Medium, High}
	if len(s.Expect.MinCycles) == 0 {
		return levels
	}
	return slices.DeleteFunc(levels, func(c string) bool { return s.Expect.MinCycles[c] == nil })
}

// demands refuses a scenario whose runs would count whatever they did.
func (s *Spec) demands() error {
	if s.Kind().Workers && len(s.Expect.MinCycles) == 0 {
		return within(errors.New("min_cycles is missing: say by contention how many cycles each phase must have for a run to count, "+
			"such as {high: {before: 30, fault: 5, recover: 30}}"), "expect")
	}
	return nil
}

func (s *Spec) validateExpect() error {
	e := s.Expect
	for c, phases := range e.MinCycles {
		if err := ValidContention(c); err != nil {
			return within(err, "expect", "min_cycles")
		}
		for p, n := range phases {
			if !slices.Contains(history.Phases, p) || n < 0 {
				err := fmt.Errorf("%q: %d: the phases are %s, the numbers not negative", p, n, strings.Join(history.Phases, ", "))
				return within(err, "expect", "min_cycles")
			}
		}
	}
	for _, x := range e.Success {
		if err := s.validateSuccess(x); err != nil {
			return within(err, "expect", "success")
		}
	}
	for _, list := range []struct {
		name   string
		points []string
	}{{"must", e.Must}, {"sometimes", e.Sometimes}} {
		for _, m := range list.points {
			if !slices.Contains(MustPoints, m) {
				return within(choice.Unknown("point", m, MustPoints...), "expect", list.name)
			}
		}
	}
	for _, m := range e.Sometimes {
		if slices.Contains(e.Must, m) {
			return within(fmt.Errorf("point %q is in must and in sometimes: a point of every run need not be in the second", m), "expect")
		}
	}
	for id, why := range e.Exempt {
		if !slices.Contains(history.Promisable, id) || why == "" {
			return within(fmt.Errorf("%q: %q: a property (%s) and the reason why the workload cannot exercise it",
				id, why, strings.Join(history.Promisable, ", ")), "expect", "exempt")
		}
	}
	if e.RecoveryBoundMS < 0 {
		return within(fmt.Errorf("recovery_bound_ms %d is negative", e.RecoveryBoundMS), "expect")
	}
	if err := s.validateProgress(); err != nil {
		return err
	}
	return s.validateThresholds()
}

// validateSuccess: exactly one of phase and fault, at most one of group and workers,
// and nothing that the scenario does not have.
func (s *Spec) validateSuccess(x history.Success) error {
	if x.Want != history.Some && x.Want != history.None && x.Want != history.Any {
		return fmt.Errorf("want %q; it is some, none or any", x.Want)
	}
	switch {
	case x.Phase == "" && x.Fault == "":
		return errors.New("it names neither a phase nor a fault")
	case x.Phase != "" && x.Fault != "":
		return fmt.Errorf("it names phase %q and fault %q: only one of them", x.Phase, x.Fault)
	case x.Phase != "" && !slices.Contains(history.Phases, x.Phase):
		return choice.Unknown("phase", x.Phase, history.Phases...)
	case x.Group != "" && len(x.Workers) > 0:
		return fmt.Errorf("it names group %q and workers: only one of them", x.Group)
	case x.Group != "" && x.Group != history.GroupTargets && x.Group != history.GroupOthers:
		return choice.Unknown("group", x.Group, history.GroupTargets, history.GroupOthers)
	}
	for _, w := range x.Workers {
		if n := numberOf(w); n < 1 || n > s.Workload.Workers {
			return fmt.Errorf("there is no worker %s among %d", w, s.Workload.Workers)
		}
	}
	return s.validateSuccessFault(x)
}

// validateSuccessFault: the fault is one of the scenario's by name, and a group
// refers to a fault that is aimed at workers.
func (s *Spec) validateSuccessFault(x history.Success) error {
	var names []string
	aimed := false
	for _, st := range s.Faults {
		names = append(names, st.Fault)
		if x.Fault == "" || x.Fault == st.Fault {
			aimed = aimed || aimsAtWorkers(st)
		}
	}
	switch {
	case x.Fault != "" && !slices.Contains(names, x.Fault):
		if len(names) == 0 {
			return fmt.Errorf("fault %q: the scenario has no faults", x.Fault)
		}
		return fmt.Errorf("the scenario has no fault %q; it has %s", x.Fault, strings.Join(names, ", "))
	case x.Group != "" && !aimed:
		return fmt.Errorf("group %q: no such fault of the scenario is aimed at a worker", x.Group)
	}
	return nil
}

// Overrides change a scenario from the command line; zero values change nothing.
type Overrides struct {
	Contention string
	Workers    int
	Clients    int
	TTL        time.Duration
	Sink       string        // see package sinks
	Duration   time.Duration // of each of the phases before, fault, recover
	Store      string        // see package servers; "": the scenario's
	// Redelivery is how much later than a lock's lease is over the system gives what an owner has left to
	// another: what waits for that lasts longer.
	Redelivery time.Duration
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
	if o.Store != "" {
		s.Cluster.Store = o.Store // Check takes Cassandra for none
		o.Store = ""
	}
	s.wait(Duration(o.Redelivery))
	o.Redelivery = 0
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
	return s.Check()
}

// wait adds to each time in which an abandoned lock must be somebody else's: while the fault is in force,
// if that is demanded, or else after its heal, as a request that was not answered may have left a job to a
// worker that does not know.
func (s *Spec) wait(d Duration) {
	switch {
	case slices.Contains(s.Expect.Must, "takeover"):
		s.Phases.Fault += d
	case slices.ContainsFunc(s.Expect.Thresholds, func(t Threshold) bool { return t.Recovery != "" }):
		s.Phases.Recover += d
	default:
		return
	}
	for i := range s.Expect.Thresholds {
		if t := &s.Expect.Thresholds[i]; t.Recovery != "" {
			t.Max.Plus += d.D()
		}
	}
	for i := range s.Expect.Progress {
		if p := &s.Expect.Progress[i]; !p.LongestGap.IsZero() {
			p.LongestGap.Plus += d.D()
		}
	}
}
