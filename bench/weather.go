package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"fencepost/harness/record/progress"
	"fencepost/reports"
	"fencepost/reports/stat"
)

// weather is how much processor time has been used by whom, so that a reader
// sees whether somebody else disturbed a measurement.
type weather struct {
	at    time.Time
	own   time.Duration // this process
	nodes time.Duration // the database's processes
	all   time.Duration // everybody, in user and kernel mode
	stole time.Duration // what the machine below kept for others
	known bool          // nodes, all and stole could be read
}

// load is the use of processors between two readings.
type load struct {
	reports.BenchLoad
	Known bool // all but Own are known
}

// told is the load as a report has it: nil if it is not known.
func (l load) told() *reports.BenchLoad {
	if !l.Known {
		return nil
	}
	return &l.BenchLoad
}

// ownTime is the processor time of this process.
func ownTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// timeOf is the processor time of processes, by the kernel's account. An error means that
// one is gone.
func timeOf(pids []int) (total time.Duration, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		p, err := proc.Proc(pid)
		if err != nil {
			return 0, err
		}
		stat, err := p.Stat()
		if err != nil {
			return 0, err
		}
		total += seconds(stat.CPUTime())
	}
	return total, nil
}

// weather reads the processor times.
func (w Window) weather() weather {
	x := readWeather(w.PIDs)
	if clients, err := w.clientTime(); err == nil {
		x.own = clients
	}
	return x
}

// readWeather reads the processor times; pids are the database's processes.
func readWeather(pids []int) weather {
	w := weather{at: time.Now()}
	w.own, _ = ownTime()
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return w
	}
	stat, err := proc.Stat()
	if err != nil {
		return w
	}
	// Interrupts belong to nobody and are left out.
	w.all, w.stole = seconds(stat.CPUTotal.User+stat.CPUTotal.Nice+stat.CPUTotal.System), seconds(stat.CPUTotal.Steal)
	w.nodes, err = timeOf(pids)
	w.known = err == nil
	return w
}

// since returns the use between two readings.
func (w weather) since(before weather) load {
	took := w.at.Sub(before.at).Seconds()
	if took <= 0 {
		return load{}
	}
	cores := func(a, b time.Duration) float64 { return (a - b).Seconds() / took }
	l := load{BenchLoad: reports.BenchLoad{Own: cores(w.own, before.own)}, Known: w.known && before.known}
	if l.Known {
		l.Nodes = cores(w.nodes, before.nodes)
		l.Stolen = cores(w.stole, before.stole)
		// Ticks are coarse: a little below nothing is nothing.
		l.Other = max(cores(w.all, before.all)-l.Own-l.Nodes, 0)
	}
	return l
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Warm-up: a JVM that has just started does a third to a fifth of what it does
// some minutes later, while its code is compiled.
const (
	warmUpWindow = 3 * time.Second
	// WarmUpLimit bounds the whole of it, with what lies between the windows.
	WarmUpLimit = 2 * time.Minute
	// Of the last stableWindows windows the later half must do no better than the earlier
	// one by stableGrowth or more, and best and worst differ by less than stableWithin.
	stableWindows = 6
	stableGrowth  = 0.05
	stableWithin  = 0.15
	// WarmUpThreads of each kind of arm are enough to use all processors.
	WarmUpThreads = 12
)

// WarmUp is how the load before the first round went. It is over when the nodes' processor
// time for an operation falls no more: their code is compiled. Where it cannot be read, or
// their load is not steady, a rate that rises no more will do too.
type WarmUp struct {
	Took   time.Duration `json:"took_ns"`
	Window time.Duration `json:"window_ns"`
	// Rates of all operations together, a second, and Costs, ms of the nodes' processor time
	// for each, by window.
	Rates  []float64 `json:"rates"`
	Costs  []float64 `json:"costs,omitempty"`
	Stable bool      `json:"stable"`
	// Cold are the first rounds, which count for nothing: what the nodes' processor time for an
	// operation in the round after each was by that in it, the median of the arms.
	Cold []float64 `json:"cold,omitempty"`
}

// A round is cold, and counts for nothing, if all before it are and an operation takes the nodes
// less than coldAbove of their processor time in the round after it: their code was still being
// compiled. The rule looks at time alone and never at differences between arms. There are at
// most mostCold.
const (
	coldAbove = 0.9
	mostCold  = 4
)

// forgetCold forgets the round before this one if it was cold. With a number of rounds that is
// given every one of them counts.
func (b *bench) forgetCold(round int) {
	w := &b.result.Warmed
	if first := 1 + len(w.Cold); b.plan.Budget == 0 || round != first+1 || len(w.Cold) == mostCold {
		return
	}
	var ratios []float64
	for _, a := range b.plan.Arms {
		was, is := b.result.storeCPU(a.ID, round-1), b.result.storeCPU(a.ID, round)
		if was > 0 && is > 0 {
			ratios = append(ratios, is/was)
		}
	}
	m := stat.Median(ratios)
	if len(ratios) == 0 || m >= coldAbove {
		return
	}
	w.Cold = append(w.Cold, m)
	w.Stable = len(w.Cold) < mostCold
	b.result.Samples = slices.DeleteFunc(b.result.Samples, func(s Sample) bool { return s.Round < round })
	b.progress.Line("round %d counts for nothing: after it an operation took the nodes %.0f %% of that processor time", round-1, 100*m)
}

// storeCPU is the nodes' processor time for an operation of an arm in a round, in s; 0 if it is not
// known.
func (r *Result) storeCPU(arm string, round int) float64 {
	for _, s := range r.Samples {
		if s.Arm == arm && s.Round == round && s.Cost != nil && s.Cost.Ops > 0 {
			return s.Cost.Spent[reports.SpentStoreCPU] / float64(s.Cost.Ops)
		}
	}
	return 0
}

func (w WarmUp) String() string {
	list := func(format string, values []float64) string {
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = fmt.Sprintf(format, v)
		}
		return strings.Join(texts, " ")
	}
	s := fmt.Sprintf("warm-up %.0f s, operations/s by %.0f s: %s", w.Took.Seconds(), w.Window.Seconds(), list("%.0f", w.Rates))
	if len(w.Costs) > 0 {
		s += "; ms of the nodes' processor time for each: " + list("%.2f", w.Costs)
	}
	if n := len(w.Cold); n > 0 {
		s += fmt.Sprintf("; rounds after it that count for nothing: %d; after each an operation took the nodes less processor time, by %s", n, list("%.2f", w.Cold))
	}
	if w.Stable {
		return s + ": stable at last"
	}
	return s + ": not stable yet, so absolute numbers still rise from round to round; read the ratios within a round"
}

// settled reports whether the last windows are close to each other and do not rise; of costs,
// with a direction of -1, whether they do not fall.
func settled(values []float64, direction float64) bool {
	if len(values) < stableWindows {
		return false
	}
	last := values[len(values)-stableWindows:]
	var early, late float64
	for i, v := range last {
		if i < stableWindows/2 {
			early += v
		} else {
			late += v
		}
	}
	low := slices.Min(last)
	return low > 0 && slices.Max(last)/low < 1+stableWithin && math.Pow(late/early, direction) < 1+stableGrowth
}

// warmUp runs all kinds of arms at once until throughput is stable or the limit is
// reached.
func (b *bench) warmUp(ctx context.Context, arms []Arm) error {
	subjects := make([]Subject, len(arms))
	for i, a := range arms {
		s, err := b.suite.Subject(a, 1<<16+uint64(i))
		if err != nil {
			return err
		}
		subjects[i] = s
	}
	w := &b.result.Warmed
	w.Window = warmUpWindow
	begin := time.Now()
	for n := 0; !w.Stable && time.Since(begin)+warmUpWindow <= WarmUpLimit; n++ {
		rate, cost, err := b.warmUpWindow(ctx, arms, subjects, n)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		w.Rates = append(w.Rates, rate)
		if cost > 0 {
			w.Costs = append(w.Costs, cost)
		}
		w.Stable = settled(w.Rates, 1) || settled(w.Costs, -1)
		w.Took = time.Since(begin)
		b.progress.window(progress.Window{
			Rounds: b.plan.Rounds, Arm: "warm-up", PerSecond: rate,
			Text: fmt.Sprintf("warm-up: %.0f operations/s after %.0f s", rate, w.Took.Seconds()),
		})
	}
	for _, s := range subjects {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		err := s.Close(closing)
		cancel()
		if err != nil {
			return err
		}
	}
	b.progress.Line("%s", w)
	return nil
}

// warmUpWindow is the n-th window of the warm-up. Its number goes below those of the
// rounds, so that what a round makes again is made again here too. cost is ms of the nodes'
// processor time for an operation, 0 if it cannot be read.
func (b *bench) warmUpWindow(ctx context.Context, arms []Arm, subjects []Subject, n int) (rate, cost float64, err error) {
	var wg sync.WaitGroup
	samples := make([]Sample, len(arms))
	errs := make([]error, len(arms))
	before, unread := readNodes(b.env.PIDs)
	for i, a := range arms {
		wg.Go(func() { samples[i], errs[i] = subjects[i].Window(ctx, b.window(a, -1-n, warmUpWindow)) })
	}
	wg.Wait()
	after, err := readNodes(b.env.PIDs)
	var ended int64
	for i := range arms {
		if errs[i] != nil {
			return 0, 0, errs[i]
		}
		rate += samples[i].Rate()
		ended += samples[i].Ended
	}
	if err == nil && unread == nil && ended > 0 {
		cost = 1000 * (after[reports.SpentStoreCPU] - before[reports.SpentStoreCPU]) / float64(ended)
	}
	return rate, cost, nil
}
