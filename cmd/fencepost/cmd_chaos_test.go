package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		names string
		flags chaosFlags
		want  string // in the error; "" for none
	}{
		"a drill":                     {"paxos-lease", chaosFlags{nodes: nodeChoice{paxos: "v1"}}, ""},
		"a drill, links inert":        {"paxos-lease", chaosFlags{system: "broken/harness-links-inert"}, ""},
		"all, overridden":             {"all", chaosFlags{override: scenario.Overrides{Contention: scenario.High}}, ""},
		"unknown release":             {"steady", chaosFlags{nodes: nodeChoice{release: "1.2.3"}}, `unknown release "1.2.3", want one of 3.11.1,`},
		"a release without variants":  {"steady", chaosFlags{nodes: nodeChoice{release: "3.11.9", paxos: "v2"}}, "release 3.11.9 has no variant v2, only v1"},
		"unknown variant":             {"steady", chaosFlags{nodes: nodeChoice{paxos: "v3"}}, `unknown Paxos variant "v3"; there are: v1,`},
		"a drill, overridden":         {"paxos-lease", chaosFlags{override: scenario.Overrides{TTL: time.Second}}, "paxos-lease: it has no workers"},
		"a drill, broken worker":      {"steady,paxos-lease", chaosFlags{system: "broken/hilo-tokens"}, "paxos-lease: it has no workers"},
		"a lock for each job":         {"jobs-steady", chaosFlags{system: "lock-per-job"}, ""},
		"a lock for each job, all":    {"all", chaosFlags{system: "lock-per-job"}, ""},
		"a lock for each job, locks":  {"steady", chaosFlags{system: "lock-per-job"}, "steady: it has no jobs"},
		"a lock for each job, peers":  {"jobs-owner-unreachable", chaosFlags{system: "lock-per-job"}, "has nothing to cut"},
		"a lock for each job, drill":  {"paxos-lease", chaosFlags{system: "lock-per-job"}, "paxos-lease: it has no jobs"},
		"a sink":                      {"steady,jobs-steady", chaosFlags{override: scenario.Overrides{Sink: "http"}}, ""},
		"a sink, all":                 {"all", chaosFlags{override: scenario.Overrides{Sink: "http"}}, ""},
		"unknown sink":                {"steady", chaosFlags{override: scenario.Overrides{Sink: "redis"}}, `unknown sink "redis"; there are: cassandra, http`},
		"a sink, a drill":             {"paxos-lease", chaosFlags{override: scenario.Overrides{Sink: "http"}}, "sink or duration could change"},
		"a sink, a lock for each job": {"jobs-steady", chaosFlags{system: "lock-per-job", override: scenario.Overrides{Sink: "http"}}, "not http"},
		"a sink that none can have":   {"all", chaosFlags{system: "lock-per-job", override: scenario.Overrides{Sink: "http"}}, "not http"},
		"a sink, a program":           {"steady", chaosFlags{system: "exec:true", override: scenario.Overrides{Sink: "cassandra"}}, "not cassandra"},
		"a workload":                  {"jobs-steady", chaosFlags{workload: "jobs-mixture"}, ""},
		"a workload, all":             {"all", chaosFlags{workload: "jobs-mixture"}, ""},
		"a workload, not drawn":       {"jobs-poison", chaosFlags{workload: "jobs-mixture"}, ""},
		"unknown workload":            {"all", chaosFlags{workload: "mixture"}, `unknown workload "mixture"`},
		"a workload of another kind":  {"steady", chaosFlags{workload: "jobs-mixture"}, "workload jobs-mixture is one of jobs, and the scenario one of locks"},
		"core on another store":       {"steady", chaosFlags{nodes: nodeChoice{store: "etcd"}}, "system core keeps its locks in cassandra, so that it cannot run on --store=etcd"},
		"core on its own store":       {"steady", chaosFlags{nodes: nodeChoice{store: "cassandra"}}, ""},
		"a program on another store":  {"partition", chaosFlags{nodes: nodeChoice{store: "etcd"}, system: "exec:true"}, ""},
		"another store's own lock":    {"all", chaosFlags{system: "redis-set"}, ""},
		"a lock on a wrong store":     {"steady", chaosFlags{nodes: nodeChoice{store: "etcd"}, system: "redis-set"}, "system redis-set keeps its locks in redis"},
		"unknown store":               {"steady", chaosFlags{nodes: nodeChoice{store: "consul"}, system: "exec:true"}, `unknown store "consul"; there are: cassandra, etcd`},
		"a store with a release":      {"steady", chaosFlags{nodes: nodeChoice{store: "etcd", release: "5.0.9"}, system: "exec:true"}, "--cassandra and --paxos are of Cassandra"},
		"one of several is not known": {"paxos-lease,nonsense", chaosFlags{}, `unknown scenario "nonsense"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs, err := c.flags.jobs(c.names, ".")
			switch {
			case c.want == "" && (err != nil || len(jobs) == 0):
				t.Errorf("%d jobs, %v", len(jobs), err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestCommand: what repeats a run names the scenario as it was asked for.
func TestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := "name: own-one\nabout: Own.\nextends: steady\nexpect: {min_cycles: {medium: {before: 1}}}\n"
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(own), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		names string
		flags chaosFlags
		want  string
	}{
		{"paxos-lease", chaosFlags{seed: 7, nodes: nodeChoice{release: "3.11.9"}}, "make chaos SCENARIO=paxos-lease SEED=7 CASSANDRA=3.11.9"},
		{"paxos-lease", chaosFlags{seed: 7, nodes: nodeChoice{paxos: "v1"}}, "make chaos SCENARIO=paxos-lease SEED=7 PAXOS=v1"},
		{"latency", chaosFlags{seed: 9, override: scenario.Overrides{Sink: "http"}}, "make chaos SCENARIO=latency SEED=9 CONTENTION=medium SINK=http"},
		{"latency", chaosFlags{seed: 9, workload: scenario.Plain}, "make chaos SCENARIO=latency SEED=9 CONTENTION=medium"},
		{"steady", chaosFlags{seed: 9, workload: scenario.Plain, override: scenario.Overrides{Sink: "http"}}, "make chaos SCENARIO=steady SEED=9 CONTENTION=medium WORKLOAD=plain SINK=http"},
		{"jobs-steady", chaosFlags{seed: 9, workload: scenario.Plain}, "make chaos SCENARIO=jobs-steady SEED=9 CONTENTION=medium WORKLOAD=plain"},
		{"jobs-poison", chaosFlags{seed: 9, workload: "jobs-mixture"}, "make chaos SCENARIO=jobs-poison SEED=9 CONTENTION=medium WORKLOAD=jobs-mixture"},
		{"steady", chaosFlags{seed: 8, system: "redis-set"}, "make chaos SCENARIO=steady SEED=8 CONTENTION=medium WORKLOAD=plain SYSTEM=redis-set"},
		{"partition", chaosFlags{seed: 8, system: "exec:true x", nodes: nodeChoice{store: "etcd"}}, "make chaos SCENARIO=partition SEED=8 CONTENTION=medium STORE=etcd SYSTEM='exec:true x'"},
		{"mine.yaml", chaosFlags{seed: 8}, "make chaos SCENARIO=mine.yaml SEED=8 CONTENTION=medium"},
	} {
		jobs, err := c.flags.jobs(c.names, dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.flags.command(jobs[0]); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestBuiltHere: what a lock on another store starts must be there before anything is started.
func TestBuiltHere(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, c := range []struct{ build, system, want string }{
		{"", "core", ""},
		{"", "zk-curator", "system zk-curator: run make systems:"},
		{"locks", "zk-curator", "system zk-curator: run make systems SYSTEM=zk-curator:"},
		{"", "zookeeper-node", ""},
		{"curator/run", "zk-curator", ""},
	} {
		if c.build != "" {
			path := filepath.Join(bin, c.build)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		sys, err := system.Find(c.system)
		if err != nil {
			t.Fatal(err)
		}
		err = builtHere(sys, bin)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || exitCode(err, io.Discard) != exitUsage) {
			t.Errorf("%s after %q: %v, want %q", c.system, c.build, err, c.want)
		}
	}
}
