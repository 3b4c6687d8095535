package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/fault"
	"fencepost/harness/record/history"
)

// Progress is what must get done while a fault is in force; see history.Progress.
type Progress struct {
	Fault string `yaml:"fault"`           // its name, or any
	Group string `yaml:"group,omitempty"` // targets, others; default all workers
	// MinCycles is by contention, as Expect's.
	MinCycles  map[string]int `yaml:"min_cycles,omitempty"`
	LongestGap Bound          `yaml:"longest_gap,omitempty"`
	// Exempt is why nothing is demanded, instead of all else.
	Exempt string `yaml:"exempt,omitempty"`
	line   int
}

// UnmarshalYAML keeps the line and checks what the demand itself can show.
func (p *Progress) UnmarshalYAML(n *yaml.Node) error {
	type plain Progress
	if err := Decode(n, (*plain)(p)); err != nil {
		return err
	}
	p.line = n.Line
	if p.Exempt != "" {
		if p.Fault == "" || p.Group != "" || len(p.MinCycles) > 0 || !p.LongestGap.IsZero() {
			return lineErr(n, "progress: exempt goes with the fault alone")
		}
		return nil
	}
	if p.LongestGap.IsZero() {
		return lineErr(n, "progress: longest_gap is missing: the time for which a lock or shard may be asked for without a success, "+
			"such as 2.25 ttl (or exempt: why none can be demanded)")
	}
	for c, least := range p.MinCycles {
		if err := cmp.Or(ValidContention(c), p.Noted(Workload{TTL: 1e9, Contention: c}).Check()); err != nil || least < 0 {
			return lineErr(n, "progress: min_cycles: %s: %d: %v", c, least, cmp.Or(err, errors.New("not negative")))
		}
	}
	if err := p.Noted(Workload{TTL: 1e9}).Check(); err != nil {
		return lineErr(n, "%v", err)
	}
	return nil
}

// Noted is the demand as the history's expect note has it.
func (p Progress) Noted(w Workload) history.Progress {
	gap := p.LongestGap.D(w.TTL.D()).Milliseconds()
	return history.Progress{Fault: p.Fault, Group: p.Group, MinCycles: p.MinCycles[w.Contention], LongestGapMS: gap}
}

// validateProgress: the fault is one of the scenario's, and a group refers to workers.
func (s *Spec) validateProgress() error {
	seen := map[string]bool{}
	for _, p := range s.Expect.Progress {
		bad := func(format string, args ...any) error {
			return &lineError{p.line, "progress: " + fmt.Sprintf(format, args...)}
		}
		names := map[string]bool{}
		aimed := false
		for _, st := range s.Faults {
			names[st.Fault] = true
			if st.Fault == p.Fault || p.Fault == history.AnyFault {
				aimed = aimed || aimsAtWorkers(st)
			}
		}
		switch {
		case seen[p.Fault]:
			return bad("fault %q has two entries", p.Fault)
		case len(names) == 0 && s.Swarm == nil:
			return bad("fault %q: the scenario has no faults", p.Fault)
		case p.Fault != history.AnyFault && !names[p.Fault]:
			return bad("the scenario has no fault %q; it has %s", p.Fault, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		case p.Group != "" && !aimed:
			return bad("group %q: no such fault of the scenario is aimed at a worker", p.Group)
		}
		seen[p.Fault] = true
	}
	return nil
}

func aimsAtWorkers(st Step) bool {
	return slices.ContainsFunc(st.Targets, func(t string) bool {
		return t == fault.RandomWorker || t == fault.AllWorkers || strings.HasPrefix(t, "w")
	})
}

// Threshold is a bound on a number of the run; see history.Threshold.
type Threshold struct {
	Latency     string  `yaml:"latency,omitempty"`
	Quantile    string  `yaml:"quantile,omitempty"` // default p99, with latency
	Phase       string  `yaml:"phase,omitempty"`
	Recovery    string  `yaml:"recovery,omitempty"`
	Lateness    string  `yaml:"lateness,omitempty"`
	Overload    string  `yaml:"overload,omitempty"`
	Least       float64 `yaml:"least,omitempty"` // instead of max, with overload: goodput
	Growth      string  `yaml:"growth,omitempty"`
	By          float64 `yaml:"by,omitempty"`       // instead of max, with growth
	PerHour     float64 `yaml:"per_hour,omitempty"` // beyond that
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
		Overload: t.Overload, Least: t.Least, Growth: t.Growth, By: t.By, PerHour: t.PerHour, MaxMS: t.Max.D(ttl).Milliseconds(), TimesBefore: t.TimesBefore,
	}
}

// String is the threshold in words: "recovery of the slowest: at most 2.25 ttl + 5s".
func (t Threshold) String() string {
	name := t.Noted(time.Second).String()
	if t.TimesBefore > 0 {
		return fmt.Sprintf("%s: at most %g times that of phase before", name, t.TimesBefore)
	}
	if t.Least > 0 {
		return fmt.Sprintf("%s: at least %g", name, t.Least)
	}
	if t.Growth != "" {
		return fmt.Sprintf("%s: at most %s", name, t.Noted(time.Second).Allowed())
	}
	return fmt.Sprintf("%s: at most %s", name, t.Max)
}

// JudgesGrowth says that the scenario has a threshold of growth.
func (s *Spec) JudgesGrowth() bool {
	return slices.ContainsFunc(s.Expect.Thresholds, func(t Threshold) bool { return t.Growth != "" })
}

// has says that the scenario injects a fault of this name.
func (s *Spec) has(name string) bool {
	return slices.ContainsFunc(s.Faults, func(st Step) bool { return st.Fault == name })
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
		case x.Overload != "" && !(s.has("saturate") && s.has("overload")):
			return bad("%s is compared with what saturate shows before and after: the scenario needs faults saturate and overload", x)
		case x.Growth != "" && (len(s.Faults) > 0 || s.Swarm != nil):
			return bad("%s is judged of a load without faults: the scenario has some", x)
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
