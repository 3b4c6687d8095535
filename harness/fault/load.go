package fault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/prometheus/procfs"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

const (
	// saturatingOpen is how many enqueues each worker keeps under way to find what can be done.
	saturatingOpen = 40
	// settling is how long a load is in force until what it does is counted.
	settling = 2 * time.Second
	// offeredPart is the part of what is to come that must have come.
	offeredPart = 0.9
	// maxTimes bounds an overload: workers that enqueue more do nothing else.
	maxTimes = 10
)

var saturating = control.Load{Open: saturatingOpen}

func init() {
	register(Kind{
		Name: "saturate", On: Worker, Family: FamilyLoad,
		About: fmt.Sprintf("workers keep %d enqueues each under way, whatever their rate: as much is done as can be, and no more is asked for", saturatingOpen),
		Proof: "Half as many enqueues or more are under way, by what the workers tell five times a second, whenever the harness looks. " +
			"How many jobs ended a second, without the first 2 s, is what overload goes by.",
		Needs: Needs{Jobs: true},
		Takes: history.TakesNothing,
		New:   plain(saturate{}),
	}, Kind{
		Name: "overload", On: Worker, Family: FamilyLoad,
		About:  "jobs come so many times as fast as they ended under the last saturate; who is refused does not come again",
		Proof:  fmt.Sprintf("At least %g %% as many jobs came as should have, by what the workers tell. The checker counts them in the history.", 100*offeredPart),
		Params: []string{"times"},
		Needs:  Needs{Jobs: true},
		Takes:  history.TakesNothing,
		New: func(s Spec) (Fault, error) {
			if s.Times <= 1 || s.Times > maxTimes {
				return nil, fmt.Errorf("%g times is not above 1 and at most %d", s.Times, maxTimes)
			}
			return overload{s.Times}, nil
		},
	})
}

// load is what workers enqueue in place of what their workload says.
type load struct {
	env     *Env
	workers []*fleet.Worker
	since   time.Time
	before  control.Stats
	cpu     float64 // processor time of the workers until then, in s
}

func (e *Env) offer(names []string, to control.Load) (*load, error) {
	workers, err := e.workers(names)
	if err != nil {
		return nil, err
	}
	l := &load{env: e, workers: workers}
	if err := l.tell(to); err != nil {
		return nil, errors.Join(err, l.Heal(context.Background()))
	}
	l.start()
	return l, nil
}

// start counts from now on.
func (l *load) start() { l.since, l.before, l.cpu = time.Now(), l.stats(), l.cpuTime() }

func (l *load) tell(to control.Load) error {
	var errs []error
	for _, w := range l.workers {
		errs = append(errs, l.env.do(func() error { return w.Load(to) }))
	}
	return errors.Join(errs...)
}

func (l *load) stats() (sum control.Stats) {
	for _, w := range l.workers {
		sum.Add(w.Stats())
	}
	return sum
}

// cpuTime is that of the workers' lives, in s, by the kernel's account.
func (l *load) cpuTime() (sum float64) {
	for _, w := range l.workers {
		if p, err := procfs.NewProc(w.PID()); err == nil {
			if s, err := p.Stat(); err == nil {
				sum += s.CPUTime()
			}
		}
	}
	return sum
}

// busy says how busy the workers were, who are the system and its load in one.
func (l *load) busy(took time.Duration) string {
	return fmt.Sprintf("the workers, which run the jobs too, used %.2f of %d processors", max(l.cpuTime()-l.cpu, 0)/took.Seconds(), runtime.NumCPU())
}

// Heal has them enqueue what their workload says.
func (l *load) Heal(context.Context) error { return l.tell(control.Load{}) }

type saturate struct{}

func (saturate) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	l, err := env.offer(targets, saturating)
	if err != nil {
		return nil, err
	}
	a := &activeSaturate{load: l, least: math.MaxInt64, done: make(chan struct{})}
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	go a.look(looking)
	return a, nil
}

type activeSaturate struct {
	*load
	stop  context.CancelFunc
	done  chan struct{}
	least int64 // enqueues that were under way when it was looked
	looks int
}

// look counts what is under way, when the load has settled.
func (a *activeSaturate) look(ctx context.Context) {
	defer close(a.done)
	wait := time.NewTimer(settling)
	defer wait.Stop()
	for first := true; ; first = false {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return
		}
		now := a.stats()
		if first {
			a.start()
		}
		a.least, a.looks = min(a.least, now.Enqueuing), a.looks+1
		wait.Reset(settling / 4)
	}
}

func (a *activeSaturate) end() {
	a.stop()
	<-a.done
}

func (a *activeSaturate) Probe(context.Context) Evidence {
	a.end()
	if a.looks < 2 {
		return Evidence{Text: "it was in force for too short a time"}
	}
	took, ended := time.Since(a.since), a.stats().Cycles-a.before.Cycles
	rate := float64(ended) / took.Seconds()
	a.env.capacity.Store(math.Float64bits(rate))
	want := int64(saturatingOpen * len(a.workers))
	return Evidence{
		Proven: a.least >= want/2 && ended > 0,
		Text: fmt.Sprintf("%d or more of %d enqueues were under way in each of %d looks; %d jobs ended in %.1f s, %.0f a second; %s",
			a.least, want, a.looks, ended, took.Seconds(), rate, a.busy(took)),
	}
}

func (a *activeSaturate) Heal(ctx context.Context) error {
	a.end()
	return a.load.Heal(ctx)
}

type overload struct{ times float64 }

func (f overload) Inject(_ context.Context, env *Env, targets []string) (Active, error) {
	capacity := math.Float64frombits(env.capacity.Load())
	if capacity <= 0 {
		return nil, errors.New("nobody knows how many jobs are too many: no saturate came before, or no job ended under it")
	}
	rate := f.times * capacity
	l, err := env.offer(targets, control.Load{Rate: rate / float64(len(targets))})
	if err != nil {
		return nil, err
	}
	return &activeOverload{load: l, rate: rate}, nil
}

type activeOverload struct {
	*load
	rate float64 // of all workers
}

// Probe counts what came. Who is stopped meanwhile, by another fault, offers nothing.
func (a *activeOverload) Probe(context.Context) Evidence {
	took, came := time.Since(a.since), a.stats().Came-a.before.Came
	want := a.rate * took.Seconds()
	return Evidence{
		Proven: float64(came) >= offeredPart*want,
		Text: fmt.Sprintf("%d jobs came in %.1f s, %.0f a second; %.0f a second were to come; %s",
			came, took.Seconds(), float64(came)/took.Seconds(), a.rate, a.busy(took)),
	}
}
