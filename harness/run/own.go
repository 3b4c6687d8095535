package run

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
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
		return err
	}
	if err := offered(o.plan, offer, o.opt.System); err != nil {
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
		at := slices.IndexFunc(st.Points(), func(p control.Point) bool { return !slices.Contains(o.Points, p) })
		if at < 0 {
			continue
		}
		offers := "no points at all"
		if len(o.Points) > 0 {
			offers = fmt.Sprintf("only %s", strings.Join(pointWords(o.Points), ", "))
		}
		return &scenario.InputError{Msg: fmt.Sprintf(
			"%s: its fault %s comes when a client stands at the point %q, and the setup of %s offers %s: "+
				"let its clients ask there (docs/own-system.md), or take a scenario whose faults come at instants",
			p.Spec.Name, st.Fault, st.Points()[at], sys.Name, offers)}
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

func (o *ownRun) begun(ctx context.Context) error { return o.records(ctx, firstRecord) }

// records waits until every worker of a user's own program has recorded an operation, for
// limit: a program that writes nothing is found in seconds, not after all phases.
func (o *ownRun) records(ctx context.Context, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for _, w := range o.env.Fleet.Workers() {
		for w.Stats().Operations == 0 && w.PID() != 0 {
			if time.Now().After(deadline) {
				log := filepath.Join(o.dir, rundir.LogDir, w.Life()+".log")
				return fmt.Errorf("%s has been ready for more than %s and has recorded no operation: its file %s has nothing but the header%s",
					w.Life(), limit, filepath.Join(o.dir, rundir.HistoryDir, w.Life()+".jsonl"), osproc.LastWords(log, 0))
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
		return nil, err
	}
	return copySeals(h, o.rec)
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

// sentPoints are the points that stand before the first copy of a request, with what it is of.
var sentPoints = map[control.Point]history.Op{
	control.AcquireSent: history.OpAcquire, control.RenewSent: history.OpRenew, control.ReleaseSent: history.OpRelease,
	control.EffectSent: history.OpEffect,
}

// noteHits records each client that stood at a point before a request, and when that
// request came to its links: whether it was still to be sent is not the client's to say.
// Nobody sends any more.
func (o *ownRun) noteHits(h *history.History) {
	for _, hit := range o.env.Fleet.Hits() {
		op, before := sentPoints[hit.Point]
		if !before {
			continue
		}
		n := &history.Hit{Proc: hit.Proc, Go: hit.Went}
		if inv := underWay(h, op, hit); inv != nil {
			n.ID, n.Sent = inv.ID, o.firstSent(h, inv, hit)
		}
		o.note(history.Event{TS: hit.At, Op: history.NoteHit, Key: hit.Key, Details: &history.Details{Point: string(hit.Point), Hit: n}})
	}
}

// underWay is the operation of a kind that a client had recorded and not ended when it asked.
func underWay(h *history.History, op history.Op, hit fleet.Hit) (inv *history.Event) {
	for i := range h.Events {
		e := &h.Events[i]
		switch {
		case e.TS > hit.At:
			return inv
		case e.Proc != hit.Proc || e.Op != op || e.Key != hit.Key && e.Issuer != hit.Key:
		case e.Type == history.Invoke:
			inv = e
		case inv != nil && e.ID == inv.ID:
			inv = nil
		}
	}
	return inv
}

// firstSent is when a request first came to its worker's links.
func (o *ownRun) firstSent(h *history.History, inv *history.Event, hit fleet.Hit) int64 {
	if inv.Op != history.OpEffect {
		return o.firstWrite(h, inv, hit)
	}
	sent := int64(0)
	for i := range h.Events {
		e := &h.Events[i]
		asked := e.Asked()
		if e.Op != history.NoteAnswer || asked == nil || asked.Op != history.OpEffect || asked.Worker != hit.Worker || e.EffectKey != inv.EffectKey {
			continue
		}
		if sent == 0 || asked.Sent < sent {
			sent = asked.Sent
		}
	}
	return sent
}

// firstWrite finds a compare-and-set among the writes of a worker: by the lock's name and
// what it alone sets, or, where that is kept in another form than recorded, by the name and
// the row's holder or its fence, since the operation was recorded. On another store what it alone
// has is the attempt, since its client's last event: a release may set nothing.
func (o *ownRun) firstWrite(h *history.History, inv *history.Event, hit fleet.Hit) int64 {
	name := forms(inv.Key)
	if o.servers != nil {
		attempt := inv.To.Attempt
		if inv.To.Absent {
			attempt = inv.From.Attempt
		}
		return o.written.FirstWrite(hit.Worker, lastBefore(h, inv), name, forms(attempt))
	}
	own := [][][]byte{name, forms(inv.To.Attempt)}
	if inv.Op == history.OpRenew {
		own = append(own, number(inv.To.Beat))
	}
	if sent := o.written.FirstWrite(hit.Worker, 0, own...); sent > 0 {
		return sent
	}
	return o.written.FirstWrite(hit.Worker, inv.TS, name, append(forms(hit.Proc), number(inv.To.Fence)...))
}

// lastBefore is when a client had last recorded something before an operation; 0: never.
func lastBefore(h *history.History, inv *history.Event) (ts int64) {
	for i := range h.Events {
		e := &h.Events[i]
		if e.TS >= inv.TS {
			break
		}
		if e.Proc == inv.Proc {
			ts = e.TS
		}
	}
	return ts
}

// forms are those in which a text may be written into a row: as it is, or as a UUID, bytes or
// a number.
func forms(s string) [][]byte {
	out := [][]byte{[]byte(s)}
	if b, err := hex.DecodeString(strings.ReplaceAll(s, "-", "")); err == nil && len(b) > 0 {
		out = append(out, b)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		out = append(out, number(n)...)
	}
	return out
}

// number is a number as a bigint, an int and a literal.
func number(n int64) [][]byte {
	return [][]byte{
		binary.BigEndian.AppendUint64(nil, uint64(n)), binary.BigEndian.AppendUint32(nil, uint32(n)), []byte(strconv.FormatInt(n, 10)),
	}
}
