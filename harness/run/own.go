package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

// ownRun is what a run of a user's own program has beside others: the
// control address that it is given, and tasks of its own at the beginning and the end.
type ownRun struct {
	locks
	program  own.Program
	settings workload.Config
	control  *own.Control
	links    *link.Fabric // of the tasks setup and seal; no fault acts on them
}

// brokenError is why a run cannot be gone on with: its user's program, or its sink, is
// broken.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// broken is what broke and ended the run, or nil.
func broken(ctx context.Context) error {
	var e *brokenError
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}

// prepare runs the program's task setup and makes what its workers need.
func (o *ownRun) prepare(ctx context.Context, cfg *fleet.Config) error {
	if cluster.AccessTo(o.opt.Cluster).Login != nil {
		return &scenario.InputError{Msg: fmt.Sprintf("the cluster asks for a login or TLS, which %s would not be given: "+
			"take a cluster without (--cluster=local)", o.opt.System.Name)}
	}
	o.program, o.settings = own.Program{Words: o.opt.System.Words(o.opt.BinDir), Dir: o.opt.Dir}, cfg.Worker
	o.links = link.NewFabric(link.Options{})
	at, err := o.linksOf(own.Setup)
	if err != nil {
		return err
	}
	offer, err := o.program.RunSetup(ctx, own.Variables(own.Setup, o.settings, at), filepath.Join(o.dir, rundir.LogDir))
	if err != nil {
		return o.ofProgram(own.MistakeSetup, err)
	}
	if t := o.opt.Trial; t != nil {
		t.Offer = &offer
		err = o.atInstants(offer)
	} else {
		err = offered(o.plan, offer, o.opt.System)
	}
	if err != nil {
		return err
	}
	if o.control, err = own.NewControl("127.0.0.1"); err != nil {
		return err
	}
	cfg.Own = &fleet.Own{Name: o.opt.System.Name, Program: o.program, Control: o.control, Offer: offer, Secret: o.secret()}
	cfg.Worker.Promises = offer.Promises
	return nil
}

// offered refuses a plan with points at which the program does not ask.
func offered(p *plan.Plan, o own.Offer, sys system.System) error {
	for _, st := range p.Steps {
		point, missing := unoffered(st, o)
		if !missing {
			continue
		}
		offers := "no points at all"
		if len(o.Points) > 0 {
			offers = fmt.Sprintf("only %s", strings.Join(pointWords(o.Points), ", "))
		}
		return &scenario.InputError{Msg: fmt.Sprintf(
			"%s: its fault %s comes when a client stands at the point %q, and the setup of %s offers %s: "+
				"let its clients ask there (docs/own-system.md), or take a scenario whose faults come at instants",
			p.Spec.Name, st.Fault, point, sys.Name, offers)}
	}
	return nil
}

func pointWords(points []control.Point) []string {
	var out []string
	for _, p := range points {
		out = append(out, string(p))
	}
	return out
}

// linksOf are the links of a task that is no worker's, on which its statements are read.
func (o *ownRun) linksOf(t own.Task) (at own.Places, err error) {
	at.Secret = o.secret()
	for _, n := range o.opt.Cluster.Nodes() {
		l, err := o.links.Add(link.Spec{
			From: string(t), To: n.Name(), Listen: "127.0.0.1:0", Upstream: cluster.AddrOf(o.opt.Cluster, n), Tap: o.nodeTap,
		})
		if err != nil {
			return at, fmt.Errorf("link %s->%s: %w", t, n.Name(), err)
		}
		at.Nodes = append(at.Nodes, l.Addr())
	}
	return at, nil
}

// secret is the file with what is shown to the store at a login, "" if nothing is.
func (o *ownRun) secret() string {
	if o.servers == nil {
		return ""
	}
	return o.servers.Secret()
}

// coordinator is the server that decides; on Cassandra that of the first lock.
func (o *ownRun) coordinator(ctx context.Context) (string, error) {
	if o.servers != nil {
		return o.servers.Leader(ctx, o.base.Keyspace)
	}
	return o.locks.coordinator(ctx)
}

// firstRecord is for how long a worker that is ready may record nothing.
const firstRecord = 20 * time.Second

func (o *ownRun) begun(ctx context.Context) error {
	if err := o.records(ctx, firstRecord); err != nil || o.opt.Trial == nil {
		return err
	}
	return o.tryPoints(ctx)
}

// records waits until every worker of a user's own program has recorded an operation, for
// limit: a program that writes nothing is found in seconds, not after all phases.
func (o *ownRun) records(ctx context.Context, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for _, w := range o.env.Fleet.Workers() {
		for w.Stats().Operations == 0 && w.PID() != 0 {
			if time.Now().After(deadline) {
				log := filepath.Join(o.dir, rundir.LogDir, w.Life()+".log")
				return &own.Mistake{About: own.MistakeHistory, Err: fmt.Errorf(
					"%s has been ready for more than %s and has recorded no operation: its file %s has nothing but the header%s",
					w.Life(), limit, filepath.Join(o.dir, rundir.HistoryDir, w.Life()+".jsonl"), osproc.LastWords(log, 0))}
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *ownRun) proofs() rowProofs { return rowProofs{stay: o.sinkClaim} }

// sinkClaim is what the sink's ledger shows of a lock in rows that nobody here knows: no
// entry comes to it while its holder stays. The number of entries stands for the token.
func (o *ownRun) sinkClaim(ctx context.Context, key string) (fault.Claim, error) {
	all, err := o.sink.resources(ctx)
	if err != nil {
		return fault.Claim{}, err
	}
	c := fault.Claim{By: "the ledger as it was", Anonymous: true, TTL: o.plan.Spec.Workload.TTL.D()}
	for _, res := range all {
		st, err := o.sink.client.Read(ctx, res)
		if err != nil {
			return c, err
		}
		if st.Issuer == key {
			c.Token += st.Seq
		}
	}
	return c, nil
}

// seal lets the program seal its rows, and seals the sink. No worker is left.
func (o *ownRun) seal(ctx context.Context) error {
	fences, err := o.sealRows(ctx)
	if err != nil {
		return err
	}
	h, err := history.ReadDir(filepath.Join(o.dir, rundir.HistoryDir))
	if err != nil {
		return err
	}
	o.noteHits(h)
	if t := o.opt.Trial; t != nil {
		t.Sent = o.sentOf(h)
	}
	// Above what anybody has sent, by issuer; the sink says if it has seen a higher one.
	issuers := map[string]string{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Type == history.Invoke && (e.Op == history.OpRaise || e.Op == history.OpEffect) {
			issuers[e.Key] = e.Issuer
			fences[e.Issuer] = max(fences[e.Issuer], above(e.Token))
		}
	}
	all, err := o.sink.resources(ctx) // recorded or not
	o.seals.Trouble("resources of the sink", err)
	for _, res := range all {
		st, err := o.sink.client.Read(ctx, res)
		if err != nil {
			o.seals.Trouble("resources of the sink", fmt.Errorf("read %s: %w", res, err))
			continue
		}
		issuers[res] = st.Issuer
	}
	for _, res := range slices.Sorted(maps.Keys(issuers)) {
		o.seals.Resource(ctx, o.sink.client, res, issuers[res], max(fences[issuers[res]], 1))
	}
	return nil
}

// above is the token after one, if there is any.
func above(token int64) int64 {
	if token == math.MaxInt64 {
		return token
	}
	return token + 1
}

// sealRows runs the task seal and copies what it did into the harness's own file, as it
// acts for the harness. It returns the fences of the seals. How the task ended is its
// life's matter, what it has not sealed the checker's; the error is of a record that is
// malformed.
func (o *ownRun) sealRows(ctx context.Context) (map[string]int64, error) {
	logs := filepath.Join(o.dir, rundir.LogDir)
	c := o.settings
	c.Life, c.History = history.Harness, filepath.Join(logs, "seal.jsonl")
	rec, err := history.NewRecorder(c.History, history.Header{
		Run: c.Run, Proc: c.Life, System: o.opt.System.Name, DriftBound: c.DriftBound, MarginBaseMS: c.MarginBase.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	if err := rec.Close(); err != nil {
		return nil, err
	}
	at, err := o.linksOf(own.Seal)
	if err != nil {
		return nil, err
	}
	life, err := o.program.RunSeal(ctx, own.Variables(own.Seal, c, at), logs)
	switch {
	case life != nil:
		o.ended(life)
	case err != nil:
		o.seals.Trouble("locks", err)
	}
	h, err := history.ReadFiles(c.History)
	if err != nil {
		return nil, o.ofProgram(own.MistakeSeal, err)
	}
	fences, err := copySeals(h, o.rec)
	return fences, o.ofProgram(own.MistakeSeal, err)
}

// copySeals records the seals and reads of a task seal under ids of the harness's own.
func copySeals(h *history.History, rec *history.Recorder) (fences map[string]int64, err error) {
	fences = map[string]int64{}
	ids := map[int64]int64{}
	for i := range h.Events {
		e := h.Events[i]
		switch {
		case e.Type == history.Note && (e.Op == history.NoteExit || e.Op == history.NoteStatement):
			continue // of the task, not of the run; its statements are read on its links
		case e.Op == history.OpSeal || e.Op == history.OpRead:
			if e.Type == history.Invoke {
				ids[e.ID] = rec.NewID()
				if e.To != nil {
					fences[e.Key] = max(fences[e.Key], e.To.Fence)
				}
			}
			e.ID = ids[e.ID]
		default:
			return nil, fmt.Errorf("%s:%d: the task seal recorded %q: it has only seal, read and the notes statement and exit", e.File, e.Line, e.Op)
		}
		rec.Record(e)
	}
	return fences, nil
}

// close leaves nothing behind.
func (o *ownRun) close() (err error) {
	if o.links != nil {
		err = o.links.Close()
	}
	if o.control != nil {
		err = errors.Join(err, o.control.Close())
	}
	return err
}
