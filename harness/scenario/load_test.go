package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/harness/target/paxos"
)

// TestEveryPropertyIsExercised: an exemption may not leave a property that no scenario
// shows anything of.
func TestEveryPropertyIsExercised(t *testing.T) {
	t.Parallel()
	for _, id := range history.Promisable {
		n := 0
		for _, name := range Names() {
			s, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if exercises(s, id) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("no scenario exercises %s", id)
		}
	}
	for name, want := range map[string]bool{"steady": false, "kill-worker": true, "jobs-steady": false} {
		if s, err := Load(name); err != nil || exercises(s, "P11") != want {
			t.Errorf("%s exercises P11: %v, %v", name, !want, err)
		}
	}
}

// exercises says whether runs of the scenario check something of a property, as far as the
// system promises it.
func exercises(s *Spec, property string) bool {
	j := s.Workload.Jobs
	switch {
	case s.Drill != "":
		return slices.Contains(paxos.Promises(), property)
	case s.Expect.Exempt[property] != "":
		return false
	case property == "P5" || property == "P12":
		return j != nil
	case property == "P16" || property == "P17":
		return j != nil && j.Orders != nil
	}
	return true
}

func TestBuiltInScenariosLoad(t *testing.T) {
	t.Parallel()
	if len(Names()) == 0 {
		t.Fatal("no built-in scenarios")
	}
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Name != name {
			t.Errorf("%s.yaml is named %q", name, s.Name)
		}
		if s.Drill != "" {
			continue // see TestDrills
		}
		for _, c := range []string{Low, Medium, High} {
			if len(s.Expect.MinCycles[c]) == 0 {
				t.Errorf("%s demands no cycles at %s contention: it could pass without testing", name, c)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	const head = "name: mine\nabout: mine\n"
	const oneFault = "faults: [{fault: kill-worker, targets: [w1], at: 0s, for: 1s}]\n"
	for name, c := range map[string]struct{ body, want string }{
		"misspelt key":       {"fauls: []\n", `f.yaml:3: unknown key "fauls" (did you mean "faults"?); there are: about, cluster, drill, expect, extends, faults`},
		"misspelt deep key":  {"workload:\n  worker: 3\n", `f.yaml:4: unknown key "worker"`},
		"misspelt step key":  {"faults:\n  - fault: partition\n    target: [n1]\n    at: 0s\n    for: 1s\n", `f.yaml:5: unknown key "target"`},
		"misspelt trigger":   {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    for: 1s\n    on: {piont: holding}\n", `f.yaml:7: unknown key "piont"`},
		"unknown fault":      {"faults:\n  - fault: meteor\n    targets: [n1]\n    at: 0s\n    for: 1s\n", `f.yaml:4: unknown fault "meteor"; there are: clock, flaky-links, heartbeat-loss, kill-node`},
		"wrong target":       {"faults:\n  - fault: partition\n    targets: [w1]\n    at: 0s\n    for: 1s\n", `f.yaml:4: fault partition: target "w1" is not a node`},
		"no target":          {"faults:\n  - fault: partition\n    at: 0s\n    for: 1s\n", `f.yaml:4: fault partition has no targets`},
		"no such worker":     {"faults:\n  - fault: kill-worker\n    targets: [w9]\n    at: 0s\n    for: 1s\n", `f.yaml:4: there is no worker w9 among 4`},
		"unknown mode":       {"faults:\n  - fault: partition\n    targets: [n1]\n    mode: melt\n    at: 0s\n    for: 1s\n", `f.yaml:4: fault partition: unknown mode "melt"`},
		"unknown point":      {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    for: 1s\n    on: {point: lunch}\n", `f.yaml:4: unknown point "lunch"; there are: acquire-sent, claim-sent`},
		"hold at no holding": {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    for: 1s\n    on: {point: renew-sent, hold: 3s}\n", `f.yaml:4: hold needs the point "holding"`},
		"a job that is none": {"faults:\n  - fault: slow-job\n    targets: [w1]\n    for: 1s\n    on: {point: holding}\n", `f.yaml:4: fault slow-job needs a client that is held`},
		"until, no trigger":  {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    at: 0s\n    for: 1s\n    until: {point: effect-sent}\n", `f.yaml:4: until needs a trigger (on)`},
		"until, unknown":     {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    for: 1s\n    on: {point: holding}\n    until: {point: lunch}\n", `f.yaml:4: unknown point "lunch"`},
		"until, of jobs":     {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    for: 1s\n    on: {point: holding}\n    until: {point: claim-sent}\n", `f.yaml:4: point claim-sent is never reached`},
		"at point, none":     {"faults:\n  - fault: kill-worker\n    targets: [worker-at-point]\n    at: 0s\n    for: 1s\n", `f.yaml:4: the target worker-at-point needs a trigger (on)`},
		"at point, and more": {"faults:\n  - fault: kill-worker\n    targets: [worker-at-point, w1]\n    for: 1s\n    on: {point: holding}\n", `f.yaml:4: the target worker-at-point stands alone`},
		"at point, watched":  {"faults:\n  - fault: kill-worker\n    targets: [worker-at-point]\n    for: 1s\n    on: {point: holding, worker: w2}\n", `f.yaml:4: the target worker-at-point stands alone`},
		"at point, of nodes": {"faults:\n  - fault: kill-node\n    targets: [worker-at-point]\n    for: 1s\n    on: {point: holding}\n", `f.yaml:4: fault kill-node: target "worker-at-point" is not a node`},
		"fault of jobs":      {"faults:\n  - fault: heartbeat-loss\n    targets: [w1]\n    at: 0s\n    for: 1s\n", `f.yaml:4: fault heartbeat-loss requires a job workload`},
		"no duration":        {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    at: 1s\n", `f.yaml:4: fault kill-worker: missing duration`},
		"negative duration":  {"phases:\n  before: -3s\n", `f.yaml:4: duration -3s is negative`},
		"not a duration":     {"phases:\n  before: soon\n", `f.yaml:4: "soon" is not a duration`},
		"not a number":       {"workload:\n  workers: many\n", `f.yaml:4: cannot unmarshal`},
		"unknown contention": {"workload: {contention: extreme}\n", `f.yaml:3: workload: unknown contention "extreme"`},
		"too often":          {"workload: {jobs: {every: 200ms}}\n", `f.yaml:3: workload: jobs: every 200ms: at least 1s`},
		"a part of a ms":     {"workload: {jobs: {every: 1000500us}}\n", `f.yaml:3: workload: jobs: every 1.0005s: at least 1s, in whole milliseconds`},
		"unknown must":       {"expect: {must: [luck]}\n", `f.yaml:3: expect: must: unknown point "luck"`},
		"unknown drill":      {"drill: paxos-nonsense\n", `f.yaml:3: drill: unknown drill "paxos-nonsense" (did you mean "paxos-release"?); there are: paxos-incomplete-read`},
		"drill and faults":   {"drill: paxos-lease\nfaults:\n  - fault: kill-worker\n    targets: [w1]\n    at: 0s\n    for: 1s\n", `f.yaml:1: a scenario with a drill has no`},
		"drill and workload": {"drill: paxos-lease\nworkload: {workers: 3}\n", `f.yaml:1: a scenario with a drill has no`},
		"drill and expect":   {"drill: paxos-lease\nexpect: {must: [takeover]}\n", `f.yaml:1: a scenario with a drill has no`},
		"unknown sometimes":  {"expect: {sometimes: [luck]}\n", `f.yaml:3: expect: sometimes: unknown point "luck"`},
		"must and sometimes": {"expect: {must: [resend], sometimes: [resend]}\n", `f.yaml:3: expect: point "resend" is in must and in sometimes`},
		"negative bound":     {"expect: {recovery_bound_ms: -1}\n", `f.yaml:3: expect: recovery_bound_ms -1 is negative`},
		"progress, key":      {"expect:\n  progress:\n    - {fault: partition, gap: 3s}\n", `f.yaml:5: unknown key "gap"; there are: exempt, fault, group, longest_gap, min_cycles`},
		"progress, no gap":   {oneFault + "expect:\n  progress:\n    - {fault: kill-worker}\n", `f.yaml:6: progress: longest_gap is missing`},
		"progress, bad gap":  {oneFault + "expect:\n  progress:\n    - {fault: kill-worker, longest_gap: 2 tll}\n", `f.yaml:6: "2 tll" is not a duration (such as 250ms, 2.25 ttl, or 2.25 ttl + 5s)`},
		"progress, no fault": {"expect:\n  progress:\n    - {fault: partition, longest_gap: 2 ttl}\n", `f.yaml:5: progress: fault "partition": the scenario has no faults`},
		"progress, other":    {oneFault + "expect:\n  progress:\n    - {fault: partition, longest_gap: 2 ttl}\n", `f.yaml:6: progress: the scenario has no fault "partition"; it has kill-worker`},
		"progress, nameless": {oneFault + "expect:\n  progress:\n    - {longest_gap: 2 ttl}\n", `f.yaml:6: progress names no fault`},
		"progress, twice":    {oneFault + "expect:\n  progress:\n    - {fault: kill-worker, longest_gap: 2 ttl}\n    - {fault: kill-worker, longest_gap: 3 ttl}\n", `f.yaml:7: progress: fault "kill-worker" has two entries`},
		"progress, group":    {oneFault + "expect:\n  progress:\n    - {fault: kill-worker, group: all, longest_gap: 2 ttl}\n", `f.yaml:6: progress of group "all"`},
		"progress, of nodes": {"faults: [{fault: kill-node, targets: [n1], at: 0s, for: 1s}]\nexpect:\n  progress:\n    - {fault: kill-node, group: others, longest_gap: 2 ttl}\n", `f.yaml:6: progress: group "others": no such fault of the scenario is aimed at a worker`},
		"progress, level":    {oneFault + "expect:\n  progress:\n    - {fault: kill-worker, min_cycles: {extreme: 3}, longest_gap: 2 ttl}\n", `f.yaml:6: progress: min_cycles: extreme: 3: unknown contention`},
		"progress, negative": {oneFault + "expect:\n  progress:\n    - {fault: kill-worker, min_cycles: {low: -3}, longest_gap: 2 ttl}\n", `f.yaml:6: progress: min_cycles: low: -3:`},
		"progress, exempt":   {oneFault + "expect:\n  progress:\n    - {fault: kill-worker, exempt: so, longest_gap: 2 ttl}\n", `f.yaml:6: progress: exempt goes with the fault alone`},
		"drill, progress":    {"drill: paxos-lease\nexpect: {progress: [{fault: any, longest_gap: 1s}]}\n", `f.yaml:1: a scenario with a drill has no`},
		"threshold, key":     {"expect:\n  thresholds:\n    - {latency: lock, phase: fault, most: 3s}\n", `f.yaml:5: unknown key "most"; there are: latency, lateness, max`},
		"threshold, nothing": {"expect:\n  thresholds:\n    - {max: 3s}\n", `f.yaml:5: a threshold bounds one of latency, recovery and lateness`},
		"threshold, no max":  {"expect:\n  thresholds:\n    - {latency: lock, phase: fault}\n", `f.yaml:5: a threshold needs a max`},
		"threshold, fine":    {"expect:\n  thresholds:\n    - {latency: lock, phase: fault, max: 1500us}\n", `f.yaml:5: 1500us is not a number of whole milliseconds`},
		"threshold, unknown": {"expect:\n  thresholds:\n    - {latency: lunch, phase: fault, max: 1s}\n", `f.yaml:5: latency of "lunch"`},
		"threshold, phase":   {"expect:\n  thresholds:\n    - {latency: lock, phase: tea, max: 1s}\n", `f.yaml:5: threshold: unknown phase "tea"`},
		"threshold, jobs":    {"expect:\n  thresholds:\n    - {lateness: p99, max: 1s}\n", `f.yaml:5: threshold: p99 of lateness is a number of jobs`},
		"threshold, locks":   {"workload: {jobs: {}}\nexpect:\n  thresholds:\n    - {latency: lock, phase: fault, max: 1s}\n", `f.yaml:6: threshold: p99 of lock in phase fault is a number of locks`},
		"threshold, faults":  {"expect:\n  thresholds:\n    - {recovery: first, max: 1s}\n", `f.yaml:5: threshold: recovery follows a fault`},
		"drill, threshold":   {"drill: paxos-lease\nexpect: {thresholds: [{latency: lock, phase: fault, max: 1s}]}\n", `f.yaml:1: a scenario with a drill has no`},
		"success of nothing": {"expect: {success: [{want: some}]}\n", `f.yaml:3: expect: success: it names neither a phase nor a fault`},
		"success, no want":   {"expect: {success: [{phase: fault, want: much}]}\n", `f.yaml:3: expect: success: want "much"`},
		"success of a phase": {"expect: {success: [{phase: tea, want: some}]}\n", `f.yaml:3: expect: success: unknown phase "tea"`},
		"success of both":    {oneFault + "expect: {success: [{phase: fault, fault: kill-worker, want: some}]}\n", `f.yaml:4: expect: success: it names phase "fault" and fault "kill-worker"`},
		"success, fault":     {oneFault + "expect: {success: [{fault: partition, want: some}]}\n", `f.yaml:4: expect: success: the scenario has no fault "partition"; it has kill-worker`},
		"success, no faults": {"expect: {success: [{fault: partition, want: some}]}\n", `f.yaml:3: expect: success: fault "partition": the scenario has no faults`},
		"success, group":     {oneFault + "expect: {success: [{fault: kill-worker, group: all, want: some}]}\n", `f.yaml:4: expect: success: unknown group "all"`},
		"success, two":       {oneFault + "expect: {success: [{fault: kill-worker, group: others, workers: [w1], want: some}]}\n", `f.yaml:4: expect: success: it names group "others" and workers`},
		"success, worker":    {oneFault + "expect: {success: [{phase: fault, workers: [w9], want: some}]}\n", `f.yaml:4: expect: success: there is no worker w9 among 4`},
		"success, node":      {"faults: [{fault: kill-node, targets: [n1], at: 0s, for: 1s}]\nexpect: {success: [{fault: kill-node, group: targets, want: none}]}\n", `f.yaml:4: expect: success: group "targets": no such fault`},
		"bad yaml":           {"phases: [\n", `f.yaml:`},
		"no beginning":       {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    for: 1s\n", `f.yaml:4: fault kill-worker never begins: give it an at`},
		"two beginnings":     {"faults:\n  - fault: kill-worker\n    at: 1s\n    targets: [w1]\n    at: 2s\n    for: 1s\n", `f.yaml:7: mapping key "at" already defined at line 5`},
		"no repetition":      {"faults:\n  - fault: kill-worker\n    targets: [w1]\n    at: 1s\n    for: 1s\n    repeat: 0\n", `f.yaml:4: repeat 0: at least 1`},
		"no workers":         {"workload:\n  workers: 0\n", `f.yaml:4: workload: workers 0 (1 to 16)`},
		"no clients":         {"workload: {clients: 0}\n", `f.yaml:3: workload: workers 4 (1 to 16) and clients 0`},
		"no ttl":             {"workload: {ttl: 0s}\n", `f.yaml:3: workload: ttl 0s is below 1s`},
		"no rate":            {"workload: {jobs: {rate: 0}}\n", `f.yaml:3: workload: jobs: rate 0`},
		"no stock":           {"workload: {jobs: {orders: {stock: 0}}}\n", `f.yaml:3: workload: jobs: orders: items 4 (1 to 1000) and stock 0`},
		"no fault phase":     {"phases: {fault: 0s}\n", `f.yaml:3: phases: before, fault and recover last some time`},
		"no swarm":           {"swarm: {for: 0s}\n", `f.yaml:3: swarm: for is 0s`},
		"cluster, key":       {"cluster: {nodes: 4}\n", `f.yaml:3: unknown key "nodes"; there are: datacenters`},
		"cluster of one":     {"cluster: {datacenters: [3]}\n", `f.yaml:3: cluster: datacenters: 3: name the nodes of two or more`},
		"cluster, nobody":    {"cluster: {datacenters: [3, 0]}\n", `f.yaml:3: cluster: datacenters: 3,0: a data centre has at least 1 node`},
		"cluster, too large": {"cluster: {datacenters: [3, 4]}\n", `f.yaml:3: cluster: datacenters: 3,4: at most 3 nodes in each`},
		"cluster of a drill": {"drill: paxos-lease\ncluster: {datacenters: [3, 1]}\n", `f.yaml:4: cluster: a drill runs on three nodes`},
		"no expect":          {"workload: {workers: 3}\n", `f.yaml:1: expect: min_cycles is missing: say by contention`},
		"nothing expected":   {"expect:\n  must: [takeover]\n", `f.yaml:4: expect: min_cycles is missing`},
		"extends unknown":    {"extends: partitoin\n", `f.yaml:3: extends: unknown scenario "partitoin" (did you mean "partition"?)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("f.yaml", []byte(head+c.body))
			var in *InputError
			if !errors.As(err, &in) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %q\nwant %q …", err, c.want)
			}
		})
	}
}

// A scenario that extends itself, or comes back to itself over others, is refused: at the
// line in the file that closes the ring.
func TestExtendsInARing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, extends string) string {
		path := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(path, []byte("name: "+name+"\nabout: ring\nextends: "+filepath.Join(dir, extends+".yaml")+"\nexpect: {min_cycles: {medium: {fault: 1}}}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	self := file("self", "../"+filepath.Base(dir)+"/self")
	a, b := file("a", "b"), file("b", "a")
	for path, want := range map[string]string{
		self: self + ":3: extends: " + self + ":3: extends: ",
		a:    a + ":3: extends: " + b + ":3: extends: " + a + ":3: extends: ",
	} {
		if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "comes back to this file: a scenario cannot extend itself") {
			t.Errorf("got %v\nwant %s …", err, want)
		}
	}
}
