package scenario

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every set fits the scenarios that may draw it, and changes what its file says alone.
func TestSets(t *testing.T) {
	t.Parallel()
	all, err := Sets()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d sets, %v", len(all), err)
	}
	drawn, named := map[string]int{}, map[string]int{}
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		draws, err := s.Draws()
		if err != nil || draws[0] != Plain {
			t.Errorf("%s draws from %v, %v", name, draws, err)
		}
		for _, set := range draws[1:] {
			drawn[set]++
			if slices.Contains(s.Workloads, set) {
				named[set]++
			}
			with, err := s.With(set)
			if err != nil {
				t.Errorf("%s with %s: %v", name, set, err)
			} else if with.Set() != set || s.Set() != Plain || reflect.DeepEqual(with.Workload, s.Workload) {
				t.Errorf("%s with %s: it is %s with %+v, and was %s", name, set, with.Set(), with.Workload, s.Set())
			}
		}
	}
	for _, set := range all {
		if set.OptIn && drawn[set.Name] != named[set.Name] || !set.OptIn && drawn[set.Name] == 0 {
			t.Errorf("%d scenarios draw %s, %d of which name it; opt-in: %t", drawn[set.Name], set.Name, named[set.Name], set.OptIn)
		}
	}
}

// What a set does not name keeps the scenario's value, also where it is not the default.
func TestSetIsLaidOver(t *testing.T) {
	t.Parallel()
	s, err := Parse("f.yaml", []byte("name: mine\nabout: mine\nworkload: {workers: 5, ttl: 9s, jobs: {rate: 7, length: 0s, flaky: 0.5}}\n"+
		"faults: [{fault: kill-worker, targets: [w1], at: 0s, for: 1s}]\n"+
		"expect: {min_cycles: {medium: {before: 3}}, progress: [{fault: kill-worker, min_cycles: {medium: 5}, longest_gap: 1 ttl}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := parseSet("w/some.yaml", []byte("name: some\nabout: x\nkind: jobs\ncycles: 0.5\nworkload: {ttl: 4s, jobs: {flaky: 0}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Workload.over(set.workload)
	if err != nil {
		t.Fatal(err)
	}
	if w.Workers != 5 || w.TTL.D() != 4*time.Second || w.Jobs.Rate != 7 || w.Jobs.Length != 0 || w.Jobs.Flaky != 0 || w.Jobs.Slots != s.Workload.Jobs.Slots {
		t.Errorf("%+v, %+v", w, w.Jobs)
	}
	if s.Workload.TTL.D() != 9*time.Second || s.Workload.Jobs.Flaky != 0.5 {
		t.Errorf("the scenario itself was changed: %+v", s.Workload)
	}
	x := s.Expect.times(set.Cycles)
	if x.MinCycles[Medium]["before"] != 2 || x.Progress[0].MinCycles[Medium] != 3 || s.Expect.MinCycles[Medium]["before"] != 3 || s.Expect.Progress[0].MinCycles[Medium] != 5 {
		t.Errorf("half of 3 and 5 is %+v and %+v; the scenario has %+v", x.MinCycles, x.Progress, s.Expect)
	}
}

func TestBadSets(t *testing.T) {
	t.Parallel()
	const good = "name: some\nabout: x\nkind: jobs\nworkload: {jobs: {rate: 9}}\n"
	if _, err := parseSet("w/some.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"empty":    {good, "", "EOF"},
		"name":     {"name: some", "name: other", "some.yaml:1: name"},
		"no about": {"about: x\n", "", "about is missing"},
		"kind":     {"kind: jobs", "kind: orders", `some.yaml:3: unknown kind "orders"`},
		"key":      {"kind: jobs", "kind: jobs\nphases: {}", `some.yaml:4: unknown key "phases"`},
		"factor":   {"kind: jobs", "kind: jobs\ncycles: 1.5", "some.yaml:4: cycles 1.5"},
		"zero":     {"kind: jobs", "kind: jobs\ncycles: 0", "some.yaml:4: cycles 0"},
		"nothing":  {"workload: {jobs: {rate: 9}}\n", "", "workload is missing"},
		"scalar":   {"{jobs: {rate: 9}}", "7", "some.yaml:4: workload"},
	} {
		if _, err := parseSet("w/some.yaml", []byte(strings.Replace(good, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	s, err := Load("jobs-steady")
	if err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{"workload: {jobs: {rat: 9}}", "workload: {worker: 2}"} {
		set, err := parseSet("w/some.yaml", []byte(strings.Replace(good, "workload: {jobs: {rate: 9}}", unknown, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Workload.over(set.workload); err == nil || !strings.Contains(err.Error(), "line 4: unknown key") {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}

// A scenario may name sets that there are, of its kind, each once.
func TestWorkloadsOfAScenario(t *testing.T) {
	t.Parallel()
	for workloads, want := range map[string]string{
		"[all]": "", "[jobs-mixture]": "", "[]": "",
		"[jobs-mixtur]":                `f.yaml:4: workloads: unknown workload "jobs-mixtur" (did you mean "jobs-mixture"?)`,
		"[plain]":                      "f.yaml:4: workloads: plain is always one of them",
		"[all, jobs-mixture]":          "f.yaml:4: workloads: all: each set once, or all alone",
		"[jobs-mixture, all]":          "f.yaml:4: workloads: all: each set once, or all alone",
		"[jobs-mixture, jobs-mixture]": "f.yaml:4: workloads: jobs-mixture: each set once",
	} {
		_, err := Parse("f.yaml", []byte("name: mine\nabout: mine\nworkload: {jobs: {}}\nworkloads: "+workloads+"\nexpect: {min_cycles: {medium: {before: 3}}}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", workloads, err, want)
		}
	}
	_, err := Parse("f.yaml", []byte("name: mine\nabout: mine\nworkloads: [jobs-mixture]\nexpect: {min_cycles: {medium: {before: 3}}}\n"))
	if err == nil || !strings.Contains(err.Error(), "workload jobs-mixture is one of jobs, and the scenario one of locks") {
		t.Errorf("a scenario of locks: %v", err)
	}
}

// TestEveryLockScenarioTakesTheSetsOfLocks: a set may be fixed for any scenario of its kind, and
// what it demands can be checked.
func TestEveryLockScenarioTakesTheSetsOfLocks(t *testing.T) {
	t.Parallel()
	all, err := Sets()
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, name := range Names() {
		s := loaded(t, name)
		for _, set := range all {
			if s.Kind().Name != KindLocks || set.Kind != KindLocks {
				continue
			}
			taken++
			if _, err := s.With(set.Name); err != nil {
				t.Error(err)
			}
		}
	}
	if taken < 100 {
		t.Errorf("%d pairs only", taken)
	}
}

// TestLockLoadsAreChecked: the parts of the lock workload are held against each other.
func TestLockLoadsAreChecked(t *testing.T) {
	t.Parallel()
	for workload, want := range map[string]string{
		"ttl_from: 2s, ttl: 6s, hold_from: 1ms, hold: 2s, think_from: 0s, at_once: 3, impatient: 0.5, try: 0.5": "",
		"look_delay: 900ms":               "",
		"locks: 5000":                     "",
		"ttl_from: 7s":                    "ttl_from 7s: from 1s to ttl 6s",
		"ttl_from: 500ms":                 "ttl_from 500ms: from 1s to ttl 6s",
		"ttl_from: 1500500us":             "whole milliseconds",
		"hold_from: 1s":                   "hold_from 1s is above hold 20ms",
		"think_from: 1s":                  "think_from 1s is above think 10ms",
		"locks: 5001":                     "locks 5001: 1 to 5000",
		"locks: -1":                       "locks -1",
		"at_once: 21":                     "at_once 21: 1 to 20",
		"impatient: 0.7, try: 0.4":        "together at most 1",
		"try: -0.1":                       "parts of the acquires",
		"renew: 0.5":                      "",
		"renew: 1.1":                      "renew 1.1: a part of the holds",
		"reopen: 2s":                      "",
		"reopen: 400ms":                   "reopen 400ms: at least 500ms",
		"look_delay: 1s":                  "look_delay 1s: a look is given up after a sixth of the ttl, 1s",
		"look_delay: 600ms, ttl_from: 3s": "",
		"forget: 10s":                     "",
		"forget: 9s":                      "forget 9s: at least 10s, as no request lasts longer",
		"at_once: 2, jobs: {}":            "are of locks: this workload has none",
	} {
		_, err := Parse("f.yaml", []byte("name: mine\nabout: mine\nworkload: {"+workload+"}\nexpect: {min_cycles: {medium: {before: 3}}}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", workload, err, want)
		}
	}
}
