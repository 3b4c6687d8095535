package scenario

import (
	"fmt"
	"slices"
	"strconv"
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

// Bound is a time that follows from the lease time, so that it stays right when the run
// has another one: "2.25 ttl + 5s", "1 ttl", "8s".
type Bound struct {
	TTLs float64
	Plus time.Duration
}

// D is the bound in a run with that ttl, in whole milliseconds.
func (b Bound) D(ttl time.Duration) time.Duration {
	return (time.Duration(b.TTLs*float64(ttl)) + b.Plus).Round(time.Millisecond)
}

// UnmarshalYAML reads a sum of multiples of ttl and durations, none of them negative.
func (b *Bound) UnmarshalYAML(n *yaml.Node) error {
	*b = Bound{}
	for term := range strings.SplitSeq(n.Value, "+") {
		term = strings.TrimSpace(term)
		if times, ok := strings.CutSuffix(term, "ttl"); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(times), 64)
			if err != nil || f <= 0 || f > 1000 {
				return lineErr(n, "%q is not a number of ttl (such as 2.25 ttl)", term)
			}
			b.TTLs += f
			continue
		}
		d, err := time.ParseDuration(term)
		switch {
		case err != nil:
			return lineErr(n, "%q is not a duration (such as 250ms, 2.25 ttl, or 2.25 ttl + 5s)", term)
		case d < 0:
			return lineErr(n, "duration %s is negative", term)
		case d%time.Millisecond != 0:
			return lineErr(n, "%s is not a number of whole milliseconds", term)
		}
		b.Plus += d
	}
	return nil
}

// MarshalYAML writes it as it is read.
func (b Bound) MarshalYAML() (any, error) { return b.String(), nil }

// String is the bound as it is read.
func (b Bound) String() string {
	ttls := strconv.FormatFloat(b.TTLs, 'g', -1, 64) + " ttl"
	switch {
	case b.TTLs == 0:
		return b.Plus.String()
	case b.Plus == 0:
		return ttls
	}
	return ttls + " + " + b.Plus.String()
}

// IsZero: nothing is said.
func (b Bound) IsZero() bool { return b == Bound{} }
