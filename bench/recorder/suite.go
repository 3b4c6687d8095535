package recorder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/bench"
	"fencepost/bench/locks"
	"fencepost/harness/env/link"
	"fencepost/harness/env/link/cqltap"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// Config is what to measure.
type Config struct {
	bench.Config
	Contention locks.Contention
	Threads    []int // default locks.DefaultThreads
	// withoutLinks leaves out what needs a database.
	withoutLinks bool
}

// Kinds of arms, beside the ceiling's.
const (
	kindPlain = "lock"
	kindRec   = "lock+recorder"
	kindLinks = "lock+links"
	kindBoth  = "lock+recorder+links"
)

// kind is what lies between a lock client and the nodes, in tables and in words.
type kind struct {
	id, letter, name string
	recorded, linked bool
}

var kinds = []kind{
	{kindPlain, "L", "lock cycle", false, false},
	{kindRec, "R", "lock cycle, recorded", true, false},
	{kindLinks, "P", "lock cycle through proxies", false, true},
	{kindBoth, "RP", "lock cycle, recorded, through proxies", true, true},
}

func kindOf(id string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.id == id })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Suite measures recorder and links at one level of contention.
type Suite struct {
	Config
	ttl     time.Duration
	plan    *bench.Plan
	env     *bench.Env
	ceiling *locks.Ceiling
	cycles  *locks.Cycles

	// spoil puts a mistake between clients and their files; nil: none.
	spoil func(workload.Recorder) workload.Recorder

	dir        string // of histories
	recordings []*recording
	lives      int
	fabric     *link.Fabric
	harness    *history.Recorder // of what the tap on links notes
	tap        *cqltap.Tap
	mu         sync.Mutex
	unread     []string // why some of what links carry could not be read
}

var _ bench.Suite = (*Suite)(nil)

// New lays out the arms. Those with the same number of threads are a group.
func New(c Config) (*Suite, error) {
	checked, err := locks.Config{Config: c.Config, Contention: c.Contention, Threads: c.Threads}.WithDefaults()
	if err != nil {
		return nil, err
	}
	c.Threads = checked.Threads
	s := &Suite{Config: c, ttl: checked.TTLs[0]}
	var groups [][]bench.Arm
	for _, n := range c.Threads {
		group := []bench.Arm{locks.CeilingArm(n, c.Contention)}
		for _, k := range s.kinds() {
			group = append(group, s.arm(k, n))
		}
		copied := s.arm(kinds[0], n)
		copied.Control = copied.ID
		copied.ID, copied.Letter, copied.Name = armID("L2", n), "L2", "lock cycle, A/A copy"
		groups = append(groups, append(group, copied))
	}
	if s.plan, err = bench.NewPlan(c.Config, groups); err != nil {
		return nil, err
	}
	s.Config.Config = s.plan.Config
	return s, nil
}

// kinds are those that there are arms of.
func (s *Suite) kinds() []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.linked && s.withoutLinks })
}

func armID(letter string, threads int) string { return fmt.Sprintf("%s/%d", letter, threads) }

func (s *Suite) arm(k kind, threads int) bench.Arm {
	a := bench.Arm{
		ID: armID(k.letter, threads), Kind: k.id, Letter: k.letter, Name: k.name,
		Threads: threads, TTL: s.ttl, Contention: string(s.Contention), Changes: 2, Ceiling: locks.CeilingArm(threads, s.Contention).ID,
	}
	if k.id != kindPlain {
		a.Baseline = armID(kinds[0].letter, threads)
	}
	return a
}

// Design implements bench.Suite.
func (s *Suite) Design() bench.Design {
	return bench.Design{
		Name: "recorder_" + string(s.Contention), Setting: "recorder and proxies, contention " + s.Contention.String(),
		Plan: s.plan, Estimate: s.plan.Estimate(150 * time.Millisecond), WarmUp: s.warmUp(), Targets: s.targets,
		Legend: []string{
			locks.LegendCeiling,
			"lock cycle: acquire and release by core/lock, all threads of an arm through one client with a session of its own, nothing done in between; the A/A copy is the same once more and shows the noise",
			"recorded: the same with the recorder of a run's workers, which writes each call and each request to a file before it is sent and when it has ended; the baseline is the lock cycle alone",
			"through proxies: the same with each connection to a node through a link as in a run (Toxiproxy, with a tap that reads statements); links run in this process, so their processor time is the client's, and what passes them is on the network twice",
		},
	}
}

// warmUp is every kind of arm, each on keys of its own.
func (s *Suite) warmUp() []bench.Arm {
	threads := min(slices.Max(s.Threads), bench.WarmUpThreads)
	out := []bench.Arm{locks.CeilingArm(threads, locks.Low)}
	for _, k := range s.kinds() {
		out = append(out, s.arm(k, threads))
	}
	for i := range out {
		out[i].ID, out[i].Contention = "warmup-"+out[i].Letter, string(locks.Low)
	}
	return out
}

// Open implements bench.Suite.
func (s *Suite) Open(_ context.Context, env *bench.Env) (err error) {
	s.env, s.ceiling, s.cycles = env, locks.NewCeiling(env.Locks, s.ttl), locks.NewCycles()
	s.dir = filepath.Join(env.Dir, "history")
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return fmt.Errorf("directory of histories: %w", err)
	}
	if s.withoutLinks {
		return nil
	}
	if env.Session == nil || len(env.Addrs) == 0 {
		return errors.New("links need the nodes of a database")
	}
	s.fabric = link.NewFabric(link.Options{})
	if s.harness, err = history.NewRecorder(s.harnessFile(), history.Header{Run: run, Proc: history.Harness}); err != nil {
		return err
	}
	o := cqltap.Notes(func(e history.Event) {
		e.Proc, e.Type = history.Harness, history.Note
		s.harness.Record(e)
	})
	o.Unread = func(l *link.Link, reason error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unread = append(s.unread, fmt.Sprintf("%s: %v", l.Name(), reason))
	}
	s.tap = cqltap.New(o)
	return nil
}

func (s *Suite) harnessFile() string { return filepath.Join(s.dir, history.Harness+".jsonl") }

// Finish implements bench.Suite: it looks at every row and reads every history back.
func (s *Suite) Finish(ctx context.Context, r *bench.Result) error {
	err := locks.Verify(ctx, r, s.env.Locks, s.cycles, s.ceiling)
	var all size
	wrong := len(r.Violations)
	if s.fabric != nil {
		err = errors.Join(err, s.fabric.Close(), s.harness.Close())
		if _, readErr := read(s.harnessFile(), &all); readErr != nil {
			r.Violations = append(r.Violations, fmt.Sprintf("what the links noted cannot be read: %v", readErr))
		}
		s.mu.Lock()
		for _, reason := range s.unread {
			r.Note("what a link carries was not read there, as in a run it would not be: %s", reason)
		}
		s.mu.Unlock()
	}
	for _, x := range s.recordings {
		if text := x.verify(&all); text != "" {
			r.Violations = append(r.Violations, text)
		}
	}
	if len(r.Violations) > wrong {
		r.Note("histories are kept in %s", s.dir)
		return err
	}
	r.Note("checked: %d events in %d history files, %d MB, were read back; recorded arms have as many calls and requests of each outcome there as they made, with warm-up, priming and rehearsal; the files are removed",
		all.events, all.files, (all.bytes+1<<19)>>20)
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Round implements bench.Suite: the greatest number of threads.
func (s *Suite) Round(samples []bench.Sample) string {
	threads := slices.Max(s.Threads)
	var parts []string
	var fail, unknown int64
	for _, a := range s.plan.Arms {
		for _, sample := range samples {
			if sample.Arm != a.ID {
				continue
			}
			fail, unknown = fail+sample.Fail, unknown+sample.Unknown
			if a.Threads == threads {
				parts = append(parts, fmt.Sprintf("%s %.0f/s", a.ID, sample.Rate()))
			}
		}
	}
	text := fmt.Sprintf("%s; all arms: %d failed, %d unknown", strings.Join(parts, ", "), fail, unknown)
	if found := s.cycles.Found(); len(found) > 0 {
		text += "; ! " + found[0]
	}
	return text
}

// Headlines implements bench.Suite: what lies between client and nodes, at the greatest number
// of threads.
func (s *Suite) Headlines(r *bench.Result) []string {
	threads := slices.Max(s.Threads)
	var out []string
	for _, a := range s.plan.Arms {
		if a.Threads != threads || a.Control != "" {
			continue
		}
		text := r.Headline(a, fmt.Sprintf(" with %d %s", threads, bench.Plural(threads, "thread", "threads")))
		if a.Baseline != "" {
			p50 := func(sample bench.Sample) float64 { return float64(measure.Quantile(sample.Latency, 50)) }
			text += fmt.Sprintf(", %s times the rate of the lock cycle alone, %s times its median latency",
				bench.Factor(r.Ratio(a.ID, a.Baseline, bench.Sample.Rate)), bench.Factor(r.Ratio(a.ID, a.Baseline, p50)))
		}
		out = append(out, text)
	}
	return out
}

// mostCPU is how many times as much processor time a cycle may take with the recorder, the links, or both.
const mostCPU = 1.05

// targets compare the nodes' part of the processor time. What is measured works in the clients' process, and
// the nodes do the same for a cycle with it and without, as the requests and bytes for one show.
// So if the nodes have a smaller part of it, the cycle has become dearer by so much.
func (s *Suite) targets(r *bench.Result) ([]bench.Target, error) {
	numbers, err := r.Numbers()
	if err != nil {
		return nil, err
	}
	at := func(id string) int {
		return slices.IndexFunc(s.plan.Arms, func(a bench.Arm) bool { return a.ID == id })
	}
	var out []bench.Target
	for i, a := range s.plan.Arms {
		if k, ok := kindOf(a.Kind); !ok || !k.recorded && !k.linked {
			continue
		}
		var cpu stat.Estimate
		if n := at(a.Baseline); n >= 0 {
			cpu = numbers[i].DearerThan(numbers[n])
		}
		out = append(out, bench.AtMost(fmt.Sprintf("%s, %d %s: processor time for a cycle by that of the lock cycle alone, by the nodes' parts of it",
			a.Name, a.Threads, bench.Plural(a.Threads, "thread", "threads")), cpu, mostCPU))
	}
	return out, nil
}
