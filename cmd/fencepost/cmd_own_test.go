package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/target/control"
	"fencepost/harness/target/system"
	"fencepost/reports/owncheck"
)

// What cannot be checked is refused before anything starts.
func TestOwnCheckRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(cluster.CacheEnv, dir) // nobody keeps a cluster up there
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "check what? Give the command line of a program"},
		{[]string{" "}, "no program is named"},
		{[]string{"./none --fast"}, "exec:./none --fast: the program cannot be started"},
		{[]string{"--", "./none", "--fast"}, "exec:./none --fast: the program cannot be started"},
		{[]string{"./text"}, "permission denied"},
		{[]string{"./mine", "--store=consul"}, `unknown store "consul"; there are: `},
		{[]string{"./mine", "--cluster=docker"}, `unknown cluster "docker"; there are: auto, up, local`},
		{[]string{"./mine"}, "no cluster is kept up: start one with fencepost up --background"},
		{[]string{"./mine", "--store=cassandra"}, "no cluster is kept up"},
		{[]string{"./mine", "--cluster=up", "--store=redis"}, "the cluster that is kept up is Cassandra's"},
	} {
		if code, said := refused(t, append([]string{"own", "check"}, c.args...)...); code != exitUsage || !strings.Contains(said, c.want) {
			t.Errorf("%q: exit code %d, said %q, want %q", c.args, code, said, c.want)
		}
	}
}

// Where a check is made: on another store's own servers, on Cassandra only where nodes are kept up,
// unless somebody asks for new ones.
func TestOwnCheckWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cluster, store, want string }{
		{"auto", "", "up"}, {"auto", "redis", "local"}, {"local", "", "local"}, {"local", "etcd", "local"}, {"up", "", "up"},
	} {
		f := ownFlags{place: place{cluster: c.cluster}, nodes: nodeChoice{store: c.store}}
		if got, err := f.where(); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func ownTrue(t *testing.T) system.System {
	t.Helper()
	sys, err := system.Find("exec:true --now")
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

// The plan suits a program on each store, and kills the one worker in its lease.
func TestOwnPlan(t *testing.T) {
	t.Parallel()
	for _, store := range append([]string{""}, servers.Names()...) {
		p, err := ownPlan(ownTrue(t), store)
		if err != nil {
			t.Fatalf("%q: %v", store, err)
		}
		if len(p.Locks) != 1 || len(p.Steps) != 1 || p.Steps[0].On.Point != control.Holding || !slices.Equal(p.Steps[0].Targets, []string{"w1"}) {
			t.Errorf("%q: %+v", store, p)
		}
	}
}

// Scenarios are told from each other by what the program offers, and by the store.
func TestSuited(t *testing.T) {
	t.Parallel()
	why := func(others []unsuitable, name string) string {
		for _, o := range others {
			if slices.Contains(o.Scenarios, name) {
				return o.Why
			}
		}
		return ""
	}
	none, others := suited("", ownTrue(t), nil)
	if !slices.Contains(none, "partition") || slices.Contains(none, "pause-worker") || why(others, "pause-worker") != "its faults come at the point effect-sent, which setup does not offer" {
		t.Errorf("without points %q, the others %+v", none, others)
	}
	all, others := suited("", ownTrue(t), []control.Point{control.Holding, control.AcquireSent, control.RenewSent, control.ReleaseSent, control.EffectSent})
	if len(all) <= len(none) || !slices.Contains(all, "pause-worker") {
		t.Errorf("with all points %q", all)
	}
	for name, want := range map[string]string{"jobs-steady": "it has jobs", "clock-jump": "its fault clock changes the clocks", "paxos-lease": "it has no workers", "kill-answered": "which setup does not offer"} {
		if got := why(others, name); !strings.Contains(got, want) || strings.Contains(got, "exec:") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	onRedis, others := suited("redis", ownTrue(t), []control.Point{control.Holding})
	if slices.Contains(onRedis, "partition") || !slices.Contains(onRedis, "kill-worker") || !strings.Contains(why(others, "partition"), "--store=redis") {
		t.Errorf("on redis %q", onRedis)
	}
}

// The report has everything, as text and as JSON.
func TestOwnReport(t *testing.T) {
	t.Parallel()
	r := ownReport{
		Program: "true --now", Store: "redis", Run: "/runs/x", Suit: []string{"steady"}, Others: []unsuitable{{"it has jobs", []string{"jobs-a", "jobs-b"}}},
		Findings: []owncheck.Finding{{Check: "setup", Status: owncheck.OK, Text: "well"}, {Check: "seal", Status: owncheck.Wrong, Text: "open", Do: "close it", File: "history/w1.1.jsonl", Line: 3}},
	}
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"true --now on redis\n", "setup          ok          well\n", "seal           WRONG       history/w1.1.jsonl:3: open\n", "-> close it\n",
		"scenarios that suit it (1): steady\n", "  it has jobs: jobs-a, jobs-b\n", "\n1 thing is wrong; the run is in /runs/x (history, logs)\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	for status, want := range map[owncheck.Status]struct {
		code int
		text string
	}{owncheck.OK: {0, "nothing is wrong; "}, owncheck.Hint: {0, "nothing is wrong; "}, owncheck.Unchecked: {0, "nothing is wrong; "}, owncheck.Unknown: {2, "not everything could be checked; "}, owncheck.Wrong: {1, "1 thing is wrong; "}} {
		r := ownReport{Findings: []owncheck.Finding{{Status: owncheck.OK}, {Status: status}}}
		var b strings.Builder
		if err := r.print(&b); err != nil || !strings.Contains(b.String(), want.text) {
			t.Errorf("%s: %v, %q", status, err, b.String())
		}
		if got := ownExits[owncheck.Worst(r.Findings)]; got != want.code {
			t.Errorf("%s: exit code %d", status, got)
		}
	}
	b.Reset()
	if err := printJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var back ownReport
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || len(back.Findings) != 2 || back.Findings[1] != r.Findings[1] || back.Others[0].Why != "it has jobs" {
		t.Errorf("%v, %+v", err, back)
	}
}
