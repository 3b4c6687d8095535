package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/record/history"
)

// Threshold is a bound on a number of the run; see history.Threshold.
type Threshold struct {
	Latency     string  `yaml:"latency,omitempty"`
	Quantile    string  `yaml:"quantile,omitempty"` // default p99, with latency
	Phase       string  `yaml:"phase,omitempty"`
	Recovery    string  `yaml:"recovery,omitempty"`
	Lateness    string  `yaml:"lateness,omitempty"`
	Max         Bound   `yaml:"max,omitempty"`
	TimesBefore float64 `yaml:"times_before,omitempty"` // instead of max, with latency
	line        int
}

// UnmarshalYAML keeps the line and checks what the threshold itself can show.
func (t *Threshold) UnmarshalYAML(n *yaml.Node) error {
	type plain Threshold
	if err := Decode(n, (*plain)(t)); err != nil {
		return err
	}
	t.line = n.Line
	if t.Latency != "" && t.Quantile == "" {
		t.Quantile = "p99"
	}
	if err := t.Noted(time.Second).Check(); err != nil {
		return lineErr(n, "%v", err)
	}
	return nil
}

// Noted is the threshold as the history's expect note has it.
func (t Threshold) Noted(ttl time.Duration) history.Threshold {
	return history.Threshold{
		Latency: t.Latency, Quantile: t.Quantile, Phase: t.Phase, Recovery: t.Recovery, Lateness: t.Lateness,
		MaxMS: t.Max.D(ttl).Milliseconds(), TimesBefore: t.TimesBefore,
	}
}

// String is the threshold in words: "recovery of the slowest: at most 2.25 ttl + 5s".
func (t Threshold) String() string {
	name := t.Noted(time.Second).String()
	if t.TimesBefore > 0 {
		return fmt.Sprintf("%s: at most %g times that of phase before", name, t.TimesBefore)
	}
	return fmt.Sprintf("%s: at most %s", name, t.Max)
}

// validateThresholds refuses numbers that a run of this scenario does not have.
func (s *Spec) validateThresholds() error {
	for _, t := range s.Expect.Thresholds {
		bad := func(format string, args ...any) error {
			return &lineError{t.line, fmt.Sprintf("threshold: "+format, args...)}
		}
		x := t.Noted(s.Workload.TTL.D())
		jobs := s.Kind().Jobs
		switch {
		case x.NeedsJobs() && !jobs:
			return bad("%s is a number of jobs: this workload has none", x)
		case x.NeedsLocks() && jobs:
			return bad("%s is a number of locks: this workload has none", x)
		case x.Phase != "" && !slices.Contains(history.Phases, x.Phase):
			return bad("unknown phase %q; the phases are %s", x.Phase, strings.Join(history.Phases, ", "))
		case x.Recovery != "" && len(s.Faults) == 0 && s.Swarm == nil:
			return bad("recovery follows a fault: the scenario has none")
		}
	}
	return nil
}
