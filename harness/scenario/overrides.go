package scenario

import (
	"errors"
	"fmt"
	"time"

	"fencepost/harness/target/sinks"
)

// Overrides change a scenario from the command line; zero values change nothing.
type Overrides struct {
	Contention string
	Workers    int
	Clients    int
	TTL        time.Duration
	Sink       string        // see package sinks
	Duration   time.Duration // of each of the phases before, fault, recover
}

// For is the overrides without those that a scenario of this kind cannot have.
func (o Overrides) For(k Kind) Overrides {
	if !k.Workers {
		return Overrides{}
	}
	if k.Sink != "" {
		o.Sink = ""
	}
	return o
}

// Apply checks and applies the overrides.
func (s *Spec) Apply(o Overrides) error {
	if !s.Kind().Workers && o != (Overrides{}) {
		return errors.New("it has no workers and phases that contention, workers, clients, ttl, sink or duration could change")
	}
	if o.Contention != "" {
		if err := ValidContention(o.Contention); err != nil {
			return err
		}
		s.Workload.Contention = o.Contention
	}
	if o.Workers < 0 || o.Clients < 0 || o.TTL < 0 || o.Duration < 0 {
		return fmt.Errorf("workers, clients, ttl and duration must not be negative")
	}
	if o.Workers > 0 {
		s.Workload.Workers = o.Workers
	}
	if o.Clients > 0 {
		s.Workload.Clients = o.Clients
	}
	if o.TTL > 0 {
		s.Workload.TTL = Duration(o.TTL)
	}
	if o.Sink != "" {
		if _, err := sinks.Find(o.Sink); err != nil {
			return err
		}
		s.Workload.Sink = o.Sink
	}
	if o.Duration > 0 {
		d := Duration(o.Duration)
		s.Phases.Before, s.Phases.Fault, s.Phases.Recover = d, d, d
	}
	return s.Check()
}
