package fault

import (
	"context"
	"fmt"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "kill-sink", On: SinkService, Family: FamilySink,
		About: "SIGKILL the sink's process and its children; started again at heal (sinks that are separate processes)",
		Proof: "*gone*; its port refuses connections",
		Needs: Needs{Service: true},
		Takes: history.TakesSink,
		New:   plain(killSink{}),
	})
}

// killSink kills the sink's service with all that it has started.
type killSink struct{}

func (killSink) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	if env.Sink == nil {
		return nil, errNoService
	}
	id, err := osproc.Identify(env.Sink.PID())
	if err != nil {
		return nil, fmt.Errorf("the sink: %w", err)
	}
	return &activeKillSink{env: env, process: id}, env.do(func() error { return env.Sink.Kill(ctx) })
}

type activeKillSink struct {
	env     *Env
	process osproc.Identity
}

// Probe looks for the process, and dials the dead service.
func (a *activeKillSink) Probe(ctx context.Context) Evidence {
	if a.process.Exists() {
		return Evidence{Text: fmt.Sprintf("the sink (pid %d) still runs, in state %s", a.process.PID, osproc.Letter(a.process.PID))}
	}
	if err := refuses(ctx, a.env.Sink.Addr()); err != nil {
		return Evidence{Text: "the sink " + firstLine(err)}
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("SIGKILL ended the sink (pid %d): the kernel has no such process any more, and its port refuses connections", a.process.PID)}
}

func (a *activeKillSink) Heal(ctx context.Context) error {
	return a.env.do(func() error { return a.env.Sink.Start(ctx) })
}
