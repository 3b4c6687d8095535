package run

import (
	"context"
	"fencepost/harness/scenario"
	"fmt"
	"path/filepath"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

// sinkLog is what a sink that is a service prints, in the run's logs.
const sinkLog = "sink.log"

// runSink is the sink of a run: its service, if it is one, and the runner's own
// connection, past all links.
type runSink struct {
	kind    sinks.Kind
	service *osproc.Service // nil: on the nodes
	client  sinks.Client
}

// startSink starts the sink and connects to it.
func (r *runner) startSink(ctx context.Context) error {
	kind, err := sinks.Of(r.plan.Spec.Workload.Sink, r.opt.System)
	if err != nil {
		return &scenario.InputError{Msg: err.Error()}
	}
	r.sink.kind = kind
	at := sinks.Place{Nodes: func(ctx context.Context) (*cassandra.DB, error) { return cassandra.Open(ctx, r.base) }}
	if kind.Start != nil {
		r.progress.step("starting the sink: %s", kind.Name)
		r.sink.service, err = kind.Start(ctx, sinks.Options{
			BinDir: r.opt.BinDir, Log: filepath.Join(r.dir, rundir.LogDir, sinkLog),
			Broken:   r.opt.System.BrokenSink,
			Unfenced: r.opt.System.Variant != "" || r.opt.System.Design() == system.Exec,
			Ended:    r.ended,
		})
		if err != nil {
			return fmt.Errorf("start sink %s: %w", kind.Name, err)
		}
		r.env.Sink, r.env.SinkGreeting = r.sink.service, kind.Greeting
		at.Addr, at.Secret = r.sink.service.Addr(), r.sink.service.Secret
	}
	if r.sink.client, err = kind.Open(ctx, at); err != nil {
		return fmt.Errorf("connect to the sink %s: %w", kind.Name, err)
	}
	return nil
}

// addr is where workers' links to a service lead, "" if the sink is on the nodes.
func (s *runSink) addr() string {
	if s.service == nil {
		return ""
	}
	return s.service.Addr()
}

// secret is what workers show to a service, "" for nothing.
func (s *runSink) secret() string {
	if s.service == nil {
		return ""
	}
	return s.service.Secret
}

// resources are those of a service that were ever called.
func (s *runSink) resources(ctx context.Context) ([]string, error) {
	l, ok := s.client.(interface {
		Resources(ctx context.Context) ([]string, error)
	})
	if !ok {
		return nil, fmt.Errorf("the sink %s does not list its resources", s.kind.Name)
	}
	return l.Resources(ctx)
}

// close leaves nothing behind.
func (s *runSink) close() error {
	if s.client != nil {
		s.client.Close()
	}
	if s.service != nil {
		return s.service.Close()
	}
	return nil
}
