package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/store"
	"fencepost/reports/stat"
)

// DefaultThreads and DefaultTTLs are the axes.
var (
	DefaultThreads = []int{1, 8, 32}
	DefaultTTLs    = []time.Duration{6 * time.Second, 30 * time.Second}
)

// maxThreads bounds one process's clients; beyond it the client machine is what
// is measured.
const maxThreads = 1024

// Config is what to measure.
type Config struct {
	bench.Config
	Contention Contention
	Threads    []int           // default 1, 8, 32
	TTLs       []time.Duration // default 6 s, 30 s; the control copies the first
	// Spreads are arms whose threads are spread over processes, each with a lock client of
	// its own; they have the first ttl. Default: none.
	Spreads []Spread
	Variant Variant // what is planted; default nothing
}

// WithDefaults fills in what is not said, and refuses what cannot be measured.
func (c Config) WithDefaults() (Config, error) {
	if len(c.Threads) == 0 {
		c.Threads = DefaultThreads
	}
	if len(c.TTLs) == 0 {
		c.TTLs = DefaultTTLs
	}
	if !slices.Contains(Contentions(), c.Contention) {
		return c, fmt.Errorf("unknown contention %q", string(c.Contention))
	}
	for i, n := range c.Threads {
		if n < 1 || n > maxThreads {
			return c, fmt.Errorf("%d threads: use 1 to %d", n, maxThreads)
		}
		if slices.Contains(c.Threads[:i], n) {
			return c, fmt.Errorf("%d threads are named twice", n)
		}
	}
	for i, ttl := range c.TTLs {
		if ttl < time.Second {
			return c, fmt.Errorf("ttl %s: use at least 1s, shorter leases expire in a collector's pause", ttl)
		}
		if slices.Contains(c.TTLs[:i], ttl) {
			return c, fmt.Errorf("ttl %s is named twice", ttl)
		}
	}
	for i, p := range c.Spreads {
		if err := p.check(); err != nil {
			return c, err
		}
		if slices.Contains(c.Spreads[:i], p) {
			return c, fmt.Errorf("processes %s are named twice", p)
		}
	}
	return c, nil
}

// Suite measures locks at one level of contention.
type Suite struct {
	Config
	plan    *bench.Plan
	env     *bench.Env
	ceiling *Ceiling
	cycles  *Cycles
}

var _ bench.Joint = (*Suite)(nil)

// New lays out the arms. Those with the same number of threads are a group.
func New(c Config) (*Suite, error) {
	c, err := c.WithDefaults()
	if err != nil {
		return nil, err
	}
	var groups [][]bench.Arm
	for _, n := range c.Threads {
		ceiling := CeilingArm(n, c.Contention)
		write := bench.Arm{
			ID: fmt.Sprintf("W/%d", n), Kind: "write", Letter: "W", Name: "plain write",
			Threads: n, Contention: string(c.Contention), Changes: 1, Ceiling: ceiling.ID,
		}
		group := []bench.Arm{ceiling, write}
		for _, ttl := range c.TTLs {
			group = append(group, lockArm(c, n, ttl))
		}
		copied := lockArm(c, n, c.TTLs[0])
		copied.Control = copied.ID
		copied.ID = "L2" + strings.TrimPrefix(copied.ID, "L")
		copied.Letter, copied.Name = "L2", "lock cycle, A/A copy"
		group = append(group, copied, renewArm(c, n))
		if n == slices.Max(c.Threads) {
			group = append(group, openArm(c, n))
		}
		groups = append(groups, group)
	}
	for _, p := range c.Spreads {
		groups = append(groups, p.arms(c))
	}
	plan, err := bench.NewPlan(c.Config, groups)
	if err != nil {
		return nil, err
	}
	c.Config = plan.Config
	return &Suite{Config: c, plan: plan}, nil
}

func lockArm(c Config, threads int, ttl time.Duration) bench.Arm {
	return bench.Arm{
		ID: fmt.Sprintf("L/%d/%s", threads, ttl), Kind: "lock", Letter: "L", Name: "lock cycle",
		Threads: threads, TTL: ttl, Contention: string(c.Contention), Changes: 2, Ceiling: CeilingArm(threads, c.Contention).ID,
	}
}

// openPart is the part of the capacity at which lock cycles are offered: high enough that
// some wait for others, and low enough that a machine whose capacity falls by a third from
// one round to the next still keeps up.
const openPart = 0.5

// openArm is a lock cycle that is asked for when it is meant to be.
func openArm(c Config, threads int) bench.Arm {
	a := lockArm(c, threads, c.TTLs[0])
	a.Open, a.Parts = bench.Open{Of: a.ID, Part: openPart}, bench.OpenParts
	a.ID = "LO" + strings.TrimPrefix(a.ID, "L")
	a.Letter, a.Name = "LO", fmt.Sprintf("lock cycle, offered at %.0f %% of its capacity", 100*openPart)
	return a
}

// renewArm has the first ttl.
func renewArm(c Config, threads int) bench.Arm {
	a := lockArm(c, threads, c.TTLs[0])
	a.ID, a.Kind, a.Letter, a.Name, a.Changes = "LR"+strings.TrimPrefix(a.ID, "L"), "renew", "LR", "lock cycle with a renewal", 3
	return a
}

// Design implements bench.Suite.
func (s *Suite) Design() bench.Design {
	d := bench.Design{
		Name: s.name(), Setting: s.setting(),
		Plan: s.plan, Estimate: s.plan.Estimate(100 * time.Millisecond), WarmUp: s.warmUp(), Claim: s.claim(),
		Legend: []string{
			LegendCeiling,
			"plain write: a write at QUORUM of the same columns, without a condition",
			"lock cycle: acquire and release by core/lock, all threads through one client, nothing done in between; the A/A copy is the same once more and shows the noise",
			"offered: an open load; cycles come at a part of the rate that the closed arm had so far, with exponential gaps, and a latency counts from when a cycle was meant to begin, waiting included",
			"lock cycle with a renewal: the same, renewed once by hand before it is released",
		},
	}
	if len(s.Spreads) > 0 {
		d.Legend = append(d.Legend, legendSpreads)
	}
	return d
}

// name is the contention's, with the variant's behind it.
func (s *Suite) name() string {
	return strings.Join(append([]string{string(s.Contention)}, strings.Split(s.Variant.Name, "/")[1:]...), "-")
}

func (s *Suite) setting() string {
	text := "contention " + s.Contention.String()
	if s.Variant.Name != "" {
		text += fmt.Sprintf(", with the slow-down %s: %s", s.Variant.Name, s.Variant.About)
	}
	return text
}

// claim is that of the greatest number of threads.
func (s *Suite) claim() *bench.Claim {
	a := lockArm(s.Config, slices.Max(s.Threads), s.TTLs[0])
	return &bench.Claim{Arm: a.ID, To: a.Ceiling, Unit: "row change", Whom: "the bare LWT", Setting: a.Setting()}
}

// warmUp is every kind of arm, each on keys of its own.
func (s *Suite) warmUp() []bench.Arm {
	threads := min(slices.Max(s.Threads), bench.WarmUpThreads)
	var out []bench.Arm
	for _, kind := range []string{"cas", "write", "lock", "renew"} {
		out = append(out, bench.Arm{ID: "warmup-" + kind, Kind: kind, Threads: threads, TTL: s.TTLs[0], Contention: string(Low)})
	}
	return out
}

// Open implements bench.Suite.
func (s *Suite) Open(ctx context.Context, env *bench.Env) error {
	s.env, s.ceiling, s.cycles = env, NewCeiling(env.Locks, s.TTLs[0]), NewCycles()
	if env.Process > 0 {
		s.cycles.audit.now = cmp.Or(env.Clock, clock.System()).Now
		return nil // it writes nothing plainly
	}
	if env.DB == nil {
		return errors.New("plain writes need a database")
	}
	if err := env.DB.Exec(ctx, plainTable); err != nil {
		return fmt.Errorf("create the table for plain writes: %w", err)
	}
	return nil
}

// Subject implements bench.Suite.
func (s *Suite) Subject(a bench.Arm, stream uint64) (bench.Subject, error) {
	switch a.Kind {
	case "cas":
		return s.ceiling.Subject(), nil
	case "write":
		return &plain{db: s.env.DB, ttl: s.TTLs[0]}, nil
	}
	c := Client{Rows: s.env.Locks, TTL: a.TTL, Rand: s.env.Rand(stream), Clock: s.env.Clock}
	if a.Kind == "renew" {
		c.renew = s.Variant.renewal()
	}
	return s.cycles.Subject(c)
}

// Finish implements bench.Suite: it looks at every row.
func (s *Suite) Finish(ctx context.Context, r *bench.Result) error {
	return Verify(ctx, r, s.env.Locks, s.cycles, s.ceiling)
}

// Verify looks at every row of cycles and ceiling, and tells r what came of it.
func Verify(ctx context.Context, r *bench.Result, rows store.Locks, cycles *Cycles, ceiling *Ceiling) error {
	lost, grants, err := cycles.Verify(ctx, rows)
	violations, bare, bareErr := ceiling.Verify(ctx)
	err = errors.Join(err, bareErr)
	r.Violations = append(r.Violations, append(lost, violations...)...)
	if len(lost)+len(violations) == 0 && err == nil {
		r.Note("checked: %s; %s", grants, bare)
	}
	return err
}

// Round implements bench.Suite: what the locks did beside the bare updates, at the
// greatest number of threads.
func (s *Suite) Round(samples []bench.Sample) string {
	threads := s.Threads[len(s.Threads)-1]
	var bare, lock []float64
	var fail, unknown int64
	spread := ""
	for _, sample := range samples {
		fail, unknown = fail+sample.Fail, unknown+sample.Unknown
		switch a, err := s.plan.Arm(sample.Arm); {
		case err != nil || a.Processes == 0 && a.Threads != threads:
		case a.Processes > 0:
			spread += fmt.Sprintf("; %s %.0f/s", a.ID, sample.Rate())
		case a.Kind == "cas":
			bare = append(bare, sample.Rate())
		case a.Kind == "lock":
			lock = append(lock, sample.Rate())
		}
	}
	text := fmt.Sprintf("with %d threads: bare LWT %.0f updates/s, lock %.0f cycles/s%s; all arms: %d failed, %d unknown", threads, stat.Median(bare), stat.Median(lock), spread, fail, unknown)
	if found := s.cycles.Found(); len(found) > 0 {
		text += "; ! " + found[0]
	}
	return text
}

// LegendCeiling says what the ceiling does.
const LegendCeiling = "bare LWT: the conditional update of a lock row without a lock client; rejected, it is tried again at once with the row that came back, and its latency is that of the whole update"

// Headlines implements bench.Suite: what the greatest number of threads makes of bare
// updates and of locks, compared round by round with one another and with the least
// number of threads.
func (s *Suite) Headlines(r *bench.Result) []string {
	few, many := slices.Min(s.Threads), slices.Max(s.Threads)
	var out []string
	for _, a := range s.plan.Arms {
		if a.Processes > 0 {
			out = append(out, r.Headline(a, fmt.Sprintf(", %d threads together", a.Threads)))
			continue
		}
		if a.Threads != many || a.Kind == "write" || a.Kind == "renew" || a.Control != "" || a.Open.Part > 0 || a.Kind == "lock" && a.TTL != s.TTLs[0] {
			continue
		}
		text := r.Headline(a, fmt.Sprintf(" with %d %s", many, bench.Plural(many, "thread", "threads")))
		if one := strings.Replace(a.ID, fmt.Sprintf("/%d", many), fmt.Sprintf("/%d", few), 1); one != a.ID {
			text += fmt.Sprintf(", %s times its own rate with %d %s", bench.Factor(r.Ratio(a.ID, one, bench.Sample.Rate)), few, bench.Plural(few, "thread", "threads"))
		}
		out = append(out, text)
	}
	return out
}

// Contention is how many keys the threads share.
type Contention string

// The levels of contention.
const (
	Low    Contention = "low"    // a key a thread
	Medium Contention = "medium" // mediumKeys keys for all threads, drawn evenly
	High   Contention = "high"   // one key for all threads
)

const mediumKeys = 10

// Contentions lists the levels.
func Contentions() []Contention { return []Contention{Low, Medium, High} }

// ParseContentions reads levels with commas between.
func ParseContentions(s string) ([]Contention, error) {
	var out []Contention
	for word := range strings.SplitSeq(s, ",") {
		c := Contention(strings.TrimSpace(word))
		if !slices.Contains(Contentions(), c) {
			return nil, fmt.Errorf("unknown contention %q; there are low (a key a thread), medium (%d keys), high (one key)", word, mediumKeys)
		}
		if slices.Contains(out, c) {
			return nil, fmt.Errorf("contention %q is named twice", c)
		}
		out = append(out, c)
	}
	return out, nil
}

// Keys is the number of keys that the threads share.
func (c Contention) Keys(threads int) int {
	switch c {
	case Medium:
		return mediumKeys
	case High:
		return 1
	}
	return threads
}

// String describes the level with its number of keys.
func (c Contention) String() string {
	switch c {
	case Low:
		return "low (a key a thread)"
	case Medium:
		return fmt.Sprintf("medium (%d keys)", mediumKeys)
	case High:
		return "high (1 key)"
	}
	return string(c)
}

// keys are those of a window.
type keys struct {
	contention Contention
	names      []string
}

// keysOf are other ones in every round: which node leads a key's partition is drawn
// again, so that a slow node shows as spread, not as a difference of arms.
func keysOf(w bench.Window) keys {
	k := keys{contention: Contention(w.Arm.Contention)}
	first := 0
	if k.contention == Low {
		first = w.First // no other process uses them
	}
	for i := range k.contention.Keys(w.Arm.Threads) {
		k.names = append(k.names, fmt.Sprintf("%s#%d/%d", w.Arm.ID, w.Round, first+i))
	}
	return k
}

// of is the key of a thread's next operation.
func (k keys) of(th *bench.Thread) string {
	switch k.contention {
	case Low:
		return k.names[th.Number]
	case Medium:
		return k.names[th.Rng.IntN(len(k.names))]
	}
	return k.names[0]
}

// operator does one operation on a key.
type operator interface {
	operate(ctx context.Context, th *bench.Thread, key string, over func() bool) bench.End
	Traffic() bench.Traffic
}

// keyed is an operator on the keys of a window.
type keyed struct {
	operator
	keys keys
}

// Operate implements bench.Operator.
func (o keyed) Operate(ctx context.Context, th *bench.Thread, over func() bool) bench.End {
	return o.operate(ctx, th, o.keys.of(th), over)
}

// measure runs a window when every key has been used once: rows are there, caches are
// filled.
func measure(ctx context.Context, w bench.Window, op operator) (bench.Sample, error) {
	k := keyed{op, keysOf(w)}
	prime(ctx, w, k)
	if w.Arm.Open.Part > 0 {
		return w.Open(ctx, k)
	}
	return w.Loop(ctx, k)
}

// prime uses every key once. An operation that fails here does no harm: the
// window's own will count.
func prime(ctx context.Context, w bench.Window, k keyed) {
	ctx, cancel := context.WithTimeout(ctx, bench.DrainTimeout)
	defer cancel()
	never := func() bool { return ctx.Err() != nil }
	var wg sync.WaitGroup
	for i := range w.Arm.Threads {
		th := w.Thread(i)
		wg.Go(func() {
			for n := i; n < len(k.keys.names) && ctx.Err() == nil; n += w.Arm.Threads {
				k.operate(ctx, th, k.keys.names[n], never)
			}
		})
	}
	wg.Wait()
}
