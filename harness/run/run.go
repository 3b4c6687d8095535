package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/env/host"
	"fencepost/harness/env/link"
	"fencepost/harness/env/link/cqltap"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/own"
	"fencepost/harness/target/seal"
	"fencepost/harness/target/system"
)

// Lease parameters of every run: the declared bound on clock-rate error and the
// constant part of the margin (the lock client's own defaults).
const (
	driftBound = lock.DefaultDriftBound
	marginBase = lock.DefaultMarginBase
)

// stopTimeout bounds the orderly end of the workers, sealTimeout the sealing of all that they
// wrote to.
const (
	stopTimeout = 25 * time.Second
	sealTimeout = 2 * time.Minute
)

// Options say how a plan is carried out.
type Options struct {
	Plan    *plan.Plan
	System  system.System
	Cluster cluster.Cluster
	// Backend names where the cluster came from: local, up, external.
	Backend string
	// BinDir holds the worker executables.
	BinDir string
	// RunsDir is where the run's directory is made (default "runs").
	RunsDir string
	// Progress is told how the run goes on, and writes it into the run's directory. Its
	// owner closes it; nil: nobody is told.
	Progress *progress.Log
	// Watch looks at the history in the run's directory until ctx is over, and tells what
	// it finds violated, from one goroutine; nil: nobody looks. Its error and its
	// processor time are told as progress, and neither changes the run.
	Watch func(ctx context.Context, dir string, found func(progress.Violation)) (time.Duration, error)
	// Command is what a person types to repeat the run.
	Command string
	// ReplayOf is the run whose plan this is, "" for a new plan.
	ReplayOf string
	// RepeatOf is the run that this one repeats, as the machine was too busy for it.
	RepeatOf string
	// Versions go into run.json.
	Versions map[string]string
	// Keep leaves the run's keyspace in the cluster.
	Keep bool
	// Dir is where a user's own program is started (default: the process's own).
	Dir string
	// Trial, if set, has a user's own program tried out: the run keeps its clients waiting at the
	// points that it offers, and fills in what it has seen. Faults at points that it does not
	// offer come at instants.
	Trial *own.Trial
}

type runner struct {
	opt      Options
	plan     *plan.Plan
	dir      string
	info     rundir.Info
	rec      *history.Recorder
	early    []history.Event // from before there was rec
	earlyMu  sync.Mutex
	env      *fault.Env
	db       *cassandra.DB // the harness's own session, past all links
	made     bool          // the keyspace, or some of it
	base     cassandra.Config
	sink     runSink
	cql      *cqltap.Tap      // of the links to nodes; nil: they are no Cassandra's
	nodeTap  link.Tap         // of those links, nil if they cannot be read
	written  writes           // what was sent on them
	servers  *servers.Cluster // of another store; nil: the nodes are Cassandra's
	target   target
	abort    func(error) // ends the run: what it drives cannot be gone on with
	probes   probes
	seals    seal.Sealer
	progress *teller
	// fallen: workers ended before they were ready, so that there is nothing to run.
	fallen       bool
	nodeFell     atomic.Bool // a node ended otherwise than planned
	unwatchNodes func()
	untrim       func() // nil: nothing trims the sink
	// cyclesBefore is the workers' total when the phase began.
	cyclesBefore int64
	stays        stays
	meter        *host.Meter
	unwatchWall  func() // nil: nothing is recorded
	current      string // phase
	cold         bool   // latencies had not settled when the warmup was over
}

// Run carries out a plan and returns the run's directory. The history is on
// disk when it returns, also when ctx was cancelled (the run ends early, in
// order, and says so). An error means that the run could not be carried out.
func Run(ctx context.Context, opt Options) (dir string, err error) {
	r := &runner{opt: opt, plan: opt.Plan, progress: newTeller(opt.Progress)}
	if r.servers, _ = opt.Cluster.(*servers.Cluster); (r.servers != nil) != (r.plan.Spec.Cluster.Store != "") {
		return "", fmt.Errorf("the plan is for the store %q, and the nodes are another's", r.plan.Spec.Cluster.Store)
	}
	defer r.progress.unwatch()
	if err := plan.Suits(&r.plan.Spec, opt.System); err != nil {
		return "", err
	}
	r.target = targets[r.plan.Spec.Kind().Name][r.opt.System.Design()](r)
	if err := r.notePrevious(); err != nil {
		return "", err
	}
	if err := r.makeDir(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.abort = cancel
	defer func() {
		r.info.Ended = time.Now().UTC()
		err = errors.Join(err, rundir.WriteJSON(filepath.Join(r.dir, rundir.InfoFile), r.info))
	}()
	if err := r.target.setUp(ctx); err != nil {
		return r.dir, errors.Join(err, r.tearDown())
	}
	runErr := r.target.phases(ctx)
	return r.dir, errors.Join(runErr, r.tearDown())
}

func (r *runner) makeDir() error {
	s := r.plan.Spec
	runs := r.opt.RunsDir
	if runs == "" {
		runs = "runs"
	}
	now := time.Now().UTC()
	name := fmt.Sprintf("%s-%s-%d", now.Format("20060102-150405"), s.Name, r.plan.Seed)
	dir, err := filepath.Abs(filepath.Join(runs, name))
	if err != nil {
		return err
	}
	for n := 2; ; n++ {
		err := os.MkdirAll(filepath.Dir(dir), 0o755)
		if err == nil {
			err = os.Mkdir(dir, 0o755)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || n > 100 {
			return fmt.Errorf("run directory: %w", err)
		}
		dir = filepath.Join(filepath.Dir(dir), fmt.Sprintf("%s-%d", name, n))
	}
	for _, sub := range []string{rundir.HistoryDir, rundir.LogDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	r.dir = dir
	r.info = rundir.Info{
		Run: filepath.Base(dir), Scenario: s.Name, About: s.About, Seed: r.plan.Seed, System: r.opt.System.Name,
		Cluster: r.opt.Backend, Contention: s.Workload.Contention, Workload: r.plan.Workload, Workers: s.Workload.Workers, Clients: s.Workload.Clients,
		Locks: len(r.plan.Locks), TTL: s.Workload.TTL.D(), Hold: s.Workload.Hold.D(), Started: now,
		Command: r.opt.Command, ReplayOf: r.opt.ReplayOf, RepeatOf: r.opt.RepeatOf, Versions: r.opt.Versions, Machine: rundir.Machine(),
		Notes: cluster.AccessTo(r.opt.Cluster).Notes,
	}
	r.target.describe(&r.info)
	if err := r.plan.Write(filepath.Join(dir, rundir.PlanFile)); err != nil {
		return err
	}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), r.info); err != nil {
		return err
	}
	return r.progress.begin(dir, r.info)
}

// phases runs the clients through the scenario. An interrupted run goes on to
// its orderly end.
func (r *runner) phases(ctx context.Context) error {
	p := r.plan.Spec.Phases
	r.progress.watch(r.env.Fleet.Stats)
	unwatched := r.watch()
	unseen := r.watchUsage()
	var problems []error
	err := func() error {
		if r.fallen {
			return nil
		}
		r.phase(history.PhaseWarmup)
		settled, err := r.warmUp(ctx, p.Warmup.D())
		if err != nil {
			return err
		}
		if err := r.target.begun(ctx); err != nil {
			return err
		}
		r.cold = !settled
		r.phase(history.PhaseBefore)
		if err := r.last(ctx, history.PhaseBefore, p.Before.D()); err != nil {
			return err
		}
		r.phase(history.PhaseFault)
		done := make(chan []error, 1)
		go func() { done <- r.runSteps(ctx, max(2*p.Fault.D(), leastTrigger)) }()
		err = pause(ctx, p.Fault.D())
		problems = <-done
		if err != nil {
			return err
		}
		if err := r.enough(ctx, history.PhaseFault, p.Fault.D()); err != nil {
			return err
		}
		r.phase(history.PhaseHeal)
		feed, err := history.NewFeed(r.historyDir())
		if err != nil {
			return err
		}
		if len(r.plan.Steps) > 0 {
			if err := r.healthy(ctx); err != nil {
				return err
			}
		}
		r.phase(history.PhaseRecover)
		if err := r.last(ctx, history.PhaseRecover, p.Recover.D()); err != nil {
			return err
		}
		return r.target.finish(ctx, feed)
	}()
	unseen()
	if broken := broken(ctx); broken != nil {
		return broken
	}
	for _, e := range problems {
		r.progress.problem("%v", e)
	}
	if errors.Is(err, context.Canceled) {
		r.info.Interrupted = "stopped by a signal"
		r.progress.problem("interrupted: ending in order, then checking what there is")
		err = nil
	}
	return errors.Join(err, r.settle(ctx, unwatched))
}

// healthy waits until the cluster and every worker are healthy again, but for what has ended
// by itself.
func (r *runner) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fault.RestartTimeout)
	defer cancel()
	if err := r.opt.Cluster.WaitHealthy(ctx); err != nil {
		if err = fmt.Errorf("the cluster is not healthy after healing: %w", err); !r.nodeFell.Load() {
			return err
		}
		r.progress.problem("%v", err)
	}
	for _, w := range r.env.Fleet.Workers() {
		if w.PID() == 0 && !w.Fell() {
			return fmt.Errorf("worker %s does not run after healing (its log is in %s)", w.Name(), filepath.Join(r.dir, rundir.LogDir))
		}
	}
	return nil
}

// last lets a phase last for d, and on a slow machine longer: see enough. With nobody left
// there is nothing to wait for.
func (r *runner) last(ctx context.Context, phase string, d time.Duration) error {
	if r.env.Fleet.Fallen() {
		return nil
	}
	if err := pause(ctx, d); err != nil {
		return err
	}
	return r.enough(ctx, phase, d)
}

// leastTrigger is for how long at least a step waits for its event: a worker of
// twelve clients that queue for one lock may take long to reach a point.
const leastTrigger = 45 * time.Second

// A phase may be extended by stretch times its length, and by leastStretch at all events.
const (
	stretch      = 3
	leastStretch = time.Minute
)

// enough waits until the phase has the cycles that the scenario demands, for
// max(stretch*d, leastStretch) at most: a busy machine then makes a run longer, not INVALID.
func (r *runner) enough(ctx context.Context, phase string, d time.Duration) error {
	want := int64(r.plan.Expectation().MinCycles[phase])
	want += want / 8 // the workers' totals come late, by up to 200 ms
	deadline := time.Now().Add(max(stretch*d, leastStretch))
	for r.env.Fleet.Stats().Cycles-r.cyclesBefore < want && time.Now().Before(deadline) && !r.env.Fleet.Fallen() {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) phase(name string) {
	r.noteHost()
	r.current = name
	r.cyclesBefore = r.env.Fleet.Stats().Cycles
	r.note(history.Event{Op: history.NotePhase, Details: &history.Details{Phase: name}})
	r.progress.begins(name)
}

// watch has the history looked at until the function that it returns is called.
func (r *runner) watch() (stop func()) {
	if r.opt.Watch == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		took, err := r.opt.Watch(ctx, r.dir, r.progress.violation)
		if err != nil {
			r.progress.problem("no more violations are reported before the verdict: %v", err)
			return
		}
		if took > 0 {
			r.progress.step("looking for violations so far took %.2f s of processor time", took.Seconds())
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// settle ends all worker processes and then seals what they left. Nobody looks at
// the history any more when the sinks' ledgers come into it.
func (r *runner) settle(ctx context.Context, unwatched func()) error {
	r.phase(history.PhaseSettle)
	if r.untrim != nil {
		r.untrim()
	}
	stopCtx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	stopErr := r.env.Fleet.Stop(stopCtx)
	if broken := broken(ctx); broken != nil {
		return broken
	}
	if stopErr != nil {
		r.progress.problem("%v", stopErr)
	}
	unwatched()
	r.phase(history.PhaseSeal)
	sealCtx, cancelSeal := context.WithTimeout(context.Background(), sealTimeout)
	defer cancelSeal()
	r.wakeSink(sealCtx)
	err := r.target.seal(sealCtx)
	r.seals.Tell()
	r.noteNodes()
	r.progress.unwatch()
	return err
}

// tearDown leaves nothing but the run's directory.
func (r *runner) tearDown() error {
	var errs []error
	if r.env != nil && r.env.Fleet != nil {
		errs = append(errs, r.env.Fleet.Kill(context.Background())) // as a rule all have ended
	}
	if r.untrim != nil {
		r.untrim()
	}
	errs = append(errs, r.target.close())
	if r.env != nil {
		errs = append(errs, r.env.WorkerLinks.Close())
	}
	errs = append(errs, r.sink.close())
	if r.unwatchNodes != nil {
		r.unwatchNodes()
	}
	if r.meter != nil {
		r.meter.Stop()
	}
	r.probes.close()
	errs = append(errs, r.keepNodeLogs())
	if r.db != nil {
		r.db.Close()
	}
	if r.made {
		if !r.opt.Keep {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if err := cassandra.DropKeyspace(ctx, r.base); err != nil {
				r.progress.problem("drop keyspace %s: %v", r.base.Keyspace, err)
			}
			cancel()
		}
	}
	if r.rec != nil {
		r.unwatchWall()
		errs = append(errs, r.rec.Close())
	}
	return errors.Join(errs...)
}
