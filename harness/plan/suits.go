package plan

import (
	"cmp"
	"fmt"
	"strings"

	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

// suits says by design why a system cannot be run by a scenario.
var suits = map[string]func(*scenario.Spec, system.System) error{
	system.Core: suitsCore, system.LockPerJob: suitsLockPerJob, system.Exec: suitsOwn,
}

// Suits says why a system cannot be run by the scenario, nil if it can.
func Suits(s *scenario.Spec, sys system.System) error {
	if _, err := sinks.Of(s.Workload.Sink, sys); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := suitsSink(s, sys); err != nil {
		return err
	}
	if err := suitsStore(s, sys); err != nil {
		return err
	}
	return suits[sys.Design()](s, sys)
}

// OnCore says whether the core can run a scenario: one with a fault that only other stores' servers
// can have is for locks that are kept there.
func OnCore(s *scenario.Spec) bool {
	core, err := system.Find(system.Core)
	return err == nil && Suits(s, core) == nil
}

// suitsSink: faults of the sink's process need a sink that has one.
func suitsSink(s *scenario.Spec, sys system.System) error {
	k, _ := sinks.Of(s.Workload.Sink, sys) // Suits has looked
	for _, st := range s.Faults {
		if fault.Of(st.Fault).Needs.Service && (k.Start == nil || sys.Design() == system.Exec) {
			return fmt.Errorf("%s: its fault %s needs a sink that is a separate process, such as --sink=%s, and no external system",
				s.Name, st.Fault, sinks.HTTP)
		}
		if fault.Of(st.Fault).Needs.Proxy && k.Answer == nil {
			return fmt.Errorf("%s: its fault %s needs a sink that is reached by HTTP: --sink=%s", s.Name, st.Fault, sinks.HTTP)
		}
		if fault.Of(st.Fault).Needs.Rows && k.Rival == nil {
			return fmt.Errorf("%s: its fault %s needs a sink in a database, such as --sink=%s", s.Name, st.Fault, sinks.Postgres)
		}
	}
	return nil
}

// suitsStore: fencepost's own systems are on Cassandra, others where they say, and faults of
// links between servers need such links.
func suitsStore(s *scenario.Spec, sys system.System) error {
	store := s.Cluster.Store
	if own := sys.Design() == system.Exec; own && sys.Store == "" || store == sys.Store {
		if store == "" {
			return suitsCassandra(s)
		}
	} else {
		return fmt.Errorf("%s: system %s keeps its locks in %s, so that it cannot run on --store=%s",
			s.Name, sys.Name, cmp.Or(sys.Store, scenario.Cassandra), cmp.Or(store, scenario.Cassandra))
	}
	k, _ := s.Store()
	for _, st := range s.Faults {
		switch f := fault.Of(st.Fault); {
		case f.Needs.Server != nil && f.Needs.Server(k) != "":
			return fmt.Errorf("%s: --store=%s cannot have its fault %s: %s; these can: %s",
				s.Name, store, st.Fault, f.Needs.Server(k), strings.Join(f.Needs.Stores(), ", "))
		case f.Needs.Peers && len(k.Peers) == 0:
			return fmt.Errorf("%s: its fault %s slows what servers say to each other, and --store=%s is %s", s.Name, st.Fault, store, k.About)
		case k.Servers < f.Needs.Nodes || f.Needs.Nodes > 0 && f.On == fault.Worker && s.Workload.Workers < k.Servers:
			return fmt.Errorf("%s: its fault %s needs %d servers at least, and as many workers as there are: --store=%s is %s",
				s.Name, st.Fault, f.Needs.Nodes, store, k.About)
		case f.Needs.Leaderless:
			return fmt.Errorf("%s: its fault %s leaves every server a majority, and --store=%s needs its leader itself", s.Name, st.Fault, store)
		case f.On != fault.Node:
		case f.Family == fault.FamilyLinks && k.NoQuorum == nil:
			return fmt.Errorf("%s: its fault %s cuts servers off that agree with each other, and --store=%s is %s", s.Name, st.Fault, store, k.About)
		case f.Family == fault.FamilyLatency && len(k.Peers) > 0 && k.NoQuorum == nil && goesOn(s):
			// What is judged counts only as long as a majority is not slow, and of two servers that is both.
			return fmt.Errorf("%s: work is to go on under its fault %s, and --store=%s has no majority without the slow one: it is %s",
				s.Name, st.Fault, store, k.About)
		case f.Family != fault.FamilyLatency && f.Family != fault.FamilyServerClock && k.Spare == 0 && goesOn(s):
			return fmt.Errorf("%s: work is to go on under its fault %s, and without one of its servers --store=%s does none: it is %s",
				s.Name, st.Fault, store, k.About)
		}
	}
	return nil
}

// suitsCassandra: some faults are of other stores' servers.
func suitsCassandra(s *scenario.Spec) error {
	for _, st := range s.Faults {
		if f := fault.Of(st.Fault); f.Needs.Server != nil {
			return fmt.Errorf("%s: its fault %s is one of servers of another store: --store=%s", s.Name, st.Fault, strings.Join(f.Needs.Stores(), "|"))
		}
	}
	return nil
}

// goesOn: the scenario wants cycles while its faults are in force.
func goesOn(s *scenario.Spec) bool {
	return s.Expect.MinCycles[s.Workload.Contention][history.PhaseFault] > 0
}

func suitsCore(s *scenario.Spec, sys system.System) error {
	if sys.Variant != "" && !s.Kind().Workers {
		return fmt.Errorf("%s: it has no workers, so system %s cannot be run by it", s.Name, sys.Name)
	}
	return nil
}

func suitsLockPerJob(s *scenario.Spec, sys system.System) error {
	k := s.Kind()
	switch {
	case s.Workload.MixedVersions:
		return fmt.Errorf("%s: it runs two versions of the core, so system %s cannot be run by it", s.Name, sys.Name)
	case !k.Jobs:
		return fmt.Errorf("%s: it has no jobs, and system %s runs nothing else: take one of jobs-…", s.Name, sys.Name)
	case s.Workload.Jobs.Every > 0 || len(s.Workload.Jobs.Schedules) > 0:
		return fmt.Errorf("%s: it has recurring schedules, and system %s has none", s.Name, sys.Name)
	case s.Workload.Jobs.Commands != nil:
		return fmt.Errorf("%s: commands are given on its jobs (workload %s), and system %s takes none", s.Name, s.Set(), sys.Name)
	case s.Workload.Jobs.API:
		return fmt.Errorf("%s: its clients ask an HTTP API, and system %s has none", s.Name, sys.Name)
	case k.Name == scenario.KindOrders:
		return fmt.Errorf("%s: it takes orders, which are sequences of jobs, and system %s has none", s.Name, sys.Name)
	case s.Workload.Jobs.Sequence > 0:
		return fmt.Errorf("%s: its jobs follow each other, and system %s has no sequences", s.Name, sys.Name)
	}
	for _, st := range s.Faults {
		if fault.Of(st.Fault).Needs.Jobs {
			return fmt.Errorf("%s: its fault %s has nothing to cut, as the processes of system %s know nothing of each other",
				s.Name, st.Fault, sys.Name)
		}
	}
	return nil
}

// suitsOwn is of users' own programs.
func suitsOwn(s *scenario.Spec, sys system.System) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s, so system %s cannot be run by it", s.Name, fmt.Sprintf(format, args...), sys.Name)
	}
	k := s.Kind()
	if !k.Workers {
		return refuse("it has no workers")
	}
	if len(s.Layout()) > 1 {
		return refuse("it has several data centres, which a program of your own does not know")
	}
	if k.Jobs {
		return refuse("it has jobs, and a program of your own competes for locks")
	}
	if l := s.Workload.LockLoad; l != (scenario.LockLoad{Count: l.Count}) {
		return refuse("its clients draw their times, take several locks at once or do not wait for them, as fencepost's own workers do")
	}
	if s.JudgesGrowth() {
		return refuse("it judges what processes take of the machine, which is read of fencepost's own workers")
	}
	for _, st := range s.Faults {
		if fault.Of(st.Fault).Needs.Clocks {
			return refuse("its fault %s changes the clocks that fencepost's own workers read, and no others", st.Fault)
		}
	}
	if s.Swarm != nil {
		return refuse("it draws its faults from all, those of clocks among them")
	}
	return nil
}

// SinkName is the sink that a run of a system has.
func SinkName(s *scenario.Spec, sys system.System) string {
	k, _ := sinks.Of(s.Workload.Sink, sys) // Suits has looked
	return k.Name
}
