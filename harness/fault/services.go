package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// SinkTarget is the target of faults of the sink itself, where it is a service.
const SinkTarget = "sink"

// Service is the sink's process; *osproc.Service is one.
type Service interface {
	Addr() string
	PID() int
	// Standing is how many processes it has, if they all stand still.
	Standing() (int, error)
	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// NeedsService reports whether the fault is one of a sink that is a service.
func NeedsService(name string) bool { return name == "kill-sink" || name == "pause-sink" }

var errNoService = errors.New("the sink of this run is no process of its own")

// killSink kills the sink's service with all that it has started.
type killSink struct{}

func (killSink) Kind() TargetKind { return SinkService }

func (killSink) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	if env.Sink == nil {
		return nil, errNoService
	}
	a := &activeKillSink{sink: env.Sink, pid: env.Sink.PID()}
	return a, env.Sink.Kill(ctx)
}

type activeKillSink struct {
	sink Service
	pid  int
}

// Probe dials the dead service.
func (a *activeKillSink) Probe(ctx context.Context) Evidence {
	d := net.Dialer{Timeout: time.Second}
	if conn, err := d.DialContext(ctx, "tcp", a.sink.Addr()); err == nil {
		conn.Close()
		return Evidence{Text: "the sink still accepts connections"}
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("SIGKILL ended the sink (pid %d); its port refuses connections", a.pid)}
}

func (a *activeKillSink) Heal(ctx context.Context) error { return a.sink.Start(ctx) }

// pauseSink stops the sink's service without ending it.
type pauseSink struct{}

func (pauseSink) Kind() TargetKind { return SinkService }

func (pauseSink) Inject(ctx context.Context, env *Env, _ []string) (Active, error) {
	if env.Sink == nil {
		return nil, errNoService
	}
	return &activePauseSink{sink: env.Sink, since: time.Now()}, env.Sink.Pause(ctx)
}

type activePauseSink struct {
	sink  Service
	since time.Time
}

func (a *activePauseSink) Probe(context.Context) Evidence {
	n, err := a.sink.Standing()
	if err != nil {
		return Evidence{Text: fmt.Sprintf("the sink (pid %d) does not stand still: %v", a.sink.PID(), err)}
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("the sink (pid %d, %s) stands still, every thread of it, after %.1f s", a.sink.PID(), processes(n), time.Since(a.since).Seconds())}
}

func (a *activePauseSink) Heal(ctx context.Context) error { return a.sink.Resume(ctx) }
