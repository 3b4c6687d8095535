package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/harness/env/cluster"
	"fencepost/harness/fault"
	"fencepost/harness/target/drill"
)

// Kind is what a scenario has the system do. It answers whatever differs between locks, jobs,
// orders and drills; how each is run is package run's.
type Kind struct {
	Name string
	// Workers: processes work through phases and faults. Without them the harness is the only
	// client, and there is nothing to set but the seed.
	Workers bool
	// Jobs: the workers are schedulers, and share a queue of shards; else they compete for locks.
	Jobs bool
	// Sink is the only kind of sink that will do (package sinks), "" for any.
	Sink string
	// Control is why it needs nodes that the harness may break; "": only its faults may.
	Control string
	// RedOn is the Paxos variant on which its runs must be red by P2, "" for none.
	RedOn string
	// Shows: it shows what a release of the database does, and is no test of a system: "all" leaves
	// it out.
	Shows bool

	of      func(*Spec) bool
	section func(*Spec) error // checks what is its own in the file
	load    func(Workload) string
}

// Names of kinds.
const (
	KindDrill  = "drill"
	KindTrap   = "trap"
	KindOrders = "orders"
	KindJobs   = "jobs"
	KindLocks  = "locks"
)

// kinds are all there are. A scenario's is the first that has it.
var kinds = []Kind{
	{
		Name: KindTrap, Control: "it is about a release of nodes that the harness has started", Shows: true,
		of:      func(s *Spec) bool { return drill.IsTrap(s.Drill) },
		section: checkDrill,
	},
	{
		Name: KindDrill, Control: "its drill cuts nodes off from each other", RedOn: cluster.PaxosV2UnsafeReadsRejects,
		of:      func(s *Spec) bool { return s.Drill != "" },
		section: checkDrill,
	},
	{
		Name: KindOrders, Workers: true, Jobs: true, Sink: ordersSink,
		of:      func(s *Spec) bool { return s.Workload.Jobs != nil && s.Workload.Jobs.Orders != nil },
		section: checkOrders, load: jobLoad,
	},
	{
		Name: KindJobs, Workers: true, Jobs: true,
		of:      func(s *Spec) bool { return s.Workload.Jobs != nil },
		section: checkJobs, load: jobLoad,
	},
	{
		Name: KindLocks, Workers: true,
		of:      func(*Spec) bool { return true },
		section: checkClients, load: lockLoad,
	},
}

// Kinds are all there are.
func Kinds() []Kind { return kinds }

// Kind is the scenario's.
func (s *Spec) Kind() Kind {
	return kinds[slices.IndexFunc(kinds, func(k Kind) bool { return k.of(s) })]
}

// Load is the work of the scenario in words, "" if it has no workers.
func (s *Spec) Load() string {
	if k := s.Kind(); k.load != nil {
		return k.load(s.Workload)
	}
	return ""
}

func checkClients(s *Spec) error { return within(s.Workload.checkLocks(), "workload") }

func lockLoad(w Workload) string {
	return fmt.Sprintf("%d workers with %d clients each, ttl %s", w.Workers, w.Clients, w.TTL.D()) + w.words()
}

func checkDrill(s *Spec) error {
	if _, err := drill.Attempts(s.Drill); err != nil {
		return within(err, "drill")
	}
	x := s.Expect
	demands := len(x.MinCycles) + len(x.Success) + len(x.Must) + len(x.Sometimes) + len(x.Progress) + len(x.Thresholds) + len(x.Exempt) +
		int(x.RecoveryBoundMS)
	if s.Workload != (Workload{}) || s.Phases != (Phases{}) || len(s.Faults) > 0 || s.Swarm != nil || demands != 0 {
		return errors.New("a scenario with a drill has no workload, phases, faults or expect: the drill says what happens")
	}
	return nil
}

func checkJobs(s *Spec) error {
	if err := s.Workload.noLocks(); err != nil {
		return within(err, "workload")
	}
	return within(s.Workload.Jobs.check(), "workload", "jobs")
}

func (j *Jobs) check() error {
	part := func(f float64) bool { return f >= 0 && f <= 1 }
	switch {
	case j.Rate <= 0 || j.Rate > 100_000:
		return fmt.Errorf("rate %v: jobs per second, up to 100000", j.Rate)
	case j.Steps < 0 || j.Steps > 100 || j.Slots < 1 || j.MaxAttempts < 1 || j.MaxAttempts > job.MaxAttemptsLimit:
		return fmt.Errorf("steps %d (0 to 100), slots %d (at least 1) and max_attempts %d (1 to %d) are out of range",
			j.Steps, j.Slots, j.MaxAttempts, job.MaxAttemptsLimit)
	case j.Queues < 0 || j.Queues > mostQueues:
		return fmt.Errorf("queues %d: 1 to %d", j.Queues, mostQueues)
	case j.Storm > 0 && j.Ahead > 0:
		return fmt.Errorf("storm %s and ahead %s: jobs are due at once, or spread out", j.Storm.D(), j.Ahead.D())
	case j.Every > 0 && j.Every.D() < schedule.MinEvery || j.Every.D()%time.Millisecond != 0:
		return fmt.Errorf("every %s: at least %s, in whole milliseconds", j.Every.D(), schedule.MinEvery)
	case j.Window.D()%time.Millisecond != 0 || j.Window.D() > schedule.MaxSpan:
		return fmt.Errorf("window %s: at most %s, in whole milliseconds", j.Window.D(), schedule.MaxSpan)
	case j.Dedupe.D() < time.Millisecond || j.Dedupe.D() > schedule.MaxSpan || j.Dedupe.D()%time.Millisecond != 0:
		return fmt.Errorf("dedupe %s: up to %s, in whole milliseconds", j.Dedupe.D(), schedule.MaxSpan)
	case j.Sequence < 0 || j.Sequence > job.MaxThen:
		return fmt.Errorf("sequence %d: 0 to %d jobs", j.Sequence, job.MaxThen)
	case !part(j.Flaky) || !part(j.Poison) || j.Flaky+j.Poison > 1:
		return fmt.Errorf("flaky %v and poison %v: parts of the jobs, together at most 1", j.Flaky, j.Poison)
	}
	if err := j.checkSchedules(); err != nil {
		return err
	}
	if err := j.Mixture.check(); err != nil {
		return err
	}
	return j.Commands.check()
}

// mostQueues is more than the shards of a run are shared by usefully.
const mostQueues = 8

// mostPriorities is more than a shard has jobs that wait.
const mostPriorities = 1000

// check: parts are from 0 to 1.
func (m *Mixture) check() error {
	if m == nil {
		return nil
	}
	parts := []float64{m.AtMostOnce, m.Overrun, m.OddKeys, m.NoKey, m.OtherBody, m.Delays}
	if slices.Min(parts) < 0 || slices.Max(parts) > 1 || m.Priorities < 0 || m.Priorities > mostPriorities {
		return fmt.Errorf("mixture %v: parts of the jobs, from 0 to 1, and 0 to %d priorities", *m, mostPriorities)
	}
	return nil
}

// check: the rates are of a workload that is made of jobs, not of commands.
func (c *Commands) check() error {
	if c == nil {
		return nil
	}
	all := []float64{c.Cancel, c.Hasten, c.Redrive, c.RedriveMany, c.Pause, c.PauseQueue}
	if slices.Min(all) < 0 || slices.Max(all) > 100 || slices.Max(all) == 0 {
		return fmt.Errorf("commands %v: commands per second, each from 0 to 100, one at least above 0", *c)
	}
	return nil
}

// ordersSink is the sink of orders: the one in whose transactions the shop's tables
// change too.
const ordersSink = "postgres"

func checkOrders(s *Spec) error {
	if err := checkJobs(s); err != nil {
		return err
	}
	return within(s.Workload.checkOrders(), "workload", "jobs")
}

func (w Workload) checkOrders() error {
	j := w.Jobs
	switch o := j.Orders; {
	case o.Items < 1 || o.Items > 1000 || o.Stock < 1:
		return fmt.Errorf("orders: items %d (1 to 1000) and stock %d (at least 1) are out of range", o.Items, o.Stock)
	case j.Queues > 1 || j.Every > 0 || len(j.Schedules) > 0 || j.Sequence > 0 || j.Storm > 0 || j.Ahead > 0 || j.Flaky > 0 || j.Poison > 0 || j.Commands != nil || j.Mixture != nil || j.API:
		return errors.New("orders: queues, every, schedules, sequence, storm, ahead, flaky, poison, mixture, commands and api are of other jobs")
	case w.Sink != ordersSink:
		return fmt.Errorf("orders: the sink %s cannot change the shop's tables with an effect: it must be %s", w.Sink, ordersSink)
	}
	return nil
}

func jobLoad(w Workload) string {
	j := w.Jobs
	out := []string{fmt.Sprintf("%d workers, %v jobs per second, effects per job: %d, ttl %s", w.Workers, j.Rate, j.Steps, w.TTL.D())}
	for _, part := range []struct {
		format string
		of     float64
	}{{"%v of them fail once", j.Flaky}, {"%v of them fail always", j.Poison}} {
		if part.of > 0 {
			out = append(out, fmt.Sprintf(part.format, part.of))
		}
	}
	for _, d := range []struct {
		format string
		of     Duration
	}{{"due up to %s ahead", j.Ahead}, {"all due at the next multiple of %s", j.Storm}, {"a schedule that fires every %s in each shard", j.Every}} {
		if d.of > 0 {
			out = append(out, fmt.Sprintf(d.format, d.of.D()))
		}
	}
	if j.Queues > 1 {
		out = append(out, fmt.Sprintf("%d queues", j.Queues))
	}
	if n := len(j.Schedules); n > 0 {
		out = append(out, fmt.Sprintf("%d recurring schedules", n))
	}
	if j.Commands != nil {
		out = append(out, "commands on jobs and shards")
	}
	if j.API {
		out = append(out, "all of it through the HTTP API")
	}
	return strings.Join(out, ", ")
}

// NeedsControl says why a scenario can run only on nodes that the harness may break,
// "" if it leaves them alone: its faults are of workers and of their links.
func (s *Spec) NeedsControl() string {
	switch k := s.Kind(); {
	case k.Control != "":
		return k.Control
	case len(s.Layout()) > 1:
		return "it needs " + s.Layout().Words() + ", and faults of the other one"
	case s.Swarm != nil:
		return "its swarm draws faults of nodes"
	}
	for _, st := range s.Faults {
		if _, err := fault.New(st.Spec); err != nil {
			return err.Error()
		}
		if fault.Of(st.Fault).On == fault.Node {
			return fmt.Sprintf("its fault %s is one of nodes", st.Fault)
		}
	}
	return ""
}

// WithoutControl names the scenarios that leave nodes alone.
func WithoutControl() ([]string, error) {
	var out []string
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			return nil, err
		}
		if s.NeedsControl() == "" {
			out = append(out, name)
		}
	}
	return out, nil
}
