//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/drill"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

// TestRaceDetector is one run with workers built with the race detector. They
// are too slow to be judged by the number of their cycles.
func TestRaceDetector(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("NO RACE DETECTOR: it needs a C compiler (apt-get install gcc libc6-dev): %v", err)
	}
	bin, runs := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", bin, "./cmd/worker")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, out := fencepost(t, "chaos", "steady", "--cluster=up", "--runs="+runs, "--bin="+bin, "--duration=3s", "--seed=1")
	if code != checker.Pass.ExitCode() && code != checker.Invalid.ExitCode() {
		t.Errorf("exit code %d\n%s", code, out)
	}
	logs, err := filepath.Glob(filepath.Join(runs, "latest", rundir.LogDir, "w*.log"))
	if err != nil || len(logs) != 4 {
		t.Fatalf("logs %v, %v\n%s", logs, err, out)
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("DATA RACE")) {
			t.Errorf("%s:\n%s", filepath.Base(name), b)
		}
	}
}

// TestPaxosSound: a sound variant passes, with attempts that were armed.
func TestPaxosSound(t *testing.T) {
	code, res, out := chaos(t, drill.IncompleteRead, "--paxos="+cluster.PaxosV2, "--seed=1")
	if code != 0 || res.Verdict != checker.Pass || !strings.Contains(out, "attempts armed") {
		t.Errorf("exit code %d, verdict %s, want 0 and PASS with armed attempts\n%s", code, res.Verdict, out)
		keep(t, out)
	}
}

// TestPaxosNeverArmed: a run whose links do nothing has tested nothing.
func TestPaxosNeverArmed(t *testing.T) {
	code, res, out := chaos(t, drill.IncompleteRead, "--system=broken/harness-links-inert", "--seed=1")
	if code != checker.Invalid.ExitCode() || res.Verdict != checker.Invalid || !strings.Contains(out, "0 of 5 attempts armed") {
		t.Errorf("exit code %d, verdict %s, want %d and INVALID with no armed attempt\n%s", code, res.Verdict, checker.Invalid.ExitCode(), out)
		keep(t, out)
	}
}

// TestPaxosUnsafe starts a cluster with a variant that is known to be unsafe: the
// checker must find the database's own bug, by P2, in the encoding that can see it.
func TestPaxosUnsafe(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("starts a cluster of its own: scripts/test-real runs it before it brings the shared one up")
	}
	runs := t.TempDir()
	code, out := fencepost(t, "chaos", drill.IncompleteRead+","+drill.Lease, "--cluster=local", "--runs="+runs, "--seed=1",
		"--paxos="+cluster.PaxosV2UnsafeReadsRejects)
	t.Log(out)
	if code != checker.Fail.ExitCode() {
		t.Errorf("exit code %d, want %d (FAIL)", code, checker.Fail.ExitCode())
	}
	for name, open := range map[string]string{drill.IncompleteRead: "Ok", drill.Lease: "Illegal"} {
		dirs, err := filepath.Glob(filepath.Join(runs, "*-"+name+"-1"))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("run directories %v, %v", dirs, err)
		}
		b, err := os.ReadFile(filepath.Join(dirs[0], rundir.VerdictFile))
		if err != nil {
			t.Fatal(err)
		}
		var res checker.Result
		if err := json.Unmarshal(b, &res); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(res.Properties, func(p checker.Property) bool { return p.ID == "P2" })
		p2 := res.Properties[i]
		if res.Verdict != checker.Fail || p2.Status != checker.StatusFail || p2.Encodings["open"] != open || p2.Encodings["bounded"] != "Illegal" {
			t.Errorf("%s: verdict %s, P2 %s, encodings %v; want FAIL by P2 with open %s and bounded Illegal", name, res.Verdict, p2.Status, p2.Encodings, open)
		}
	}
}

// TestReleases: the same bug in a release of Cassandra that has it, and not in the next one, which
// mends it (CASSANDRA-12126).
func TestReleases(t *testing.T) {
	if os.Getenv("FENCEPOST_E2E_OWN_CLUSTER") == "" {
		t.Skip("starts clusters of its own: scripts/test-real runs it before it brings the shared one up")
	}
	for release, want := range map[string]checker.Verdict{"3.11.9": checker.Fail, "3.11.10": checker.Pass} {
		t.Run(release, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "fetch-cassandra"), release)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			code, res, out := chaos(t, drill.Lease, "--cluster=local", "--cassandra="+release, "--seed=1")
			if code != want.ExitCode() || res.Verdict != want {
				t.Errorf("exit code %d, verdict %s, want %s\n%s", code, res.Verdict, want, out)
				keep(t, out)
			}
		})
	}
}

// TestReplay makes a red run and carries out its plan again: the same plan to the
// byte, red by the same property, in a directory that names the first run.
func TestReplay(t *testing.T) {
	runs := t.TempDir()
	code, out := fencepost(t, "chaos", "pause-worker", "--system=broken/sink-no-token-check", "--contention=high", "--seed=5", "--cluster=up", "--runs="+runs)
	if code != 1 {
		t.Fatalf("exit code %d, want 1\n%s", code, out)
	}
	first, err := filepath.EvalSymlinks(filepath.Join(runs, "latest"))
	if err != nil {
		t.Fatal(err)
	}
	code, out = fencepost(t, "replay", first, "--cluster=up", "--runs="+runs)
	if code != 1 || !strings.Contains(out, "1 of 1 red again as it was (FAIL by P3") {
		t.Errorf("exit code %d, want 1 and red again\n%s", code, out)
	}
	second, err := filepath.EvalSymlinks(filepath.Join(runs, "latest"))
	if err != nil {
		t.Fatal(err)
	}
	if second == first {
		t.Fatalf("the replay has no directory of its own\n%s", out)
	}
	info, err := rundir.ReadInfo(second)
	if err != nil {
		t.Fatal(err)
	}
	if info.ReplayOf != filepath.Base(first) || info.System != "broken/sink-no-token-check" || info.Contention != "high" || info.Seed != 5 {
		t.Errorf("run.json of the replay: %+v", info)
	}
	var plans [2][]byte
	for i, dir := range []string{first, second} {
		if plans[i], err = os.ReadFile(filepath.Join(dir, rundir.PlanFile)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(plans[0], plans[1]) {
		t.Errorf("the plans differ:\n%s\n%s", plans[0], plans[1])
	}
}

// onSink is a run with another sink than the default.
type onSink struct{ scenario, contention, system, sink string }

// sinkRuns are what each sink has to show: that it holds under what acts on it, and that
// what gets past its rules is found. make nightly runs them all, under many seeds.
func sinkRuns() []onSink {
	var out []onSink
	for _, sink := range sinks.Names()[1:] {
		out = append(out,
			onSink{"pause-worker", "high", system.Core, sink},
			onSink{"pause-worker", "high", "broken/sink-no-token-check", sink},
			onSink{"kill-worker", "medium", system.Core, sink},
			onSink{"sink-lost-replies", "high", system.Core, sink},
			onSink{"sink-lost-replies", "high", "broken/effect-key-per-send", sink},
			onSink{"sink-outage", "medium", system.Core, sink},
			onSink{"jobs-pause-worker", "medium", system.Core, sink},
		)
	}
	return out
}

// TestSink runs, on even days, one scenario with another sink: sound systems PASS, and a variant that gets
// past the sink's rules turns red by the property that it must.
func TestSink(t *testing.T) {
	day, all := today(t)
	if day%2 == 1 && !all {
		t.Skip("not its turn: a lock scenario has it, in TestSound")
	}
	runs := sinkRuns()
	r := runs[day/2%len(runs)]
	t.Logf("%+v", r)
	code, res, out := chaos(t, r.scenario, "--system="+r.system, "--contention="+r.contention, "--sink="+r.sink, "--seed=7")
	want, properties := checker.Pass, []string(nil)
	if s, broken := system.FindDirected(r.system, r.scenario, r.contention); broken {
		want, properties = s.Red.Verdict, s.Red.Properties
	}
	if res.Verdict != want || code != want.ExitCode() {
		t.Errorf("exit code %d, verdict %s, want %d and %s\n%s", code, res.Verdict, want.ExitCode(), want, out)
		keep(t, out)
	}
	fired := slices.ContainsFunc(res.Properties, func(p checker.Property) bool {
		return p.Status == checker.StatusFail && slices.Contains(properties, p.ID)
	})
	if len(properties) > 0 && !fired {
		t.Errorf("none of %v fired\n%s", properties, out)
		keep(t, out)
	}
}
