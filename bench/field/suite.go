package field

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/bench"
	"fencepost/bench/locks"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/target/system"
	"fencepost/internal/choice"
)

// The names of what is measured beside the systems on other stores.
const (
	none = "none"
	core = system.Core
)

const (
	// clients is how many want the one lock.
	clients = 8
	// warmers is how many clients of each system there are in the warm-up, where all systems work at once.
	warmers = 2
	// ttl is the time of leases: longer than any cycle.
	ttl = 30 * time.Second
)

// Config is what to measure.
type Config struct {
	bench.Config
	// Systems are names from Systems; default: all.
	Systems []string
	// BinDir is where the programs are. Network is where servers are started; First is the
	// number of the first there that is free.
	BinDir  string
	Network *sandbox.Network
	First   int
}

// Systems are what can be measured: every lock of the field but the twins that differ in
// the sink only, which is not part of a cycle.
func Systems() []string {
	out := []string{core, none}
	for _, s := range system.Stored() {
		if s.Binary == system.Locks && !strings.HasSuffix(s.Name, system.Fenced) {
			out = append(out, s.Name)
		}
	}
	return out
}

// Suite measures locks on all stores.
type Suite struct {
	Config
	plan   *bench.Plan
	places map[string]*servers.Cluster // by store
	arms   map[string]*arm             // of programs, by system; that of the A/A copies by copyOf
	cycles *locks.Cycles
	env    *bench.Env
	nodes  []int // the processes of the core's
	cold   bool  // in tests: there is no warm-up
}

var _ bench.Suite = (*Suite)(nil)

// New lays out the arms: all that are alone are a group, and all with many clients.
func New(c Config) (*Suite, error) {
	if len(c.Systems) == 0 {
		c.Systems = Systems()
	}
	var alone, many []bench.Arm
	for i, name := range c.Systems {
		if !slices.Contains(Systems(), name) {
			return nil, choice.Unknown("lock of the field", name, Systems()...)
		}
		if slices.Contains(c.Systems[:i], name) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		alone, many = append(alone, armOf(name, 1)), append(many, armOf(name, clients))
	}
	for _, group := range []*[]bench.Arm{&alone, &many} {
		control := (*group)[0]
		control.Control, control.ID, control.Letter = control.ID, copyOf(control.ID), control.Letter+" again"
		*group = append(*group, control)
	}
	plan, err := bench.NewPlan(c.Config, [][]bench.Arm{alone, many})
	if err != nil {
		return nil, err
	}
	c.Config = plan.Config
	return &Suite{Config: c, plan: plan, places: map[string]*servers.Cluster{}, arms: map[string]*arm{}, cycles: locks.NewCycles()}, nil
}

// copyOf names the A/A copy of an arm, or of what runs it.
func copyOf(name string) string { return "2/" + name }

// parts are those of a cycle of a program.
var parts = []string{"until it is taken", "until it is given back"}

func armOf(name string, threads int) bench.Arm {
	a := bench.Arm{ID: fmt.Sprintf("%s/%d", name, threads), Kind: name, Letter: name, Name: name, Threads: threads, TTL: ttl, Contention: string(locks.Low), Changes: 2}
	if threads > 1 {
		a.Contention = string(locks.High)
	}
	if name != core {
		a.Parts = parts
	}
	return a
}

// Design implements bench.Suite.
func (s *Suite) Design() bench.Design {
	d := bench.Design{
		Name: "field", Setting: "the locks of the field, each on its store", Plan: s.plan, Estimate: s.plan.Estimate(200 * time.Millisecond),
		Legend: []string{
			"lock cycle: take a lock and give it back, nothing done in between; with 1 client nobody else wants it, with 8 all want the same one",
			"who does not get a lock tries again after 20 ms, then later and later up to 250 ms, as in runs; each lock is driven as in runs too: an acquire of etcd-mutex has two requests more than its users', which make its holder known",
			"none: a lock in the program's memory, which is what the harness itself takes: it is part of all others but core",
			"core: the lock client of core/lock in this process, which waits and tries again in its own way",
			"costs are of the clients' processes and of the servers of the one store; those of all other stores stand by",
		},
	}
	for _, name := range s.Systems {
		if s.cold {
			break
		}
		a := armOf(name, warmers)
		a.ID = "warmup-" + name
		d.WarmUp = append(d.WarmUp, a)
	}
	return d
}

// Open implements bench.Suite: it starts all servers and programs.
func (s *Suite) Open(ctx context.Context, env *bench.Env) (err error) {
	s.env, s.nodes = env, slices.Clone(env.PIDs)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
		}
	}()
	if err := s.startStores(ctx); err != nil {
		return err
	}
	if slices.Contains(s.Systems, core) && env.Locks == nil {
		return errors.New("the core's lock needs a Cassandra cluster")
	}
	for i, name := range s.Systems {
		if err := s.start(ctx, name, name); err != nil {
			return err
		}
		if i == 0 {
			if err := s.start(ctx, copyOf(name), name); err != nil {
				return err
			}
		}
	}
	for _, c := range s.places {
		for _, n := range c.Nodes() {
			env.PIDs = append(env.PIDs, n.PID())
		}
	}
	return nil
}

// startStores starts the servers of all stores, at once.
func (s *Suite) startStores(ctx context.Context) error {
	var kinds []servers.Kind
	for _, name := range s.Systems {
		store := storeOf(name)
		if store == "" || slices.ContainsFunc(kinds, func(k servers.Kind) bool { return k.Name == store }) {
			continue
		}
		k, err := servers.Of(store)
		if err != nil {
			return err
		}
		kinds = append(kinds, k)
	}
	started := make([]*servers.Cluster, len(kinds))
	var all errgroup.Group
	first := s.First
	for i, k := range kinds {
		at := servers.Config{First: first, LogDir: filepath.Join(s.env.Dir, "servers", k.Name)}
		first += k.Servers
		all.Go(func() (err error) {
			started[i], err = servers.Start(ctx, s.Network, k, at)
			return err
		})
	}
	err := all.Wait()
	for i, c := range started {
		if c != nil {
			s.places[kinds[i].Name] = c
		}
	}
	return err
}

// storeOf is the store that a lock is on, "" for the core and for none.
func storeOf(name string) string {
	sys, err := system.Find(name)
	if err != nil {
		return "" // none is no system
	}
	return sys.Store
}

// start starts what runs arms of a system, under a name. The core runs here.
func (s *Suite) start(ctx context.Context, as, name string) error {
	if name == core {
		return nil
	}
	a := &arm{name: name, store: s.places[storeOf(name)]}
	run := "bench_" + strings.NewReplacer("-", "_", "/", "_").Replace(as)
	var err error
	if a.program, err = startProgram(ctx, name, run, s.BinDir, filepath.Join(s.env.Dir, "processes"), a.store); err != nil {
		return fmt.Errorf("%s: %w", as, err)
	}
	s.arms[as] = a
	return nil
}

// Subject implements bench.Suite.
func (s *Suite) Subject(a bench.Arm, stream uint64) (bench.Subject, error) {
	switch {
	case a.Kind != core && a.Control != "":
		return s.arms[copyOf(a.Kind)], nil
	case a.Kind != core:
		return s.arms[a.Kind], nil
	}
	client, err := s.cycles.Subject(locks.Client{Rows: s.env.Locks, TTL: ttl, Rand: s.env.Rand(stream), Clock: s.env.Clock})
	return coreArm{client, s.nodes}, err
}

// coreArm has the core take and give back locks, on nodes with these processes.
type coreArm struct {
	bench.Subject
	nodes []int
}

// Window implements bench.Subject.
func (a coreArm) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	w.PIDs = a.nodes
	return a.Subject.Window(ctx, w)
}

// stop ends programs and servers.
func (s *Suite) stop(ctx context.Context) error {
	var errs []error
	for _, a := range s.arms {
		errs = append(errs, a.program.end(ctx))
	}
	for _, c := range s.places {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(errs...)
}

// Finish implements bench.Suite: it tells what was wrong, and ends everything.
func (s *Suite) Finish(ctx context.Context, r *bench.Result) error {
	var grants int64
	for _, a := range s.arms {
		grants += a.grants.Load()
		r.Violations = append(r.Violations, a.wrong()...)
	}
	if len(r.Violations) == 0 {
		r.Note("checked: of %d grants by programs no two of one lock at once", grants)
	}
	var err error
	if slices.Contains(s.Systems, core) {
		var lost []string
		var note string
		lost, note, err = s.cycles.Verify(ctx, s.env.Locks)
		r.Violations = append(r.Violations, lost...)
		if len(lost) == 0 && err == nil {
			r.Note("checked: %s: %s", core, note)
		}
	}
	for _, c := range s.places {
		r.Note("%s %s, servers: %d", c.Kind.Name, c.Info()[c.Kind.Name], c.Kind.Servers)
	}
	return errors.Join(err, s.stop(ctx))
}

// Round implements bench.Suite.
func (s *Suite) Round(samples []bench.Sample) string { return s.plan.Rates(samples, "/s") }

// Headlines implements bench.Suite.
func (s *Suite) Headlines(r *bench.Result) (out []string) {
	for _, a := range s.plan.Arms {
		if a.Control == "" {
			out = append(out, r.Headline(a, fmt.Sprintf(", %d %s", a.Threads, bench.Plural(a.Threads, "client", "clients"))))
		}
	}
	return out
}
