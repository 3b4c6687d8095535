package fault

import (
	"strings"
	"testing"
	"time"
)

func TestNewRefusesBadSpecs(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Spec{
		`unknown fault "meteor"`:               {Fault: "meteor", Targets: []string{"n1"}},
		"has no targets":                       {Fault: "partition"},
		`target "w1" is not a node`:            {Fault: "partition", Targets: []string{"w1"}},
		`target "n" is not a node`:             {Fault: "partition", Targets: []string{"n"}},
		`target "n1" is not a worker`:          {Fault: "kill-worker", Targets: []string{"n1"}},
		`target "random-node" is not a worker`: {Fault: "kill-worker", Targets: []string{RandomNode}},
		`target "coordinator" is not a worker`: {Fault: "pause-worker", Targets: []string{Coordinator}},
		`unknown mode "melt"`:                  {Fault: "partition", Targets: []string{"n1"}, Mode: "melt"},
		"fault latency has no mode":            {Fault: "latency", Targets: []string{"w1"}, Latency: time.Second, Mode: "drop"},
		"latency is missing":                   {Fault: "latency", Targets: []string{"w1"}},
		"jitter 2s is not between":             {Fault: "slow-node", Targets: []string{"n1"}, Latency: time.Second, Jitter: 2 * time.Second},
		`unknown sense "up"`:                   {Fault: "partition-oneway", Targets: []string{"n1"}, Sense: "up"},
		"fault partition has no sense":         {Fault: "partition", Targets: []string{"n1"}, Sense: "in"},
		"offset or rate_ppm is missing":        {Fault: "clock", Targets: []string{"w1"}},
		"rate_ppm 2000000 is not within":       {Fault: "clock", Targets: []string{"w1"}, RatePPM: 2_000_000},
		"fault suspend has no offset":          {Fault: "suspend", Targets: []string{"w1"}, Offset: time.Second},
		`the only one is sink`:                 {Fault: "kill-sink", Targets: []string{"w1"}},
		"fault kill-node has no mode":          {Fault: "kill-node", Targets: []string{"n1"}, Mode: "drop"},
	} {
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", s, err, want)
		}
	}
}

// A harness that leaves a family of faults out leaves out nothing else.
func TestInertFamily(t *testing.T) {
	t.Parallel()
	env := (&Env{Inert: FamilyPause}).Ready()
	for name := range kinds {
		done := false
		if err := env.For(name, nil).do(func() error { done = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if left := kinds[name].Family == FamilyPause; done == left {
			t.Errorf("%s: done %t", name, done)
		}
	}
	hit := &Hit{Hold: time.Second}
	for name, want := range map[string]time.Duration{"slow-job": 0, "partition-client": time.Second} {
		if got := (&Env{Inert: FamilySlowJob}).For(name, hit).Hold(); got != want {
			t.Errorf("%s: the client is held for %s, want %s", name, got, want)
		}
	}
	if got := (&Env{}).For("slow-job", nil).Hold(); got != 0 {
		t.Errorf("at an instant: %s", got)
	}
}

// A proof uses no word that is not explained, and none is explained for nothing.
func TestProofsUseTerms(t *testing.T) {
	t.Parallel()
	all := ""
	for _, k := range kinds {
		all += k.Proof
	}
	for _, term := range Terms {
		if !strings.Contains(all, "*"+term.Name+"*") {
			t.Errorf("no proof uses %q", term.Name)
		}
		all = strings.ReplaceAll(all, "*"+term.Name+"*", "")
	}
	if strings.Contains(all, "*") {
		t.Errorf("words that are not explained: %s", all)
	}
}
