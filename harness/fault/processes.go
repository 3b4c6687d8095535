package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"fencepost/harness/cluster"
	"fencepost/harness/fleet"
)

type killWorker struct{}

func (killWorker) Kind() TargetKind { return Worker }

func (killWorker) Inject(_ context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeKillWorker{workers: workers}
	for _, w := range workers {
		life, pid := w.Life(), w.PID()
		if err := w.Kill("the fault kill-worker"); err != nil {
			return nil, err
		}
		a.killed = append(a.killed, fmt.Sprintf("%s (pid %d)", life, pid))
	}
	return a, nil
}

type activeKillWorker struct {
	workers []*fleet.Worker
	killed  []string
}

func (a *activeKillWorker) Probe(context.Context) Evidence {
	for _, w := range a.workers {
		if w.PID() != 0 {
			return Evidence{Text: w.Name() + " still runs"}
		}
	}
	return Evidence{Proven: true, Text: "SIGKILL ended " + strings.Join(a.killed, ", ") + "; waited for, gone"}
}

func (a *activeKillWorker) Heal(ctx context.Context) error {
	var errs []error
	for _, w := range a.workers {
		errs = append(errs, w.Start(ctx))
	}
	return errors.Join(errs...)
}

type pauseWorker struct{}

func (pauseWorker) Kind() TargetKind { return Worker }

func (pauseWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if err := w.Pause(ctx); err != nil {
			return nil, err
		}
	}
	return &activePauseWorker{workers: workers, since: time.Now()}, nil
}

type activePauseWorker struct {
	workers []*fleet.Worker
	since   time.Time
}

func (a *activePauseWorker) Probe(context.Context) Evidence {
	var states []string
	for _, w := range a.workers {
		state := w.ProcessState()
		if state != "T" {
			return Evidence{Text: fmt.Sprintf("%s (pid %d) is in state %q, not stopped", w.Name(), w.PID(), state)}
		}
		states = append(states, fmt.Sprintf("%s (pid %d) in state T", w.Name(), w.PID()))
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("%s after %.1f s", strings.Join(states, ", "), time.Since(a.since).Seconds())}
}

func (a *activePauseWorker) Heal(ctx context.Context) error {
	var errs []error
	for _, w := range a.workers {
		errs = append(errs, w.Resume(ctx))
	}
	return errors.Join(errs...)
}

type killNode struct{}

func (killNode) Kind() TargetKind { return Node }

func (killNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activeKillNode{env: env, nodes: nodes}
	for _, n := range nodes {
		pid := n.PID()
		if err := n.Kill(ctx); err != nil {
			return nil, err
		}
		a.killed = append(a.killed, fmt.Sprintf("%s (pid %d)", n.Name(), pid))
	}
	return a, nil
}

type activeKillNode struct {
	env    *Env
	nodes  []cluster.Node
	killed []string
}

// Probe dials the dead nodes; on success some node of the others still answers.
func (a *activeKillNode) Probe(ctx context.Context) Evidence {
	var names []string
	for _, n := range a.nodes {
		names = append(names, n.Name())
		addr := net.JoinHostPort(n.IP(), strconv.Itoa(a.env.Cluster.CQLPort()))
		d := net.Dialer{Timeout: time.Second}
		if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
			conn.Close()
			return Evidence{Text: n.Name() + " still accepts connections"}
		}
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("SIGKILL ended %s; their CQL ports refuse connections", strings.Join(a.killed, ", "))}
	for _, other := range a.env.others(names) {
		if err := a.env.Read(ctx, other); err != nil {
			ev.Text += fmt.Sprintf("; a SERIAL read through %s fails (%s)", other, firstLine(err))
		} else {
			ev.Text += fmt.Sprintf("; a SERIAL read through %s is answered", other)
		}
	}
	return ev
}

func (a *activeKillNode) Heal(ctx context.Context) error {
	var errs []error
	for _, n := range a.nodes {
		errs = append(errs, n.Start(ctx), n.WaitReady(ctx))
	}
	return errors.Join(errs...)
}

// slowJob is done by the trigger, which holds the client that hit.
type slowJob struct{}

func (slowJob) Kind() TargetKind { return Worker }

func (slowJob) Inject(_ context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	return activeSlowJob{workers[0]}, nil
}

type activeSlowJob struct{ worker *fleet.Worker }

// Probe: the client stood at the armed point inside its critical section and was
// told to stay; that it was still at work is shown by its process being alive.
func (a activeSlowJob) Probe(context.Context) Evidence {
	if a.worker.PID() == 0 {
		return Evidence{Text: a.worker.Name() + " does not run"}
	}
	return Evidence{Proven: true, Text: "a client of " + a.worker.Name() + " hit the armed point and was told to stay; its start and finish notes show how long it did"}
}

func (activeSlowJob) Heal(context.Context) error { return nil }
