package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fencepost/harness/link"
)

// cut is a set of links with their directions switched away from pass.
type cut struct {
	env   *Env
	links []*link.Link
	dirs  []link.Dir
	watch *link.Watch
}

func newCut(ctx context.Context, env *Env, links []*link.Link, kind link.Kind, dirs ...link.Dir) (*cut, error) {
	if len(links) == 0 {
		return nil, errors.New("no links to cut")
	}
	c := &cut{env: env, links: links, dirs: dirs}
	for _, d := range dirs {
		if err := env.Links.Set(ctx, links, d, link.Mode{Kind: kind}); err != nil {
			return nil, errors.Join(err, c.Heal(ctx))
		}
	}
	c.watch = link.NewWatch(links)
	return c, nil
}

// Heal lets the links pass again.
func (c *cut) Heal(ctx context.Context) error {
	var errs []error
	for _, d := range c.dirs {
		errs = append(errs, c.env.Links.Set(ctx, c.links, d, link.Mode{Kind: link.Pass}))
	}
	return errors.Join(errs...)
}

// stopped judges the watched directions: nothing passed, and something tried to.
func (c *cut) stopped() Evidence {
	var leaks []string
	var blocked, tried int64
	for name, n := range c.watch.Delta() {
		for _, d := range c.dirs {
			dc := n.Dir(d)
			if dc.PassedBytes > 0 {
				leaks = append(leaks, fmt.Sprintf("%s %s passed %d bytes", name, d, dc.PassedBytes))
			}
			blocked += dc.HeldTotalBytes + dc.DroppedBytes
		}
		tried += n.ConnsBlackholed
	}
	if len(leaks) > 0 {
		return Evidence{Text: "the cut leaks: " + strings.Join(leaks, "; ")}
	}
	if blocked == 0 {
		return Evidence{Text: fmt.Sprintf("no byte was held or dropped on the %d links: nothing shows that the cut was in force", len(c.links))}
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("%d links passed 0 bytes; %d bytes held or dropped, %d new connections led nowhere", len(c.links), blocked, tried)}
}

type partition struct{ kind link.Kind }

func (partition) Kind() TargetKind { return Node }

func (p partition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.nodes(targets); err != nil {
		return nil, err
	}
	others := env.others(targets)
	if len(others) == 0 {
		return nil, errors.New("partition: no node is left on the other side")
	}
	var links []*link.Link
	for _, a := range targets {
		for _, b := range others {
			links = append(links, env.Cluster.Links().Between(a, b)...)
			links = append(links, env.Cluster.Links().Between(b, a)...)
		}
	}
	c, err := newCut(ctx, env, links, p.kind, link.Up, link.Down)
	if err != nil {
		return nil, err
	}
	return &activePartition{cut: c, inside: targets, outside: others}, nil
}

type activePartition struct {
	*cut
	inside, outside []string
}

// Probe asks from both sides: consensus must be out of reach on the smaller
// side and within reach on a majority.
func (a *activePartition) Probe(ctx context.Context) Evidence {
	ev := a.stopped()
	total := len(a.inside) + len(a.outside)
	for _, side := range [][]string{a.inside, a.outside} {
		majority := len(side) > total/2
		for _, node := range side {
			err := a.env.Read(ctx, node)
			switch {
			case err == nil && majority:
				ev.Text += fmt.Sprintf("; a SERIAL read through %s is answered", node)
			case err != nil && !majority:
				ev.Text += fmt.Sprintf("; a SERIAL read through %s fails (%s)", node, firstLine(err))
			case err == nil:
				ev.Proven = false
				ev.Text += fmt.Sprintf("; yet a SERIAL read through %s, on a minority side, is answered", node)
			default:
				ev.Proven = false
				ev.Text += fmt.Sprintf("; yet a SERIAL read through %s, on the majority side, fails (%s)", node, firstLine(err))
			}
		}
	}
	return ev
}

// firstLine keeps evidence to one line; the driver repeats the server's text.
func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

type clientPartition struct{ kind link.Kind }

func (clientPartition) Kind() TargetKind { return Worker }

func (p clientPartition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	lock, sink, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	sinkWatch := link.NewWatch(sink)
	c, err := newCut(ctx, env, lock, p.kind, link.Up, link.Down)
	if err != nil {
		return nil, err
	}
	return &activeClientPartition{cut: c, sink: sinkWatch}, nil
}

type activeClientPartition struct {
	*cut
	sink *link.Watch
}

// Probe shows the lock store's links dead and the sink's alive.
func (a *activeClientPartition) Probe(context.Context) Evidence {
	ev := a.stopped()
	var passed int64
	for _, n := range a.sink.Delta() {
		passed += n.Dir(link.Up).PassedBytes + n.Dir(link.Down).PassedBytes
	}
	ev.Text += fmt.Sprintf("; the sink's links passed %d bytes meanwhile", passed)
	return ev
}

// workerLinks returns the workers' links to the lock store and to the sink.
func (e *Env) workerLinks(workers []string) (lock, sink []*link.Link, err error) {
	if _, err := e.workers(workers); err != nil {
		return nil, nil, err
	}
	for _, w := range workers {
		for _, n := range e.Cluster.Nodes() {
			for _, l := range e.WorkerLinks.Between(w, n.Name()) {
				if l.Purpose() == "" {
					lock = append(lock, l)
				} else {
					sink = append(sink, l)
				}
			}
		}
	}
	return lock, sink, nil
}

type lostReplies struct{}

func (lostReplies) Kind() TargetKind { return Worker }

func (lostReplies) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	lock, _, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	c, err := newCut(ctx, env, lock, link.Drop, link.Down)
	if err != nil {
		return nil, err
	}
	return &activeLostReplies{c}, nil
}

type activeLostReplies struct{ *cut }

// Probe demands requests that got through and answers that did not.
func (a *activeLostReplies) Probe(context.Context) Evidence {
	ev := a.stopped()
	var up int64
	for _, n := range a.watch.Delta() {
		up += n.Dir(link.Up).PassedBytes
	}
	if up == 0 {
		ev.Proven = false
	}
	ev.Text += fmt.Sprintf("; %d bytes of requests went through", up)
	return ev
}
