package checkers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/bench"
	"fencepost/harness/record/verdict"
	"fencepost/reports"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// DefaultSizes are the numbers of operations.
var DefaultSizes = []int{10_000, 100_000, 300_000}

// Limits of Config: a shorter run exercises too little to be a PASS.
const (
	minSize = 5_000
	maxSize = 2_000_000
)

// Config is what to measure.
type Config struct {
	bench.Config
	// Sizes are about how many operations each history has; default DefaultSizes.
	Sizes []int
	// Exe is the tool's executable.
	Exe string
}

// Suite measures the checker.
type Suite struct {
	Config
	plan  *bench.Plan
	dir   string
	peaks map[string][]float64 // by arm, in bytes, in the order of rounds; only those known
	sizes map[string]int64     // operations of each arm's history
	// checks is how many there were, unfit how many of them are no sample, and wrong those
	// that found a violation where there is none.
	checks, unfit int
	wrong         []string
}

var _ bench.Suite = (*Suite)(nil)

// New lays out the arms, one a size.
func New(c Config) (*Suite, error) {
	if len(c.Sizes) == 0 {
		c.Sizes = DefaultSizes
	}
	c.Sizes = slices.Clone(c.Sizes)
	for i, n := range c.Sizes {
		if n < minSize || n > maxSize {
			return nil, fmt.Errorf("a history of %d operations: use %d to %d", n, minSize, maxSize)
		}
		if slices.Contains(c.Sizes[:i], n) {
			return nil, fmt.Errorf("%d operations are named twice", n)
		}
	}
	slices.Sort(c.Sizes)
	s := &Suite{Config: c, peaks: map[string][]float64{}, sizes: map[string]int64{}}
	var group []bench.Arm
	for _, n := range c.Sizes {
		a := bench.Arm{
			ID: armID(n), Kind: "check", Letter: "K", Threads: 1,
			Name: fmt.Sprintf("check of %s operations", measure.FormatCount(int64(n))),
		}
		if n != c.Sizes[0] {
			a.Baseline = armID(c.Sizes[0])
		}
		group = append(group, a)
	}
	var err error
	if s.plan, err = bench.NewPlan(c.Config, [][]bench.Arm{group}); err != nil {
		return nil, err
	}
	s.Config.Config = s.plan.Config
	return s, nil
}

func armID(size int) string { return fmt.Sprintf("K/%d", size) }

// About how many operations a second a history is made of, and judged by.
const (
	madePerSecond    = 5_000
	checkedPerSecond = 25_000
)

// Design implements bench.Suite.
func (s *Suite) Design() bench.Design {
	var operations time.Duration
	for _, n := range s.Sizes {
		operations += time.Duration(n) * time.Second
	}
	rounds := time.Duration(s.plan.Rounds + 1)
	return bench.Design{
		Name: "checker", Setting: "checker", Turn: "one check",
		Plan: s.plan, Estimate: operations/madePerSecond + rounds*operations/checkedPerSecond, Targets: s.targets,
		Legend: []string{
			"check: fencepost check, in a process of its own with its default limits, on the history of a whole run of locks with a fault; reading the files counts; an operation is one of the history's; the baseline is the smallest history",
			"histories are made in virtual time by the production core, the clients and the recorder of real runs on a simulated store; the seed decides how a run goes, but for a few operations",
			"latencies are those of whole checks, one in each round",
		},
	}
}

// Open implements bench.Suite.
func (s *Suite) Open(_ context.Context, env *bench.Env) error {
	s.dir = filepath.Join(env.Dir, "histories")
	return nil
}

// Subject implements bench.Suite.
func (s *Suite) Subject(a bench.Arm, _ uint64) (bench.Subject, error) {
	i := slices.IndexFunc(s.Sizes, func(n int) bool { return armID(n) == a.ID })
	if i < 0 {
		return nil, errors.New("no history for arm " + a.ID)
	}
	return &arm{suite: s, id: a.ID, dir: filepath.Join(s.dir, fmt.Sprint(s.Sizes[i])), order: order{Operations: s.Sizes[i], Seed: s.Seed}}, nil
}

// arm checks one history over and over.
type arm struct {
	suite *Suite
	id    string
	dir   string
	order order
	made  bool
}

// Window implements bench.Subject: one check, however long it takes. The first one makes the
// history before.
func (a *arm) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	s := bench.Sample{Arm: a.id, Round: w.Round, Latency: measure.NewHistogram()}
	if !a.made {
		if err := a.order.history(ctx, a.suite.Exe, a.dir); err != nil {
			return s, err
		}
		a.made = true
	}
	s.Started = time.Now()
	c, err := runCheck(ctx, a.suite.Exe, a.dir)
	a.suite.checks++
	if wrong := (*notPassError)(nil); errors.As(err, &wrong) && wrong.said.Verdict == verdict.Fail {
		a.suite.wrong = append(a.suite.wrong, fmt.Sprintf("%s, round %d: %v", a.id, w.Round, err))
	}
	if err != nil {
		a.suite.unfit++
		return s, err
	}
	if n := a.suite.sizes[a.id]; n != 0 && n != c.operations {
		return s, fmt.Errorf("a check found %d operations where the one before found %d", c.operations, n)
	}
	a.suite.sizes[a.id] = c.operations
	s.Seconds, s.OK, s.PerThread, s.Done, s.Ended = c.took.Seconds(), c.operations, []int64{c.operations}, c.operations, c.operations
	s.Cost = &reports.BenchCost{Ops: c.operations, Spent: map[string]float64{
		reports.SpentClientCPU: c.cpu.Seconds(), reports.SpentStoreCPU: 0, // there are no nodes
	}}
	if c.peak > 0 {
		s.Cost.Spent[reports.SpentPeakBytes] = float64(c.peak)
		if w.Round > 0 {
			a.suite.peaks[a.id] = append(a.suite.peaks[a.id], float64(c.peak))
		}
	}
	return s, measure.Record(s.Latency, c.took)
}

// Close implements bench.Subject.
func (a *arm) Close(context.Context) error { return nil }

// Finish implements bench.Suite.
func (s *Suite) Finish(_ context.Context, r *bench.Result) error {
	var found []string
	for _, a := range s.plan.Arms {
		found = append(found, fmt.Sprintf("%s %s", a.ID, measure.FormatCount(s.sizes[a.ID])))
	}
	r.Violations = append(r.Violations, s.wrong...)
	r.Note("%d of %d checks ended with PASS, with the rehearsal; operations in the histories: %s", s.checks-s.unfit, s.checks, strings.Join(found, ", "))
	return os.RemoveAll(s.dir)
}

// Round implements bench.Suite.
func (s *Suite) Round(samples []bench.Sample) string {
	return s.plan.Rates(samples, " operations/s")
}

const quantity = "cpu_s_per_1000"

// Headlines implements bench.Suite.
func (s *Suite) Headlines(r *bench.Result) []string {
	numbers, err := r.Numbers()
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for i, a := range s.plan.Arms {
		n := numbers[i]
		cpu, peak := "not measured", "not measured"
		if e := n.Cost(quantity).Estimate; e.N > 0 {
			cpu = bench.Factor(e)
		}
		if p := stat.SpreadOf(s.peaks[a.ID]); p.N > 0 && p.N == n.Rate.N {
			peak = fmt.Sprintf("%.0f MB (%.0f–%.0f)", p.Median/1e6, p.Min/1e6, p.Max/1e6)
		}
		out = append(out, fmt.Sprintf("%s (%s in fact): median %s operations/s, CPU s per 1000 operations %s, peak memory %s",
			a.Name, measure.FormatCount(s.sizes[a.ID]), reports.RateText(n.Rate.Median), cpu, peak))
	}
	return out
}

// mostGrowth is how much more an operation of the largest history may take than one of the smallest.
const mostGrowth = 2.0

func (s *Suite) targets(r *bench.Result) ([]bench.Target, error) {
	if len(s.Sizes) < 2 {
		return nil, nil
	}
	numbers, err := r.Numbers()
	if err != nil {
		return nil, err
	}
	small, large := s.plan.Arms[0], s.plan.Arms[len(s.plan.Arms)-1]
	each := func(sample bench.Sample) float64 { return 1 / sample.Rate() }
	what := fmt.Sprintf("for an operation, %s by that of %s", large.ID, small.ID)
	return []bench.Target{
		bench.AtMost("time of a check "+what, r.Ratio(large.ID, small.ID, each), mostGrowth),
		bench.AtMost("processor time of a check "+what, numbers[len(numbers)-1].Cost(quantity).By(numbers[0].Cost(quantity)), mostGrowth),
	}, nil
}
