package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/harness/env/link"
	"fencepost/harness/env/login"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
	"fencepost/harness/target/workload"
)

// SinkPurpose names a worker's links to the nodes as the sink's, not the lock
// store's, BeatPurpose as those of its heartbeats; PeerPurpose the one link by which
// all other workers reach it.
const (
	SinkPurpose = "sink"
	BeatPurpose = "heartbeat"
	PeerPurpose = "peer"
)

// Peers is where the links between workers begin.
const Peers = "peers"

// SinkHost is where a worker's link to a sink leads that is a service, and not on the nodes.
const SinkHost = "sink"

// Node is where a worker's links lead.
type Node struct {
	Name string // "n1"
	IP   string
	Addr string // host:port where it is reached
}

// listenIP is where the links listen.
const listenIP = "127.0.0.1"

// Config describes a fleet.
type Config struct {
	// Binaries are the executables of workers. If there are several the first life of each
	// worker has the next one, and so has each life after another.
	Binaries []string
	// Worker is the configuration of every worker; Worker, Life, History and
	// the links are filled in.
	Worker  workload.Config
	Workers int
	Nodes   []Node
	Links   *link.Fabric
	// NodeTap reads the links to nodes, SinkTap those to a sink that is a service; nil: nobody does.
	NodeTap, SinkTap link.Tap
	HistoryDir       string
	LogDir           string
	// Login is what every worker is given to show to the cluster; nil: nothing.
	Login *login.Login
	// Sink is where a sink that is a service listens, "ip:port"; "" for one on the nodes.
	Sink     string
	Recorder *history.Recorder // for the notes of how lives end
	// Unexpected is called when a life ended otherwise than its plan says; nil: nobody is
	// told but the history.
	Unexpected func(life string, err error)
	// Broken is called when what a life records cannot be relied upon, or cannot be
	// written: the run is worth nothing from then on.
	Broken func(life string, err error)
	// Own is a user's program that is run instead of Binary; nil: none.
	Own *Own
	// ReadyTimeout bounds a worker's start. Default DefaultReadyTimeout.
	ReadyTimeout time.Duration
}

// Own is a user's program as the worker of a fleet.
type Own struct {
	Name    string // of the system
	Program own.Program
	Control *own.Control
	Offer   own.Offer
	Secret  string // see own.Places
}

// Hit is a client standing at an armed point.
type Hit struct {
	Worker string
	Point  control.Point
	Proc   string
	Key    string
	At     int64 // history.Now when the runner heard of it
	// Go lets the client continue, if its process is still there; hold > 0 keeps it in its
	// critical section so long.
	Go func(hold time.Duration) error
	// Late says whether the client went on by itself, as it was not told to in time.
	Late func() bool
	// Went is when Go was called, as At; 0: it was not. See Fleet.Hits.
	Went int64
}

// Fleet is the workers of one run.
type Fleet struct {
	cfg     Config
	workers []*Worker
	mu      sync.Mutex
	nextID  int
	hits    map[int]*arming
	late    map[int]bool // ids of points at which a client was not told to go on in time
	stood   []*Hit       // all hits, in order
}

type arming struct {
	ch    chan Hit
	hit   bool
	lives []*life // the processes that are told; fixed before the first is
}

// New makes the links of every worker; Start starts the processes.
func New(cfg Config) (*Fleet, error) {
	if cfg.ReadyTimeout <= 0 {
		cfg.ReadyTimeout = DefaultReadyTimeout
	}
	f := &Fleet{cfg: cfg, hits: map[int]*arming{}, late: map[int]bool{}}
	for i := range cfg.Workers {
		w := &Worker{fleet: f, name: fmt.Sprintf("w%d", i+1), number: i, lock: map[string]string{}, sink: map[string]string{}, beat: map[string]string{}}
		purposes := map[string]map[string]string{"": w.lock, SinkPurpose: w.sink}
		if cfg.Sink != "" {
			delete(purposes, SinkPurpose)
			var err error
			w.service, err = cfg.link(link.Spec{From: w.name, To: SinkHost, Purpose: SinkPurpose, Upstream: cfg.Sink, Tap: cfg.SinkTap})
			if err != nil {
				return nil, err
			}
		}
		if cfg.Worker.Peers() {
			purposes[BeatPurpose] = w.beat
		}
		for _, n := range cfg.Nodes {
			for purpose, addrs := range purposes {
				addr, err := cfg.link(link.Spec{From: w.name, To: n.Name, Purpose: purpose, Upstream: n.Addr, Tap: cfg.NodeTap})
				if err != nil {
					return nil, err
				}
				addrs[n.IP] = addr
			}
		}
		if cfg.Worker.Peers() {
			if err := w.listen(cfg, i+1); err != nil {
				return nil, err
			}
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

// link makes a link of the workers' and returns its address.
func (c Config) link(s link.Spec) (string, error) {
	s.Listen, s.Seed = listenIP+":0", c.Worker.Seed
	l, err := c.Links.Add(s)
	if err != nil {
		return "", fmt.Errorf("link %s->%s: %w", s.From, s.To, err)
	}
	return l.Addr(), nil
}

// Start starts every worker and waits until all are ready.
func (f *Fleet) Start(ctx context.Context) error {
	if f.cfg.Own != nil { // what ails one ails all: the first error tells it
		g, ctx := errgroup.WithContext(ctx)
		for _, w := range f.workers {
			g.Go(func() error { return w.Start(ctx) })
		}
		return g.Wait()
	}
	return f.each(func(w *Worker) error { return w.Start(ctx) })
}

// Workers returns the workers in order.
func (f *Fleet) Workers() []*Worker { return f.workers }

// Worker returns a worker by name.
func (f *Fleet) Worker(name string) (*Worker, bool) {
	for _, w := range f.workers {
		if w.name == name {
			return w, true
		}
	}
	return nil, false
}

// Arm arms a point in the named workers (none: in all that run), for clients at one lock or
// resource ("": at any), and returns a channel that gets the one hit. Cancel takes the
// arming back.
func (f *Fleet) Arm(p control.Point, key string, workers ...string) (hits <-chan Hit, cancel func(), err error) {
	a := &arming{ch: make(chan Hit, 1)}
	for _, w := range f.workers {
		if l := w.current(); l != nil && l.running() && (len(workers) == 0 || slices.Contains(workers, w.name)) {
			a.lives = append(a.lives, l)
		}
	}
	if len(a.lives) == 0 {
		return nil, func() {}, fmt.Errorf("arm %s: no running worker of %v", p, workers)
	}
	f.mu.Lock()
	f.nextID++
	id := f.nextID
	f.hits[id] = a
	f.mu.Unlock()
	for _, l := range a.lives {
		if err := l.send(control.Message{Cmd: control.CmdArm, ID: id, Point: p, Key: key}); err != nil {
			f.disarm(id, nil)
			return nil, func() {}, fmt.Errorf("arm %s in %s: %w", p, l.name, err)
		}
	}
	return a.ch, func() { f.disarm(id, nil) }, nil
}

// disarm takes an arming back everywhere but in except.
func (f *Fleet) disarm(id int, except *life) {
	f.mu.Lock()
	a := f.hits[id]
	delete(f.hits, id)
	f.mu.Unlock()
	if a == nil {
		return
	}
	for _, l := range a.lives {
		if l != except && l.running() {
			_ = l.send(control.Message{Cmd: control.CmdDisarm, ID: id})
		}
	}
}

// onHit passes the first hit of an arming on; a second worker that got there
// before it was disarmed goes on at once.
func (f *Fleet) onHit(l *life, m control.Message) {
	goOn := func(hold time.Duration) error {
		return l.send(control.Message{Cmd: control.CmdGo, ID: m.ID, Hold: hold})
	}
	h := &Hit{Worker: l.worker.name, Point: m.Point, Proc: m.Proc, Key: m.Key, At: history.Now()}
	h.Go = func(hold time.Duration) error {
		f.mu.Lock()
		h.Went = history.Now()
		f.mu.Unlock()
		return goOn(hold)
	}
	f.mu.Lock()
	a := f.hits[m.ID]
	first := a != nil && !a.hit
	if first {
		a.hit = true
		f.stood = append(f.stood, h)
	}
	f.mu.Unlock()
	if !first {
		_ = goOn(0)
		return
	}
	h.Late = func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.late[m.ID]
	}
	a.ch <- *h
	f.disarm(m.ID, l)
}

// onLate hears that a client went on though nobody had told it to.
func (f *Fleet) onLate(m control.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late[m.ID] = true
}

// Hits are all that there were so far, in order.
func (f *Fleet) Hits() []Hit {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Hit, len(f.stood))
	for i, h := range f.stood {
		out[i] = *h
	}
	return out
}

// Stats sums the workers' totals.
func (f *Fleet) Stats() control.Stats {
	var sum control.Stats
	for _, w := range f.workers {
		sum.Add(w.Stats())
	}
	return sum
}

// Drain tells all workers to bring no new work in.
func (f *Fleet) Drain() {
	for _, w := range f.workers {
		if l := w.current(); l != nil && l.running() {
			_ = l.send(control.Message{Cmd: control.CmdDrain})
		}
	}
}

// Stop asks all workers to end in order and gives up those that have not when ctx is over:
// at all events none is left.
func (f *Fleet) Stop(ctx context.Context) error {
	return f.each(func(w *Worker) error { return w.Stop(ctx) })
}

// Kill kills all workers that run, of a run that is worth nothing.
func (f *Fleet) Kill(ctx context.Context) error {
	return f.each(func(w *Worker) error {
		if w.PID() == 0 {
			return nil
		}
		if err := w.Kill(ctx); !errors.Is(err, osproc.ErrEnded) {
			return err
		}
		return nil
	})
}

// Fallen says whether no worker is left, as each ended otherwise than planned.
func (f *Fleet) Fallen() bool {
	return !slices.ContainsFunc(f.workers, func(w *Worker) bool { return !w.Fell() })
}

func (f *Fleet) each(do func(*Worker) error) error {
	errs := make([]error, len(f.workers))
	var wg sync.WaitGroup
	for i, w := range f.workers {
		wg.Go(func() { errs[i] = do(w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *Fleet) historyFile(life string) string {
	return filepath.Join(f.cfg.HistoryDir, life+".jsonl")
}
