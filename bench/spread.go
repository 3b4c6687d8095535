package bench

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/clock"
	"fencepost/reports"
)

// startDelay is how long before an instant agents are told to start then.
const startDelay = 400 * time.Millisecond

// spread is an arm whose threads are in other processes.
type spread struct {
	arm    Arm
	agents agents
}

// PIDs are the processes in which the arm's threads are.
func (s *spread) PIDs() []int {
	var out []int
	for _, a := range s.agents {
		out = append(out, a.proc.PID())
	}
	return out
}

// Window implements Subject: all agents prepare, start at the same instant, go on until
// nobody has an operation under way, and give their samples. One that cannot makes the
// window an error.
func (s *spread) Window(ctx context.Context, w Window) (Sample, error) {
	sample, err := s.window(ctx, w)
	if err != nil {
		_ = s.agents.each(func(a *agent) error {
			a.abort()
			return nil
		})
	}
	return sample, err
}

func (s *spread) window(ctx context.Context, w Window) (Sample, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.agents.gone(); err != nil {
		return Sample{}, err
	}
	err := s.agents.each(func(a *agent) error {
		if err := a.send(order{Do: doWindow, Arm: w.Arm.ID, Round: w.Round, Lead: w.Lead, Length: w.Length, Seed: w.Seed}); err != nil {
			return err
		}
		a.busy = true
		_, err := a.hear(ctx, a.prepare, stepPrepared)
		return err
	})
	if err != nil {
		return Sample{}, err
	}
	within := make(chan used, 1)
	first := s.spent(w)
	at := clock.System().Now() + startDelay
	start := time.Now().Add(startDelay + w.Lead)
	go func() { within <- s.watch(ctx, w, start) }()
	err = s.agents.each(func(a *agent) error {
		if err := a.send(order{Do: doStart, At: at}); err != nil {
			return err
		}
		_, err := a.hear(ctx, startDelay+w.Lead+w.Length+DrainTimeout+settleLimit, stepEnded)
		return err
	})
	if err != nil {
		return Sample{}, err
	}
	last := s.spent(w)
	parts := make([]Sample, len(s.agents))
	err = s.agents.each(func(a *agent) error {
		if err := a.send(order{Do: doEnd}); err != nil {
			return err
		}
		x, err := a.hear(ctx, settleLimit, stepSample)
		if err != nil {
			return err
		}
		part, err := x.Sample.sample()
		_, threads := w.Arm.part(a.number)
		if err == nil && (part.Arm != w.Arm.ID || part.Round != w.Round || len(part.PerThread) != threads) {
			err = errNoSample
		}
		if err != nil {
			return a.lost(fmt.Errorf("gave a sample of %s, round %d, with %d threads: %w", part.Arm, part.Round, len(part.PerThread), err))
		}
		parts[a.number-1] = part
		return nil
	})
	if err != nil {
		return Sample{}, err
	}
	all, err := mergeSamples(parts)
	u := <-within
	all.Started, all.Load = start, u.load
	if w.Lead > 0 {
		first, last = u.first, u.last
	}
	all.Cost = last.since(first, all.Done)
	all.Sent.spentIn(all.Cost.Spent)
	return all, err
}

// used is what was used within a window.
type used struct {
	load        load
	first, last spent
}

// spent is what this process, the agents and the nodes have used so far. What agents have
// used is read from the kernel's account of them. Those of jobs are schedulers.
func (s *spread) spent(w Window) spent {
	out, name := w.spent(Traffic{}), reports.SpentClientCPU
	if s.arm.Shards > 0 {
		name = reports.SpentSchedulerCPU
	}
	agents, err := timeOf(s.PIDs())
	if err != nil {
		delete(out, reports.SpentClientCPU)
		return out
	}
	out[name] += agents.Seconds()
	return out
}

// watch reads what is used within a window. The agents count as the benchmark itself.
func (s *spread) watch(ctx context.Context, w Window, start time.Time) (u used) {
	read := func() [2]weather { return [2]weather{readWeather(w.PIDs), readWeather(s.PIDs())} }
	Until(ctx, start)
	before := read()
	u.first = s.spent(w)
	Until(ctx, start.Add(w.Length))
	after := read()
	u.last = s.spent(w)
	l, own := after[0].since(before[0]), after[1].since(before[1])
	l.Known = l.Known && own.Known
	if l.Known {
		l.Own, l.Other = l.Own+own.Nodes, max(l.Other-own.Nodes, 0)
	}
	u.load = l
	return u
}

// Close implements Subject.
func (s *spread) Close(ctx context.Context) error {
	return s.agents.each(func(a *agent) error {
		if err := a.send(order{Do: doClose, Arm: s.arm.ID}); err != nil {
			return err
		}
		_, err := a.hear(ctx, closeTimeout, stepClosed)
		return err
	})
}
