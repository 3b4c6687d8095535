package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

// Launch is how agents are started.
type Launch struct {
	// Command is an agent's: it calls Serve with its standard input and output.
	Command func() *exec.Cmd
	// Dir is the directory of their logs.
	Dir string
	// Suite is what the suite was made from, as Serve is given it.
	Suite any
	Reach Reach

	prepare time.Duration // prepareLimit, or less in tests
}

// Time limits of an agent, beside those of what it does.
const (
	readyLimit   = time.Minute
	prepareLimit = time.Minute
	// settleLimit is for the end of an operation or a scheduler after a window.
	settleLimit = time.Minute
	exportLimit = time.Minute
	sendLimit   = 10 * time.Second
	// quitLimit is for the end of a process that is wanted no more, diedLimit for that of
	// one whose output has ended.
	quitLimit = 10 * time.Second
	diedLimit = 2 * time.Second
)

// logName is that of an agent's log.
const logName = "process-%d.log"

// agent is another process of the benchmark, as this one sees it.
type agent struct {
	number  int
	proc    *osproc.Process
	in      *os.File
	answers chan answer   // closed when its output has ended
	prepare time.Duration // for how long it may
	// busy: it has been asked for a window that it has not given its last answer to.
	busy bool
	// aborted: that window is to have no sample, and whatever it says before is passed over.
	aborted bool
	// gone is why it is asked for nothing more; nil: it works.
	gone error
}

// agents are those of a benchmark, in the order of their numbers.
type agents []*agent

// launch starts as many agents as the plan's arms need, all at once.
func (b *bench) launch(ctx context.Context) error {
	n := 0
	for _, a := range b.plan.Arms {
		n = max(n, a.Processes)
	}
	if n == 0 {
		return nil
	}
	if _, ok := b.suite.(Joint); !ok || b.env.Launch == nil {
		return errors.New("arms are spread over processes, and nothing tells how to start those")
	}
	suite, err := json.Marshal(b.env.Launch.Suite)
	if err != nil {
		return err
	}
	b.progress.Line("starting %d processes", n)
	for i := range n {
		a, err := startAgent(*b.env.Launch, AgentConfig{Process: i + 1, Seed: b.env.Seed, Suite: suite, Reach: b.env.Launch.Reach})
		if err != nil {
			return fmt.Errorf("start process %d: %w", i+1, err)
		}
		b.agents = append(b.agents, a)
	}
	return b.agents.each(func(a *agent) error {
		_, err := a.hear(ctx, readyLimit, stepReady)
		return err
	})
}

func startAgent(l Launch, cfg AgentConfig) (*agent, error) {
	name := fmt.Sprintf("process %d", cfg.Process)
	proc, in, out, err := StartPiped(osproc.Spec{
		Kind: history.LifeWorker, Name: name, Command: l.Command(), Log: filepath.Join(l.Dir, fmt.Sprintf(logName, cfg.Process)), Traces: true,
	})
	if err != nil {
		return nil, err
	}
	a := &agent{number: cfg.Process, proc: proc, in: in, answers: make(chan answer, 16), prepare: cmp.Or(l.prepare, prepareLimit)}
	go a.read(out)
	return a, a.send(cfg)
}

// read hands on what the agent answers. Nobody asks for as much as answers has room for.
func (a *agent) read(out *os.File) {
	defer out.Close()
	defer close(a.answers)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			return
		}
		var x answer
		if json.Unmarshal(line, &x) != nil || x.Step == "" {
			x = answer{nonsense: string(line[:min(len(line), 200)])}
		}
		select {
		case a.answers <- x:
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

// send writes a line.
func (a *agent) send(line any) error {
	if a.gone != nil {
		return a.gone
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_ = a.in.SetWriteDeadline(time.Now().Add(sendLimit))
	if _, err := a.in.Write(append(text, '\n')); err != nil {
		return a.lost(fmt.Errorf("takes no orders (%w)", err))
	}
	return nil
}

// hear waits for the answer that says a step is done. An agent that gives another, none in
// time, or nonsense is ended.
func (a *agent) hear(ctx context.Context, limit time.Duration, want string) (answer, error) {
	if a.gone != nil {
		return answer{}, a.gone
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case x, ok := <-a.answers:
		if x.Step == stepSample {
			a.busy = false
		}
		switch {
		case !ok:
			return x, a.died()
		case x.nonsense != "":
			return x, a.lost(fmt.Errorf("gave no answer but %q", x.nonsense))
		case a.aborted && (x.Step == stepPrepared || x.Step == stepEnded):
			return x, nil
		case x.Error != "" && (x.Step == want || x.Step == stepSample):
			return x, fmt.Errorf("process %d: %s", a.number, x.Error)
		case x.Step != want:
			return x, a.lost(fmt.Errorf("answered %q instead of %q", x.Step, want))
		}
		return x, nil
	case <-timer.C:
		late := fmt.Sprintf("did not answer %q within %s", want, limit)
		giveUp := a.proc.GiveUp(context.WithoutCancel(ctx), late)
		return answer{}, a.lost(errors.Join(fmt.Errorf("%s%s", late, a.proc.LastWords()), giveUp))
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// died says how an agent ended whose output has.
func (a *agent) died() error {
	select {
	case <-a.proc.Done():
		return a.lost(fmt.Errorf("ended by itself: %w", a.proc.Ending()))
	case <-time.After(diedLimit):
		return a.lost(fmt.Errorf("closed its output%s", a.proc.LastWords()))
	}
}

// lost ends an agent that cannot be used any more, and says why.
func (a *agent) lost(why error) error {
	if a.gone == nil {
		a.gone = fmt.Errorf("process %d %w", a.number, why)
		a.busy = false
		a.in.Close()
		ctx, cancel := context.WithTimeout(context.Background(), quitLimit)
		defer cancel()
		if err := a.proc.Kill(ctx); err != nil && !errors.Is(err, osproc.ErrEnded) {
			a.gone = errors.Join(a.gone, err)
		}
	}
	return a.gone
}

// abort ends the window that the agent measures, if it does, and waits for its last answer.
func (a *agent) abort() {
	if !a.busy || a.send(order{Do: doAbort}) != nil {
		return
	}
	a.aborted = true
	defer func() { a.aborted = false }()
	for a.busy {
		if _, err := a.hear(context.Background(), DrainTimeout+settleLimit, stepSample); err != nil {
			return
		}
	}
}

// each does something with all agents at once.
func (as agents) each(f func(*agent) error) error {
	errs := make([]error, len(as))
	var wg sync.WaitGroup
	for i, a := range as {
		wg.Go(func() { errs[i] = f(a) })
	}
	wg.Wait()
	return first(errs)
}

// gone is why one of them cannot be used; nil: all can.
func (as agents) gone() error {
	for _, a := range as {
		if a.gone != nil {
			return a.gone
		}
	}
	return nil
}

// first is the first of several errors: they have one cause as a rule.
func first(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
}

// audit has the suite look at what all agents know. Of a part of them nothing could be
// said: changes would seem to be missing that others made.
func (as agents) audit(ctx context.Context, suite Suite) error {
	if len(as) == 0 {
		return nil
	}
	all := make([]json.RawMessage, len(as))
	err := as.each(func(a *agent) error {
		if err := a.send(order{Do: doExport}); err != nil {
			return err
		}
		x, err := a.hear(ctx, exportLimit, stepExported)
		all[a.number-1] = x.Audit
		return err
	})
	if err != nil {
		return err
	}
	return suite.(Joint).Import(all)
}

// end ends all agents: they end by themselves when nobody can ask for anything more.
func (as agents) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, quitLimit)
	defer cancel()
	_ = as.each(func(a *agent) error {
		if a.gone != nil {
			return nil
		}
		a.in.Close()
		select {
		case <-a.proc.Done():
			return nil
		case <-ctx.Done():
			return a.proc.Kill(context.WithoutCancel(ctx))
		}
	})
}
