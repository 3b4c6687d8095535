package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/harness/cluster"
	"fencepost/harness/fleet"
)

type killWorker struct{}

func (killWorker) Kind() TargetKind { return Worker }

func (killWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeKillWorker{}
	for _, w := range workers {
		life, pid := w.Life(), w.PID()
		if err := w.Kill(ctx); err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		a.workers = append(a.workers, w)
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

// stopWorker ends workers in order, as a deployment does.
type stopWorker struct{}

func (stopWorker) Kind() TargetKind { return Worker }

func (stopWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeStopWorker{}
	for _, w := range workers {
		life, pid := w.Life(), w.PID()
		began := time.Now()
		if err := w.Terminate(ctx); err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		a.workers = append(a.workers, w)
		a.killed = append(a.killed, fmt.Sprintf("%s (pid %d) after %.1f s", life, pid, time.Since(began).Seconds()))
	}
	return a, nil
}

type activeStopWorker struct{ activeKillWorker }

func (a *activeStopWorker) Probe(ctx context.Context) Evidence {
	ev := a.activeKillWorker.Probe(ctx)
	if ev.Proven {
		ev.Text = "SIGTERM ended " + strings.Join(a.killed, ", ") + "; exit code 0"
	}
	return ev
}

type pauseWorker struct{}

func (pauseWorker) Kind() TargetKind { return Worker }

func (pauseWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	return pause(ctx, env, workers)
}

// pause stops workers and waits until what was under way of theirs has arrived.
func pause(ctx context.Context, env *Env, workers []*fleet.Worker) (*activePauseWorker, error) {
	a := &activePauseWorker{workers: workers, since: time.Now()}
	for i, w := range workers {
		if err := w.Pause(ctx); err != nil {
			a.workers = workers[:i+1]
			return nil, errors.Join(err, a.Heal(ctx))
		}
	}
	a.silence = newSilence(ctx, env, workers)
	return a, nil
}

type activePauseWorker struct {
	workers []*fleet.Worker
	since   time.Time
	silence silence
}

// Probe looks at every thread of every process, and for anything that came of them.
func (a *activePauseWorker) Probe(context.Context) Evidence {
	var standing []string
	for _, w := range a.workers {
		n, err := w.Standing()
		if err != nil {
			return Evidence{Text: fmt.Sprintf("%s does not stand still: %v", w.Life(), err)}
		}
		standing = append(standing, fmt.Sprintf("%s (pid %d, %s)", w.Life(), w.PID(), processes(n)))
	}
	ev := a.silence.kept()
	ev.Text = fmt.Sprintf("every thread of %s stands still after %.1f s; %s", strings.Join(standing, ", "), time.Since(a.since).Seconds(), ev.Text)
	return ev
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
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

// Probe dials the dead nodes.
func (a *activeKillNode) Probe(ctx context.Context) Evidence {
	return a.gone(ctx, "SIGKILL ended "+strings.Join(a.killed, ", "))
}

func (a *activeKillNode) gone(ctx context.Context, text string) Evidence {
	for _, n := range a.nodes {
		addr := net.JoinHostPort(n.IP(), strconv.Itoa(a.env.Cluster.CQLPort()))
		d := net.Dialer{Timeout: time.Second}
		if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
			conn.Close()
			return Evidence{Text: n.Name() + " still accepts connections"}
		}
	}
	ev := Evidence{Proven: true, Text: text + "; their CQL ports refuse connections"}
	ev.rest(ctx, a.env, a.nodes)
	return ev
}

// rest tells whether the nodes that a fault leaves alone have a quorum.
func (ev *Evidence) rest(ctx context.Context, env *Env, hit []cluster.Node) {
	names := make([]string, len(hit))
	for i, n := range hit {
		names[i] = n.Name()
	}
	for _, other := range env.others(names) {
		n, ok := env.Cluster.Node(other)
		if !ok || n.State() != cluster.Running {
			continue
		}
		if err := env.Read(ctx, other); err != nil {
			ev.Text += fmt.Sprintf("; a SERIAL read through %s fails (%s)", other, firstLine(err))
		} else {
			ev.Text += fmt.Sprintf("; a SERIAL read through %s is answered", other)
		}
	}
}

func (a *activeKillNode) Heal(ctx context.Context) error {
	errs := make([]error, len(a.nodes))
	var wg sync.WaitGroup
	for i, n := range a.nodes {
		wg.Go(func() { errs[i] = n.Start(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, n := range a.nodes {
		if err := a.ready(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until consensus works through a node again, unless so many nodes
// are still away that it cannot: the last fault to heal waits for all.
func (a *activeKillNode) ready(ctx context.Context, n cluster.Node) error {
	running := 0
	for _, n := range a.env.Cluster.Nodes() {
		if n.State() == cluster.Running {
			running++
		}
	}
	if 2*running <= len(a.env.Cluster.Nodes()) {
		return nil
	}
	return n.WaitReady(ctx)
}

// restartNode ends nodes in order.
type restartNode struct{}

func (restartNode) Kind() TargetKind { return Node }

func (restartNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activeRestartNode{activeKillNode{env: env, nodes: nodes}}
	for _, n := range nodes {
		pid := n.PID()
		if err := n.Stop(ctx); err != nil {
			return nil, err
		}
		a.killed = append(a.killed, fmt.Sprintf("%s (pid %d)", n.Name(), pid))
	}
	return a, nil
}

type activeRestartNode struct{ activeKillNode }

func (a *activeRestartNode) Probe(ctx context.Context) Evidence {
	return a.gone(ctx, "SIGTERM ended "+strings.Join(a.killed, ", "))
}

// pauseNode stops nodes without ending them.
type pauseNode struct{}

func (pauseNode) Kind() TargetKind { return Node }

func (pauseNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activePauseNode{env: env, since: time.Now()}
	for _, n := range nodes {
		if err := n.Pause(ctx); err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		a.nodes = append(a.nodes, n)
	}
	return a, nil
}

type activePauseNode struct {
	env   *Env
	nodes []cluster.Node
	since time.Time
}

// Probe looks at the processes and asks the others for a SERIAL read.
func (a *activePauseNode) Probe(ctx context.Context) Evidence {
	var names []string
	for _, n := range a.nodes {
		if err := n.Standing(); err != nil {
			return Evidence{Text: fmt.Sprintf("%s (pid %d) does not stand still: %v", n.Name(), n.PID(), err)}
		}
		names = append(names, fmt.Sprintf("%s (pid %d)", n.Name(), n.PID()))
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("every thread of %s stands still after %.1f s", strings.Join(names, ", "), time.Since(a.since).Seconds())}
	ev.rest(ctx, a.env, a.nodes)
	return ev
}

func (a *activePauseNode) Heal(ctx context.Context) error {
	var errs []error
	for _, n := range a.nodes {
		errs = append(errs, n.Resume(ctx))
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
