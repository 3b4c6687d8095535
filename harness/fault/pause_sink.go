package fault

import (
	"context"
	"fmt"
	"time"

	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "pause-sink", On: SinkService, Family: FamilySink,
		About: "SIGSTOP the sink's process and its children; SIGCONT at heal (sinks that are separate processes)",
		Proof: "*stands still*, *silent*",
		Needs: Needs{Service: true},
		Takes: history.TakesSink,
		New:   plain(pauseSink{}),
	})
}

// pauseSink stops the sink's service without ending it.
type pauseSink struct{}

func (pauseSink) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	if env.Sink == nil {
		return nil, errNoService
	}
	a := &activePauseSink{env: env, sink: env.Sink, since: time.Now(), service: newService(ctx, "the sink", env.Sink.Addr(), env.SinkGreeting, nil)}
	return a, env.do(func() error { return env.Sink.Pause(ctx) })
}

type activePauseSink struct {
	env     *Env
	sink    Service
	service service
	since   time.Time
}

func (a *activePauseSink) Probe(ctx context.Context) Evidence {
	n, err := a.sink.Standing()
	if err != nil {
		return Evidence{Text: fmt.Sprintf("the sink (pid %d) does not stand still: %v", a.sink.PID(), err)}
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("the sink (pid %d, %s) stands still, every thread of it, after %.1f s", a.sink.PID(), processes(n), time.Since(a.since).Seconds())}
	a.service.silent(ctx, &ev)
	return ev
}

func (a *activePauseSink) Heal(ctx context.Context) error {
	return a.env.do(func() error { return a.sink.Resume(ctx) })
}

func (a *activePauseSink) After(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	a.service.back(ctx, &ev)
	return ev
}
