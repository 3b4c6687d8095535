package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/fault"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
)

// repository is its root, seen from this package.
const repository = "../.."

// TestScenariosPage: docs/scenarios.md is what the scenarios and variants give.
func TestScenariosPage(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	if err := writeScenarios(&page); err != nil {
		t.Fatal(err)
	}
	kept := strings.Split(mustRead(t, filepath.Join(repository, "docs/scenarios.md")), "\n")
	for i, want := range strings.Split(page.String(), "\n") {
		if i >= len(kept) || kept[i] != want {
			t.Errorf("docs/scenarios.md is stale (make docs): line %d must be %q", i+1, want)
			break
		}
	}
	if n := strings.Count(page.String(), "\n") + 1; len(kept) > n {
		t.Errorf("docs/scenarios.md is stale (make docs): it has %d lines too many", len(kept)-n)
	}
	// Whoever adds a variant finds it on the page, whatever the file says.
	for _, s := range slices.Concat(system.Directed(), system.OnStores()) {
		if want := "SCENARIO=" + s.Red.Scenario + " SYSTEM=" + s.Name + " CONTENTION=" + s.Red.Contention + " "; !strings.Contains(page.String(), want) {
			t.Errorf("%s: the page lacks %q", s.Label(), want)
		}
	}
	// No property goes without a run that must be red for it, but the one that a
	// scenario's own file sets.
	for line := range strings.Lines(page.String()) {
		if strings.HasPrefix(line, "| P") && strings.HasSuffix(line, "| – |\n") && !strings.HasPrefix(line, "| P15 ") {
			t.Errorf("nothing shows that it can fail: %s", line)
		}
	}
}

// Each kind of scenario is in one section of the page.
func TestSectionsHaveAllKinds(t *testing.T) {
	t.Parallel()
	var has []string
	for _, g := range groups {
		has = append(has, g.kinds...)
	}
	var want []string
	for _, k := range scenario.Kinds() {
		want = append(want, k.Name)
	}
	slices.Sort(has)
	slices.Sort(want)
	if !slices.Equal(has, want) {
		t.Errorf("the sections have %v, the kinds are %v", has, want)
	}
}

// All shipped scenarios are well, and of several files each bad one is told, with its line.
func TestScenarioCheck(t *testing.T) {
	t.Parallel()
	if code, said := refused(t, append([]string{"scenario", "check"}, scenario.Names()...)...); code != 0 || said != "" {
		t.Errorf("exit code %d, said %q", code, said)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const expect = "expect: {min_cycles: {medium: {fault: 1}}}\n"
	good := file("good.yaml", "name: good\nabout: It goes on.\n"+expect)
	none := file("none.yaml", "name: none\nabout: No worker.\nworkload:\n  workers: 0\n"+expect)
	far := file("far.yaml", "name: far\nabout: No such node.\n"+expect+"faults:\n  - {fault: kill-node, targets: [n7], at: 1s, for: 1s}\n")
	cmd := newRootCmd()
	var out, said bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"scenario", "check", none, good, far})
	if code := exitCode(cmd.ExecuteContext(t.Context()), &said); code != exitUsage || out.String() != good+": It goes on.\n" {
		t.Errorf("exit code %d, %q", code, out.String())
	}
	for _, want := range []string{none + ":4: workload: workers 0", far + ":5: step kill-node: there is no n7 among 3 nodes"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	}
}

// The checker imports no faults, so its words for what they do to a worker are held here
// against the faults that there are.
func TestAnswersHaveWordsForFaultsOfWorkers(t *testing.T) {
	t.Parallel()
	for _, k := range fault.Kinds() {
		if k.On == fault.Worker && !checker.DescribesFault(k.Name) {
			t.Errorf("an answer has no words for what %s does to a worker", k.Name)
		}
	}
}

// TestListParts: one part alone, and only what a store can have.
func TestListParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args     string
		has, not []string
		fails    string
	}{
		{"list stores", []string{"STORE", "cassandra", "redis-5", "zookeeper"}, []string{"SCENARIO", "partition"}, ""},
		{"list scenarios --store=etcd", []string{"steady", "partition", "kill-node", "pause-worker"}, []string{"jobs-steady", "clock-skew", "paxos-lease", "two-datacenters", "FAULT"}, ""},
		{"list scenarios --store=redis", []string{"steady", "pause-worker", "slow-node", "server-clock-jump", "node-loses-data"}, []string{"partition-oneway", "kill-node", "primary-fails-over"}, ""},
		{"list scenarios --store=redis-replica", []string{"primary-fails-over"}, []string{"partition-oneway"}, ""},
		{"list scenarios --store=postgres-sync", []string{"primary-fails-over", "server-clock-jump"}, []string{"kill-node", "node-loses-data"}, ""},
		{"list systems --store=postgres-standby", []string{"postgres-standby-lease: failed-over"}, []string{"postgres-lease", "postgres-sync-lease"}, ""},
		{"list scenarios --store=cassandra", []string{"steady", "partition"}, []string{"jobs-steady", "server-clock-jump", "node-loses-data", "primary-fails-over"}, ""},
		{"list systems --store=etcd", []string{"etcd-lease-fenced", "exec:CMD"}, []string{"redis-set", "lock-per-job", "broken/"}, ""},
		{"list systems --store=redis", []string{"redis-set: data-lost", "broken/harness-server-clock-inert"}, []string{"redis-replica-set", "harness-clock-inert"}, ""},
		{"list faults", []string{"partition-oneway"}, []string{"SCENARIO"}, ""},
		{"list nonsense", nil, nil, `unknown list "nonsense"; there are: scenarios, faults, systems, workloads, sinks, stores`},
		{"list scenarios --store=consul", nil, nil, "unknown store \"consul\"; there are: cassandra, etcd"},
	} {
		var out bytes.Buffer
		root := newRootCmd()
		root.SetArgs(strings.Fields(c.args))
		root.SetOut(&out)
		err := root.ExecuteContext(t.Context())
		if c.fails != "" {
			var ee *exitError
			if !errors.As(err, &ee) || ee.code != 64 || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.args, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		for _, word := range c.has {
			if !strings.Contains(out.String(), word) {
				t.Errorf("%s lacks %s:\n%s", c.args, word, out.String())
			}
		}
		for _, word := range c.not {
			if strings.Contains(out.String(), word) {
				t.Errorf("%s has %s:\n%s", c.args, word, out.String())
			}
		}
	}
}
