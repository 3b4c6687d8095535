package fault

import (
	"context"
	"fmt"
	"time"

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
	}, Kind{
		Name: "pause-sink", On: SinkService, Family: FamilySink,
		About: "SIGSTOP the sink's process and its children; SIGCONT at heal (sinks that are separate processes)",
		Proof: "*stands still*, *silent*",
		Needs: Needs{Service: true},
		Takes: history.TakesSink,
		New:   plain(pauseSink{}),
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
	return Evidence{Proven: true, Text: fmt.Sprintf("SIGKILL ended the sink (pid %d): the kernel has no such process any more, "+
		"and its port refuses connections", a.process.PID)}
}

func (a *activeKillSink) Heal(ctx context.Context) error {
	return a.env.do(func() error { return a.env.Sink.Start(ctx) })
}

// pauseSink stops the sink's service without ending it.
type pauseSink struct{}

func (pauseSink) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	if env.Sink == nil {
		return nil, errNoService
	}
	a := &activePauseSink{env: env, since: time.Now(), service: newService(ctx, "the sink", env.Sink.Addr(), greeting{ask: env.SinkGreeting})}
	return a, env.do(func() error { return env.Sink.Pause(ctx) })
}

type activePauseSink struct {
	env     *Env
	service service
	since   time.Time
}

func (a *activePauseSink) Probe(ctx context.Context) Evidence {
	n, err := a.env.Sink.Standing()
	if err != nil {
		return Evidence{Text: fmt.Sprintf("the sink (pid %d) does not stand still: %v", a.env.Sink.PID(), err)}
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("the sink (pid %d, %s) stands still, every thread of it, after %.1f s",
		a.env.Sink.PID(), processes(n), time.Since(a.since).Seconds())}
	a.service.silent(ctx, &ev)
	return ev
}

func (a *activePauseSink) Heal(ctx context.Context) error {
	return a.env.do(func() error { return a.env.Sink.Resume(ctx) })
}

func (a *activePauseSink) After(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	a.service.back(ctx, &ev)
	return ev
}
