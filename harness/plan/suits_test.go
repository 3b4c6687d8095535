package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/harness/target/system/lockperjob"
)

// Faults of the sink's process need a sink that has one.
func TestSuitsSink(t *testing.T) {
	t.Parallel()
	core, err := system.Find(system.Core)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kill-sink", "pause-sink"} {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for sink, want := range map[string]string{sinks.HTTP: "", sinks.Postgres: "", sinks.Cassandra: "needs a sink that is a separate process, such as --sink=http"} {
			s.Workload.Sink = sink
			if err := Suits(s, core); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s on %q: %v, want %q", name, sink, err, want)
			}
		}
	}
}

// Every known-broken variant, and every hole of a design, names a scenario that exists
// and that it can be run by; no two have the same runs.
func TestVariantsNameScenarios(t *testing.T) {
	t.Parallel()
	for _, v := range slices.Concat(system.Directed(), system.OnStores()) {
		s, err := scenario.Load(v.Red.Scenario)
		if err == nil {
			err = s.Apply(scenario.Overrides{Store: v.Store})
		}
		if err == nil {
			err = Suits(s, v)
		}
		if err != nil {
			t.Errorf("%s: %v", v.Label(), err)
		}
		if v.Store != "" {
			continue
		}
		if found, _ := system.FindDirected(v.Name, v.Red.Scenario, v.Red.Contention); found.Label() != v.Label() {
			t.Errorf("the runs of %s are those of %s", v.Label(), found.Label())
		}
	}
}

// The scheduler that a system names is the one that workers know, and what it does
// not come to are points that a scenario may demand.
func TestLockPerJob(t *testing.T) {
	t.Parallel()
	s, err := system.Find(lockperjob.Name)
	if err != nil || s.Scheduler != lockperjob.Name || s.Binary != "worker" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, point := range s.Unreached {
		if !slices.Contains(scenario.MustPoints, point) {
			t.Errorf("%q is no point that a scenario can demand", point)
		}
	}
	all := history.Expect{Must: []string{"retry", "rescue", "dlq"}, Sometimes: []string{"resend", "duplicate"}, Workers: 4}
	if x := Demanded(all, s); !slices.Equal(x.Must, []string{"retry", "dlq"}) || !slices.Equal(x.Sometimes, []string{"duplicate"}) || x.Workers != 4 {
		t.Errorf("demanded of it: %+v", x)
	}
	core, err := system.Find(system.Core)
	if x := Demanded(all, core); err != nil || !reflect.DeepEqual(x, all) {
		t.Errorf("demanded of the core: %+v, %v", x, err)
	}
	steady, err := scenario.Load("steady")
	if err != nil {
		t.Fatal(err)
	}
	if err := Suits(steady, s); err == nil {
		t.Error("it runs locks")
	}
}

// TestSuitsStore: fencepost's own systems stay on Cassandra, others on their stores; a scenario
// whose faults a store's servers cannot have, or cannot be without, is refused by name.
func TestSuitsStore(t *testing.T) {
	t.Parallel()
	own := system.System{Name: "exec:CMD", Command: []string{"CMD"}}
	find := func(name string) system.System {
		s, err := system.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		scenario, store string
		sys             system.System
		says            string
	}{
		{"steady", "", own, ""},
		{"steady", "redis", own, ""},
		{"steady", "redis", find("redis-set"), ""},
		{"steady", "", find("redis-set"), "system redis-set keeps its locks in redis, so that it cannot run on --store=cassandra"},
		{"steady", "etcd", find("redis-set"), "cannot run on --store=etcd"},
		{"steady", "etcd", find(system.Core), "system core keeps its locks in cassandra, so that it cannot run on --store=etcd"},
		{"jobs-steady", "etcd", find(system.LockPerJob), "keeps its locks in cassandra"},
		{"pause-worker", "redis", own, ""},
		{"partition", "etcd", own, ""},
		{"partition", "nats", own, ""},
		{"partition", "redis", own, "its fault partition cuts servers off that agree with each other, and --store=redis is one Redis server"},
		{"partition", "redis-5", own, "cuts servers off that agree with each other"},
		{"partition", "redis-replica", own, "cuts servers off that agree with each other"},
		{"partition-bridge", "redis-replica", own, "its fault partition-bridge needs 3 servers at least"},
		{"partition-bridge", "etcd", own, "--store=etcd needs its leader itself"},
		{"partition-ring", "etcd", own, ""},
		{"partition-ring", "postgres", own, "its fault partition-ring needs 2 servers at least"},
		{"partition-ring", "redis-5", own, "and as many workers as there are"},
		{"kill-node", "etcd", own, ""},
		{"kill-node", "redis-5", own, ""},
		{"kill-node", "redis", own, "work is to go on under its fault kill-node, and without one of its servers --store=redis does none"},
		{"kill-node", "postgres", own, "without one of its servers --store=postgres does none"},
		{"slow-node", "redis", own, ""},
		{"slow-node", "etcd", own, ""},
		{"slow-node", "postgres-sync", own, "and --store=postgres-sync has no majority without the slow one"},
		{"slow-node", "redis-replica", own, "has no majority without the slow one"},
		{"server-clock-jump", "redis", find("redis-set"), ""},
		{"server-clock-jump", "postgres", own, ""},
		{"server-clock-jump", "redis-5", own, ""},
		{"server-clock-jump", "etcd", own, "--store=etcd cannot have its fault server-clock: a server in Go asks the kernel for the time, not the C library; these can: postgres, postgres-standby, postgres-sync, redis, redis-replica, redis-5"},
		{"server-clock-jump", "postgres-sync", own, ""},
		{"server-clock-jump", "zookeeper", own, "its sessions end by a clock that nobody sets"},
		{"server-clock-jump", "", own, "its fault server-clock is one of servers of another store: --store=postgres|postgres-standby|postgres-sync|redis|redis-replica|redis-5"},
		{"server-clock-jump", "", find(system.Core), "is one of servers of another store"},
		{"node-loses-data", "redis", find("redis-set"), ""},
		{"node-loses-data", "zookeeper", own, ""},
		{"node-loses-data", "nats", own, ""},
		{"node-loses-data", "etcd", own, "cannot have its fault lose-data: a member without its data has to be removed, and added again; these can: nats, zookeeper, redis, redis-replica, redis-5"},
		{"node-loses-data", "postgres", own, "it needs an initdb"},
		{"primary-fails-over", "redis-replica", find("redis-replica-set"), ""},
		{"node-loses-data", "postgres-standby", own, "a primary without its data has none to copy it from"},
		{"kill-node", "postgres-sync", own, "without one of its servers --store=postgres-sync does none"},
		{"partition", "postgres-sync", own, "cuts servers off that agree with each other"},
		{"primary-fails-over", "postgres-standby", find("postgres-standby-lease"), ""},
		{"primary-fails-over", "postgres-sync", find("postgres-sync-lease"), ""},
		{"primary-fails-over", "postgres-sync", find("postgres-standby-lease"), "system postgres-standby-lease keeps its locks in postgres-standby"},
		{"primary-fails-over", "redis", own, "its fault slow-peers slows what servers say to each other, and --store=redis is one Redis server"},
		{"primary-fails-over", "etcd", own, "cannot have its fault promote: its servers elect the one that decides themselves; these can: postgres-standby, postgres-sync, redis-replica"},
	} {
		s, err := scenario.Load(c.scenario)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(scenario.Overrides{Store: c.store}); err != nil {
			t.Fatalf("%s on %s: %v", c.scenario, c.store, err)
		}
		if err := Suits(s, c.sys); c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s of %s on %q: %v, want %q", c.scenario, c.sys.Name, c.store, err, c.says)
		}
	}
}

// TestPlansOnStores: targets are drawn among the servers that there are.
func TestPlansOnStores(t *testing.T) {
	t.Parallel()
	for store, most := range map[string]string{"redis": "n1", "redis-5": "n5", "etcd": "n3", "": "n3"} {
		s, err := scenario.Load("slow-node")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(scenario.Overrides{Store: store}); err != nil {
			t.Fatal(err)
		}
		s.Faults[0].Targets = []string{"random-node"}
		drawn := map[string]bool{}
		for seed := range uint64(60) {
			p, err := New(*s, seed, "exec:CMD")
			if err != nil {
				t.Fatal(err)
			}
			drawn[p.Steps[0].Targets[0]] = true
		}
		if n := int(most[1] - '0'); !drawn[most] || len(drawn) != n {
			t.Errorf("%q: %v, want n1 to %s", store, drawn, most)
		}
	}
	s, err := scenario.Load("steady")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(scenario.Overrides{Store: "consul"}); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("a store that there is not: %v", err)
	}
}

// TestOnCore: of the shipped scenarios the core runs all but those of other stores, or with faults of
// their servers.
func TestOnCore(t *testing.T) {
	t.Parallel()
	var not []string
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if !OnCore(s) {
			not = append(not, name)
		}
		p, err := New(*s, 1, system.Core)
		if err != nil || p.SetsServerClocks() != (name == "server-clock-jump") {
			t.Errorf("%s sets the clocks of servers: %t, %v", name, p.SetsServerClocks(), err)
		}
	}
	if want := []string{"late-renewal", "late-unlock", "long-job", "node-loses-data", "primary-fails-over", "server-clock-jump"}; !slices.Equal(not, want) {
		t.Errorf("the core cannot run %v, want %v", not, want)
	}
}
