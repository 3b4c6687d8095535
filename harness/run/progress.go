package run

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"fencepost/harness/env/host"
	"fencepost/harness/record/history"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/control"
)

// ratesEvery is how often a run tells its rates.
const ratesEvery = time.Second

// teller tells a run's progress: it adds to the events what they have to be
// understood by, such as the phase and the faults in force.
type teller struct {
	log *progress.Log

	mu     sync.Mutex
	phase  string
	detail string
	active []string
	stats  func() control.Stats
	last   control.Stats
	lastAt time.Time
	stop   func() // ends what watch began; nil: nothing was begun
}

func newTeller(log *progress.Log) *teller {
	if log == nil {
		log = progress.New(nil)
	}
	return &teller{log: log}
}

// begin makes the run's file.
func (t *teller) begin(dir string, info rundir.Info) error {
	return t.log.Begin(filepath.Join(dir, rundir.ProgressFile), progress.Run{
		Name: info.Run, Scenario: info.Scenario, About: info.About, Seed: info.Seed, System: info.System, Sink: info.Sink,
		Contention: info.Contention, Workload: info.Workload, Backend: info.Cluster, Paxos: info.Versions["paxos_variant"], Dir: dir,
		Command: info.Command, ReplayOf: info.ReplayOf,
	})
}

func (t *teller) step(format string, args ...any)    { t.log.Step(format, args...) }
func (t *teller) problem(format string, args ...any) { t.log.Problem(format, args...) }

func (t *teller) violation(v progress.Violation) {
	t.log.Emit(progress.Event{Kind: progress.KindViolation, Violation: &v})
}

func (t *teller) begins(phase string) {
	t.mu.Lock()
	t.phase, t.detail = phase, ""
	t.mu.Unlock()
	t.log.Emit(progress.Event{Kind: progress.KindPhase, Phase: phase})
}

// at says what the phase is at.
func (t *teller) at(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detail = fmt.Sprintf(format, args...)
}

func (t *teller) fault(f history.Fault) {
	label := progress.FaultLabel(&f)
	t.mu.Lock()
	switch f.Action {
	case history.ActionInject:
		t.active = append(slices.Clone(t.active), label)
	case history.ActionHeal:
		if i := slices.Index(t.active, label); i >= 0 {
			t.active = slices.Concat(t.active[:i], t.active[i+1:])
		}
	}
	t.mu.Unlock()
	t.log.Emit(progress.Event{Kind: progress.KindFault, Fault: &f})
}

// watch starts telling the rates.
func (t *teller) watch(stats func() control.Stats) {
	t.stats, t.lastAt = stats, time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for pause(ctx, ratesEvery) == nil {
			t.rates()
		}
	})
	t.stop = func() {
		cancel()
		wg.Wait()
	}
}

func (t *teller) rates() {
	s, now := t.stats(), time.Now()
	rate := float64(s.Cycles-t.last.Cycles) / now.Sub(t.lastAt).Seconds()
	t.last, t.lastAt = s, now
	t.mu.Lock()
	r := &progress.Rates{
		Phase: t.phase, Cycles: s.Cycles, PerSecond: math.Round(max(rate, 0)*10) / 10, LeasesLost: s.LeasesLost, Refused: s.Stale,
		Unknown: s.Unknown, Enqueuing: s.Enqueuing, Active: t.active, Detail: t.detail,
	}
	t.mu.Unlock()
	t.log.Emit(progress.Event{Kind: progress.KindRates, Rates: r})
}

// unwatch ends what watch began. It may be called again, and without watch.
func (t *teller) unwatch() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// maxNodeLog is how much of the end of a node's log goes into a run's directory:
// a cluster that is kept up writes one log for all its runs.
const maxNodeLog = 1 << 20

// keepNodeLogs copies the ends of the nodes' logs beside the workers'.
func (r *runner) keepNodeLogs() error {
	for _, n := range r.opt.Cluster.Nodes() {
		if n.LogFile() == "" {
			continue // a cluster that is not ours
		}
		if err := copyEnd(n.LogFile(), filepath.Join(r.dir, rundir.LogDir, n.Name()+".log")); err != nil {
			return fmt.Errorf("log of node %s: %w", n.Name(), err)
		}
	}
	return nil
}

func copyEnd(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if _, err := in.Seek(max(0, info.Size()-maxNodeLog), io.SeekStart); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// noteHost records how busy the machine was in the phase that ends.
func (r *runner) noteHost() {
	if r.meter == nil {
		r.meter = host.Start()
		return
	}
	h := r.meter.Take()
	h.Phase, h.Cold = r.current, r.current == history.PhaseWarmup && r.cold
	r.note(history.Event{Op: history.NoteHost, Details: &history.Details{Host: &h}})
	if h.LagP99MS > history.MaxLagMS {
		r.progress.problem("host too busy in phase %s: the harness's own timer was late by %.0f ms (p99), "+
			"%.0f %% of the processors' time was stolen", h.Phase, h.LagP99MS, 100*h.Steal)
	}
}
