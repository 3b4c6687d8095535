package run

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/gateway"
	"fencepost/harness/env/host"
	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/own"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

// setUp makes the keyspace, the links and the worker processes.
func (r *runner) setUp(ctx context.Context) error {
	s := r.plan.Spec
	r.watchNodes()
	r.progress.step("setting up: keyspace, links, %d workers", s.Workload.Workers)

	var nodes []fleet.Node
	for _, n := range r.opt.Cluster.Nodes() {
		nodes = append(nodes, fleet.Node{Name: n.Name(), IP: n.IP(), Addr: cluster.AddrOf(r.opt.Cluster, n)})
	}
	if err := r.openKeyspace(ctx); err != nil {
		return err
	}
	links := link.NewFabric(link.Options{})
	r.readStatements()
	r.probes.base = r.base
	r.env = r.faultEnv(links)
	if err := r.startSink(ctx); err != nil {
		return err
	}
	cfg := r.fleetConfig(nodes, links)
	if err := r.target.prepare(ctx, &cfg); err != nil {
		return err
	}
	x := plan.Demanded(r.plan.Expectation(), r.opt.System)
	x.Nodes, x.Agreement, x.Tables = len(nodes), r.agreement(), r.tables()
	if err := r.record(ctx, cfg.Worker.Promises, x); err != nil {
		return err
	}
	cfg.Recorder = r.rec
	f, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	r.env.Fleet = f
	began := time.Now()
	err = f.Start(ctx)
	if broken := broken(ctx); broken != nil {
		return broken
	}
	if t := r.opt.Trial; t != nil && err == nil {
		t.Ready = time.Since(began)
	}
	return r.started(err)
}

var notIdent = regexp.MustCompile(`[^a-z0-9]+`)

// keyspaceOf is the keyspace of a run.
func keyspaceOf(run string) string {
	const longest = 48 // that Cassandra takes
	keyspace := "fp_" + notIdent.ReplaceAllString(strings.ToLower(run), "_")
	if len(keyspace) <= longest {
		return keyspace
	}
	end := fmt.Sprintf("_%08x", crc32.ChecksumIEEE([]byte(keyspace))) // what is cut off may be all that differs
	return keyspace[:longest-len(end)] + end
}

// openKeyspace makes the run's keyspace and opens the harness's own session.
func (r *runner) openKeyspace(ctx context.Context) error {
	access := cluster.AccessTo(r.opt.Cluster)
	r.base = access.Config
	r.base.Keyspace = keyspaceOf(r.info.Run)
	r.base.AnyRelease = true // what it does is judged
	if r.servers != nil {
		return nil // they have none, and the name is what all keys of the run begin with
	}
	create := cassandra.Migrate
	if access.Shared {
		create = cassandra.Create
	}
	err := create(ctx, r.base, access.Replication)
	r.made = cassandra.Refused(err) != cassandra.Exists
	if err != nil {
		return fmt.Errorf("create keyspace %s: %w", r.base.Keyspace, err)
	}
	db, err := cassandra.Open(ctx, r.base)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	r.db = db
	return nil
}

// previousBinary is the worker of the version before (make previous).
const previousBinary = "worker-previous"

// binaries are the executables of workers.
func (r *runner) binaries() []string {
	all := []string{filepath.Join(r.opt.BinDir, r.opt.System.Binary)}
	if r.plan.Spec.Workload.MixedVersions {
		all = append(all, filepath.Join(r.opt.BinDir, previousBinary))
	}
	return all
}

// notePrevious writes down which version is the one before.
func (r *runner) notePrevious() error {
	if !r.plan.Spec.Workload.MixedVersions {
		return nil
	}
	commit, err := os.ReadFile(filepath.Join(r.opt.BinDir, previousBinary+".commit"))
	if err != nil {
		return fmt.Errorf("%s needs the previous version: run make previous: %w", r.plan.Spec.Name, err)
	}
	r.opt.Versions = maps.Clone(r.opt.Versions)
	if r.opt.Versions == nil {
		r.opt.Versions = map[string]string{}
	}
	r.opt.Versions["previous"] = strings.TrimSpace(string(commit))
	return nil
}

func (r *runner) fleetConfig(nodes []fleet.Node, links *link.Fabric) fleet.Config {
	s := r.plan.Spec
	return fleet.Config{
		Binaries: r.binaries(), Workers: s.Workload.Workers - r.opt.System.MissingWorkers, Nodes: nodes, Links: links,
		NodeTap: r.nodeTap, SinkTap: r.sinkTap(), Login: cluster.AccessTo(r.opt.Cluster).Login, Sink: r.sink.toWorkers(),
		HistoryDir: filepath.Join(r.dir, rundir.HistoryDir), LogDir: filepath.Join(r.dir, rundir.LogDir),
		Unexpected: func(life string, err error) { r.progress.problem("%s %v", life, err) },
		Broken: func(life string, err error) {
			r.abort(&brokenError{r.ofProgram(own.MistakeHistory, fmt.Errorf("%s: %w", life, err))})
		},
		Worker: workload.Config{
			Run: r.info.Run, Variant: r.opt.System.Variant, Scheduler: r.opt.System.Scheduler, Promises: r.opt.System.Promises,
			Seed: r.plan.Seed, Clients: s.Workload.Clients, Locks: r.plan.Locks, Own: s.Workload.Own(),
			Lock: lockLoad(s.Workload), TTL: s.Workload.TTL.D(), Hold: s.Workload.Hold.D(), Think: s.Workload.Think.D(), AcquireTimeout: 5 * s.Workload.TTL.D(),
			Sink: r.sink.kind.Name, SinkSecret: r.sink.at.Secret,
			DriftBound: driftBound, MarginBase: marginBase, Keyspace: r.base.Keyspace, Store: r.plan.Spec.Cluster.Store, CQLPort: r.opt.Cluster.CQLPort(),
		},
	}
}

// agreement is in which of several data centres the workers are to agree; nil: there is one.
func (r *runner) agreement() *history.Agreement {
	l := cluster.LayoutOf(r.opt.Cluster)
	if len(l) < 2 {
		return nil
	}
	a := &history.Agreement{Datacenter: r.base.LocalDC, Serial: r.base.Serial, Consistency: r.base.Consistency}
	for _, n := range r.opt.Cluster.Nodes() {
		if cluster.DatacenterOf(r.opt.Cluster, n.Name()) == a.Datacenter {
			a.Nodes = append(a.Nodes, n.Name())
		}
	}
	return a
}

// tables says whose tables the workers' statements are about; nil: those of a program that only
// its author knows.
func (r *runner) tables() *history.Tables {
	of := map[string]string{system.Core: history.TablesCore, system.LockPerJob: history.TablesLockPerJob}[r.opt.System.Design()]
	if of == "" {
		return nil
	}
	return &history.Tables{Of: of, Sink: r.sink.kind.Name == sinks.Cassandra}
}

// record begins the harness's own file with what the run must reach. It has the
// system's promises, as its workers' files have: a header without promises would promise all.
func (r *runner) record(ctx context.Context, promises []string, x history.Expect) error {
	rec, err := history.NewRecorder(filepath.Join(r.dir, rundir.HistoryDir, "harness.jsonl"), history.Header{
		Run: r.info.Run, Proc: history.Harness, System: r.opt.System.Name, DriftBound: driftBound, MarginBaseMS: marginBase.Milliseconds(),
		Promises: promises,
	})
	if err != nil {
		return err
	}
	r.keep(ctx, rec)
	r.note(history.Event{Op: history.NoteExpect, Details: &history.Details{Expect: &x}})
	return nil
}

// keep makes rec the run's record, with what was noted before there was one. A run that
// cannot be recorded ends at once.
func (r *runner) keep(ctx context.Context, rec *history.Recorder) {
	r.earlyMu.Lock()
	r.rec, r.seals.Rec, r.seals.Problem = rec, rec, r.progress.problem
	for _, e := range r.early {
		rec.Record(e)
	}
	r.earlyMu.Unlock()
	r.unwatchWall = host.WatchWall(func(ms int64) {
		r.note(history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: ms}}})
	})
	go func() {
		select {
		case <-rec.Failed():
			r.abort(&brokenError{fmt.Errorf("the run cannot be recorded any more: %w", rec.Err())})
		case <-ctx.Done():
		}
	}()
}

// note records a note of the harness, also before there is a record: it begins when the
// system has said what it promises, and until then processes may end and links carry
// something. That is dated by the beginning of the record.
func (r *runner) note(e history.Event) {
	e.Proc, e.Type = history.Harness, history.Note
	r.earlyMu.Lock()
	defer r.earlyMu.Unlock()
	if r.rec == nil {
		r.early = append(r.early, e)
		return
	}
	r.rec.Record(e)
}

// sinkLog is what a sink that is a service prints, in the run's logs.
const sinkLog = "sink.log"

// runSink is the sink of a run: its service, if it is one, and the runner's own
// connection, past all links.
type runSink struct {
	kind    sinks.Kind
	service *osproc.Service // nil: on the nodes
	at      sinks.Place
	client  sinks.Client
	proxy   *gateway.Gateway // before the service; nil: none
}

// startSink starts the sink and connects to it.
func (r *runner) startSink(ctx context.Context) error {
	kind, err := sinks.Of(r.plan.Spec.Workload.Sink, r.opt.System)
	if err != nil {
		return &scenario.InputError{Msg: err.Error()}
	}
	r.sink.kind = kind
	r.sink.at = sinks.Place{Nodes: func(ctx context.Context) (*cassandra.DB, error) { return cassandra.Open(ctx, r.base) }}
	if kind.Start != nil {
		r.progress.step("starting the sink: %s", kind.Name)
		r.sink.service, err = kind.Start(ctx, sinks.Options{
			BinDir: r.opt.BinDir, Log: filepath.Join(r.dir, rundir.LogDir, sinkLog),
			Broken:   r.opt.System.BrokenSink,
			Unfenced: r.opt.System.Variant != "" || r.opt.System.Design() == system.Exec,
			Ended:    r.ended,
		})
		if err != nil {
			return fmt.Errorf("start sink %s: %w", kind.Name, err)
		}
		r.env.Sink, r.env.SinkGreeting = r.sink.service, kind.Greeting
		r.sink.at.Addr, r.sink.at.Secret = r.sink.service.Addr(), r.sink.service.Secret
	}
	if r.needsProxy() {
		if r.env.Proxy, err = gateway.Start(r.sink.at.Addr); err != nil {
			return err
		}
		r.sink.proxy = r.env.Proxy
	}
	if kind.Rival != nil {
		r.env.Rival = func(ctx context.Context) (sinks.Rival, error) { return kind.Rival(ctx, r.sink.at) }
	}
	if kind.Admin != nil {
		r.env.Admin = func(ctx context.Context) (sinks.Admin, error) { return kind.Admin(ctx, r.sink.service) }
	}
	if r.sink.client, err = kind.Open(ctx, r.sink.at); err != nil {
		return fmt.Errorf("connect to the sink %s: %w", kind.Name, err)
	}
	return nil
}

// needsProxy says whether a fault of the plan acts on a proxy before the sink.
func (r *runner) needsProxy() bool {
	return slices.ContainsFunc(r.plan.Spec.Faults, func(s scenario.Step) bool { return fault.Of(s.Fault).Needs.Proxy })
}

// toWorkers is the address of the service that workers' links lead to.
func (s *runSink) toWorkers() string {
	if s.proxy != nil {
		return s.proxy.Addr()
	}
	return s.at.Addr
}

// resources are those of a service that were ever called.
func (s *runSink) resources(ctx context.Context) ([]string, error) {
	l, ok := s.client.(interface {
		Resources(ctx context.Context) ([]string, error)
	})
	if !ok {
		return nil, fmt.Errorf("the sink %s does not list its resources", s.kind.Name)
	}
	return l.Resources(ctx)
}

// close leaves nothing behind.
func (s *runSink) close() error {
	if s.client != nil {
		s.client.Close()
	}
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.service != nil {
		return s.service.Close()
	}
	return nil
}
