package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/link/bytetap"
	"fencepost/harness/env/link/cqltap"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
)

// faultEnv is what the run's faults act on and are seen by; the fleet comes later.
func (r *runner) faultEnv(links *link.Fabric) *fault.Env {
	e := &fault.Env{
		Cluster: r.opt.Cluster, WorkerLinks: links, TLS: r.base.TLSFor, Inert: fault.Family(r.opt.System.Inert),
		Read:     r.readThrough,
		NoQuorum: func(err error) bool { return cassandra.Refused(err) == cassandra.NoQuorum },
	}
	if r.servers != nil {
		e.Hello, e.SpeaksFirst = r.servers.Hello, r.servers.Kind.SpeaksFirst
		e.Read, e.ReadAs, e.NoQuorum, e.Store = r.servers.Read, r.servers.Kind.ReadAs, r.servers.NoQuorum, r.servers
	}
	if r.cql != nil && r.nodeTap != nil {
		e.Spoken = func(l *link.Link) (requests, answers int64, known bool) {
			c := r.cql.Counts(l)
			return c.Asked(), c.Answered(), r.cql.Counted(l)
		}
	}
	rows := r.target.proofs()
	e.Stamps, e.Stay, e.Queues = rows.stamps, rows.stay, rows.queues
	return e.Ready()
}

// probes are sessions pinned to one node each, opened when first needed.
type probes struct {
	base cassandra.Config
	mu   sync.Mutex
	open map[string]*cassandra.DB
}

// probeRow is a lock row that nobody writes: a read of one that clients compete for
// may be out of luck against them.
const probeRow = "probe"

// readThrough makes a SERIAL read with the named node as coordinator, whatever data centre it
// is in: one by a quorum of all replicas, of a row in which nobody agrees otherwise.
func (r *runner) readThrough(ctx context.Context, node string) error {
	n, ok := r.opt.Cluster.Node(node)
	if !ok {
		return fmt.Errorf("no node %s", node)
	}
	db, err := r.probes.session(ctx, n.IP())
	if err != nil {
		return err
	}
	_, err = db.Query(ctx, true, "SELECT fence FROM "+r.base.Keyspace+".locks WHERE resource = ?", probeRow)
	return err
}

func (p *probes) session(ctx context.Context, ip string) (*cassandra.DB, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if db := p.open[ip]; db != nil {
		return db, nil
	}
	cfg := p.base
	cfg.ContactPoints, cfg.Pin = []string{ip}, ip
	cfg.Keyspace, cfg.LocalDC, cfg.Serial, cfg.Consistency = "", "", cassandra.Serial, cassandra.Quorum
	db, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if p.open == nil {
		p.open = map[string]*cassandra.DB{}
	}
	p.open[ip] = db
	return db, nil
}

func (p *probes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, db := range p.open {
		db.Close()
	}
	p.open = nil
}

// A process that ends otherwise than its plan says does not end the run: that is for the
// checker to judge (P18), from what the harness records of every life.

// ended records how a process ended that is not a worker's.
func (r *runner) ended(l *history.ProcessLife) {
	r.note(history.Event{Op: history.NoteLife, Details: &history.Details{Life: l}})
	wrong := l.Unplanned()
	if wrong == "" {
		return
	}
	if l.Kind == history.LifeNode || l.Kind == history.LifeServer {
		r.nodeFell.Store(true)
	}
	r.progress.problem("%s %s%s", l.Name, wrong, strings.Join(append([]string{""}, l.Log...), "\n    "))
}

// watchNodes records how nodes end from now on.
func (r *runner) watchNodes() { r.unwatchNodes = cluster.Watch(r.opt.Cluster, r.ended) }

// noteNodes records the nodes that are still there: that they have not ended is part of
// what is judged.
func (r *runner) noteNodes() {
	kind := history.LifeNode
	if r.servers != nil {
		kind = history.LifeServer
	}
	for _, n := range r.opt.Cluster.Nodes() {
		if n.State() == cluster.Running && n.LogFile() != "" { // else it is not the harness's
			r.ended(&history.ProcessLife{Kind: kind, Name: n.Name(), PID: n.PID(), Running: true})
		}
	}
}

// started looks at how the start of the workers went. If one of them ended, that is to be
// judged, and there is nothing to run.
func (r *runner) started(err error) error {
	var ended *fleet.EndedError
	if !errors.As(err, &ended) {
		return r.ofProgram(own.MistakeReady, err)
	}
	r.fallen = true
	r.progress.problem("not all workers could be started: ending in order, then checking what there is")
	return nil
}

// wakeSink starts a sink that has ended by itself once more, for what it stored to be read.
func (r *runner) wakeSink(ctx context.Context) {
	s := r.sink.service
	if s == nil || s.PID() != 0 {
		return
	}
	r.progress.step("starting the sink again, to read what it stored")
	if err := s.Start(ctx); err != nil {
		r.progress.problem("%v", err)
	}
}

// witness records what the harness itself reads on the links from here on, or why it cannot
// read that, or some of it. What a program says of itself is compared with it.
func (r *runner) witness(of string, unread error) {
	e := history.Event{Op: history.NoteWitness, Key: of}
	if unread != nil {
		e.Error = unread.Error()
	}
	r.note(e)
}

// asksForSends says whether a fault of the plan comes right before a request.
func (r *runner) asksForSends() bool {
	return slices.ContainsFunc(r.plan.Steps, func(st plan.Step) bool {
		return slices.ContainsFunc(st.Points(), func(p control.Point) bool { _, before := sentPoints[p]; return before })
	})
}

// writes are what was sent to nodes.
type writes interface {
	// FirstWrite is when a worker first sent one of the forms of each value; 0: never.
	FirstWrite(from string, since int64, values ...[][]byte) int64
}

// errSealed: what a link carries cannot be read.
var errSealed = errors.New("the links to nodes carry TLS")

// readStatements makes the tap on all links to nodes. A shape is recorded before the node
// is asked.
func (r *runner) readStatements() {
	if r.servers != nil {
		if !r.asksForSends() && r.opt.Trial == nil {
			return
		}
		tap := bytetap.New(func(l *link.Link, reason error) {
			r.witness(history.WitnessStatements, fmt.Errorf("%s: %w", l.Name(), reason))
		})
		r.nodeTap, r.written = tap, tap
		return
	}
	o := cqltap.Notes(r.note)
	o.Writes = r.opt.System.Design() == system.Exec // see noteHits
	o.Place = func(l *link.Link) string { return cluster.DatacenterOf(r.opt.Cluster, l.To()) }
	o.Unread = func(l *link.Link, reason error) {
		r.witness(history.WitnessStatements, fmt.Errorf("%s: %w", l.Name(), reason))
	}
	r.cql = cqltap.New(o)
	r.written = r.cql
	if r.base.TLS != nil {
		r.witness(history.WitnessStatements, errSealed)
		return
	}
	r.witness(history.WitnessStatements, nil)
	r.nodeTap = r.cql
}

// sinkTap makes the tap on all links to a sink that is a service; nil: it cannot be read. An
// answer is recorded before its worker has it.
func (r *runner) sinkTap() link.Tap {
	if r.sink.kind.Answer == nil {
		return nil
	}
	r.witness(history.WitnessAnswers, nil)
	return httptap.New(httptap.Options{
		Exchange: func(l *link.Link, x httptap.Exchange) {
			if r.sink.proxy != nil {
				r.sink.proxy.Near(x)
			}
			if e, ok := r.sink.kind.Answer(l.From(), x); ok {
				r.rec.Record(e)
			}
		},
		Unread: func(l *link.Link, reason error) {
			r.witness(history.WitnessAnswers, fmt.Errorf("%s: %w", l.Name(), reason))
		},
	})
}
