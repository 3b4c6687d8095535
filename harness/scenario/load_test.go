package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/target/drill"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		return slices.Contains(drill.Promises(), property)
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

// Each case of testdata/errors.txt is a file without its name and about, and how its error
// begins.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for c := range strings.SplitSeq(string(text), "== ") {
		name, rest, _ := strings.Cut(c, "\n")
		body, want, ok := strings.Cut(rest, "=> ")
		if !ok {
			continue // what is before the first
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("f.yaml", []byte("name: mine\nabout: mine\n"+body))
			var in *InputError
			if !errors.As(err, &in) || !strings.HasPrefix(err.Error(), strings.TrimSpace(want)) {
				t.Errorf("got %q\nwant %q …", err, want)
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
		text := "name: " + name + "\nabout: ring\nextends: " + filepath.Join(dir, extends+".yaml") + "\nexpect: {min_cycles: {medium: {fault: 1}}}\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
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
		const end = "comes back to this file: a scenario cannot extend itself"
		if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), end) {
			t.Errorf("got %v\nwant %s …", err, want)
		}
	}
}

func TestNeedsControl(t *testing.T) {
	t.Parallel()
	without, err := WithoutControl()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"partition-client", "partition-ring", "kill-worker", "pause-worker", "lost-replies", "latency", "steady", "jobs-kill-worker",
	} {
		if !slices.Contains(without, name) {
			t.Errorf("%s leaves nodes alone", name)
		}
	}
	for _, name := range []string{
		"partition", "partition-bridge", "kill-node", "slow-node", "rolling-restart", "swarm", "jobs-kill-nodes", "paxos-lease",
	} {
		if slices.Contains(without, name) {
			t.Errorf("%s does not leave nodes alone", name)
		}
	}
	for _, name := range without {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range s.Faults {
			for _, target := range st.Targets {
				if target[0] == 'n' || target == fault.AllNodes || target == fault.RandomNode || target == fault.Coordinator {
					t.Errorf("%s: a fault of %s", name, target)
				}
			}
		}
	}
	bad := Spec{Faults: []Step{{Spec: fault.Spec{Fault: "meteor"}}}}
	if bad.NeedsControl() == "" {
		t.Error("an unknown fault is taken for one of workers")
	}
}
