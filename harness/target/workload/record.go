package workload

import (
	"context"

	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// Recorder is what the workload needs of history.Recorder.
type Recorder interface {
	// Now is the time by which events are stamped, in ns.
	Now() int64
	NewID() int64
	Record(history.Event) int64
}

// Version is a row version as the history writes it.
func Version(v *store.Version) *history.Version {
	if v == nil {
		return &history.Version{Absent: true}
	}
	return &history.Version{Fence: v.Fence, Beat: v.Beat, Attempt: v.Attempt, Holder: v.Holder, TTLMS: v.TTL.Milliseconds()}
}

// RowKinds are the kinds of a shard's rows, as the history writes them.
var RowKinds = map[store.Kind]string{
	store.KindPending: history.RowPending, store.KindRunning: history.RowRunning, store.KindJob: history.RowJob,
	store.KindEnded: history.RowEnded, store.KindDLQ: history.RowDLQ,
}

// JobRow is a row of a shard as the history writes it.
func JobRow(row store.Row) *history.JobRow {
	x := &history.JobRow{Kind: RowKinds[row.Kind], State: row.State, Attempt: row.Attempt, DueMS: row.Due}
	if row.Kind != store.KindEnded { // an index, whose run its job row has too
		x.Run = row.Run
	}
	if job.State(row.State).Ended() {
		x.EndedMS = row.Place
	}
	return x
}

func endType(o store.Outcome) history.Type {
	switch o {
	case store.OK:
		return history.OK
	case store.Fail:
		return history.Fail
	}
	return history.Unknown
}

// lockObserver records operations on lock rows and stops at armed points.
type lockObserver struct {
	ctx  context.Context
	rec  Recorder
	gate *control.Gate
	lost func()
	// points are reached before the first copy of a request is sent, answered when the
	// answer to one that was applied has come.
	points, answered map[lock.OpKind]control.Point
}

var _ lock.Observer = (*lockObserver)(nil)

var lockOps = map[lock.OpKind]history.Op{
	lock.Acquire: history.OpAcquire,
	lock.Renew:   history.OpRenew,
	lock.Release: history.OpRelease,
	lock.Read:    history.OpRead,
}

var sentPoints = map[lock.OpKind]control.Point{
	lock.Acquire: control.AcquireSent,
	lock.Renew:   control.RenewSent,
	lock.Release: control.ReleaseSent,
}

var answeredPoints = map[lock.OpKind]control.Point{
	lock.Acquire: control.AcquireAnswered,
	lock.Renew:   control.RenewAnswered,
	lock.Release: control.ReleaseAnswered,
}

// ObserveLocks records what a worker's lock client does to rows, and stops its clients at the
// gate's points. lost is called when a lease has ended without a release.
func ObserveLocks(ctx context.Context, rec Recorder, gate *control.Gate, lost func()) lock.Observer {
	return &lockObserver{ctx: ctx, rec: rec, gate: gate, lost: lost, points: sentPoints, answered: answeredPoints}
}

// Begin records the invocation; the request is sent after it returns.
func (o *lockObserver) Begin(op lock.Op) lock.Span {
	s := &lockSpan{o: o, op: op}
	s.event = history.Event{Proc: op.Holder, ID: o.rec.NewID(), Type: history.Invoke, Op: lockOps[op.Kind], Key: op.Resource}
	inv := s.event
	if op.Kind != lock.Read {
		inv.From, inv.To, inv.Takeover = Version(op.From), Version(&op.To), op.Takeover
	}
	o.rec.Record(inv)
	return s
}

func (o *lockObserver) LeaseLost(resource, holder string, token int64, cause error) {
	o.lost()
	o.rec.Record(history.Event{Proc: holder, Type: history.Note, Op: history.NoteLeaseLost, Key: resource, Token: token, Error: errText(cause)})
}

type lockSpan struct {
	o     *lockObserver
	op    lock.Op
	event history.Event
	sends []int64
}

func (s *lockSpan) Sending(copyNo int) {
	// The send is dated before an armed point may stop the client: the holder's
	// own clock was read before it too, and a copy sent later than its date only
	// makes the derived deadline earlier than the truth, never later.
	s.sends = append(s.sends, s.o.rec.Now())
	if p, ok := s.o.points[s.op.Kind]; ok && copyNo == 0 {
		s.o.gate.Reach(s.o.ctx, p, s.op.Holder, s.op.Resource)
	}
}

// End is called when the answer has come, and before the client acts on it. A client that is
// stopped there has not recorded the answer either: who dies there never knew it.
func (s *lockSpan) End(r lock.Result) {
	if p, ok := s.o.answered[s.op.Kind]; ok && r.Outcome == store.OK {
		s.o.gate.Reach(s.o.ctx, p, s.op.Holder, s.op.Resource)
	}
	e := s.event
	e.Type, e.Sends, e.Error, e.ServerTimeout = endType(r.Outcome), s.sends, errText(r.Err), r.ServerTimeout
	// Without an answer there is no row to tell of, not an absent one.
	if r.Err == nil && (e.Type == history.Fail || s.op.Kind == lock.Read && e.Type == history.OK) {
		e.Row = Version(r.Row)
	}
	s.o.rec.Record(e)
}

// RecordLock records a client's whole call for a lock, as it was asked for (d), and how that ended.
func RecordLock[L interface{ Token() int64 }](rec Recorder, proc, name string, d history.Details, call func() (L, error)) (L, error) {
	e := history.Event{Proc: proc, ID: rec.NewID(), Type: history.Invoke, Op: history.OpLock, Key: name}
	inv := e
	inv.Details = &d
	rec.Record(inv)
	lease, err := call()
	if err != nil {
		// Nothing was handed out: what the client left behind it settles itself.
		e.Type, e.Error, e.Result = history.Fail, err.Error(), refusal(err)
	} else {
		e.Type, e.Token = history.OK, lease.Token()
	}
	rec.Record(e)
	return lease, err
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// recordingSink records one client's sink operations.
type recordingSink struct {
	sink.Sink
	rec  Recorder
	proc string
}

func (s *recordingSink) raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	e := history.Event{Proc: s.proc, ID: s.rec.NewID(), Type: history.Invoke, Op: history.OpRaise, Key: resource, Issuer: issuer, Token: token}
	s.rec.Record(e)
	a, err := s.Sink.Raise(ctx, resource, issuer, token)
	s.end(e, a, err)
	return a, err
}

func (s *recordingSink) get(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	e := history.Event{Proc: s.proc, ID: s.rec.NewID(), Type: history.Invoke, Op: history.OpGet, Key: resource}
	s.rec.Record(e)
	st, err := s.Sink.Read(ctx, resource, keys...)
	end := e
	end.Type, end.Error = endType(store.OutcomeOf(err)), errText(err)
	if err == nil {
		end.Value, end.Seen, end.Seq = &st.Value, st.Seen, st.Seq
	}
	s.rec.Record(end)
	return st, err
}

// effect records and makes a fenced write. reach is called with EffectSent between the
// recorded invocation and the send; the request's time limit begins after it, as
// a process that is stopped there goes on to send whatever its clock says. It is called with
// EffectAnswered when the sink has accepted it and that is not recorded yet.
func (s *recordingSink) effect(resource, issuer string, token, decidedAt int64, ef sink.Effect, reach func(control.Point)) (sink.Answer, error) {
	return s.accept(resource, issuer, token, decidedAt, ef, reach, func(ctx context.Context) (sink.Answer, error) {
		return s.Sink.Accept(ctx, resource, issuer, token, ef)
	})
}

// accept is effect by whatever call of the sink.
func (s *recordingSink) accept(resource, issuer string, token, decidedAt int64, ef sink.Effect, reach func(control.Point),
	send func(context.Context) (sink.Answer, error)) (sink.Answer, error) {
	e := history.Event{
		Proc: s.proc, ID: s.rec.NewID(), Type: history.Invoke, Op: history.OpEffect, Key: resource, Issuer: issuer, Token: token,
		EffectKey: ef.Key, Value: &ef.Value, DecidedAt: decidedAt,
	}
	s.rec.Record(e)
	reach(control.EffectSent)
	ctx, cancel := context.WithTimeout(context.Background(), sinkTimeout)
	defer cancel()
	a, err := send(ctx)
	if err == nil && a.Result == sink.Applied {
		reach(control.EffectAnswered)
	}
	s.end(e, a, err)
	return a, err
}

func (s *recordingSink) end(inv history.Event, a sink.Answer, err error) {
	e := history.Event{Proc: inv.Proc, ID: inv.ID, Op: inv.Op, Key: inv.Key, Issuer: inv.Issuer, Token: inv.Token, EffectKey: inv.EffectKey}
	e.Type, e.Error, e.ServerTimeout = endType(store.OutcomeOf(err)), errText(err), store.IsServerTimeout(err)
	if err == nil {
		e.Result, e.Seen, e.Seq = a.Result.String(), a.Seen, a.Seq
		if a.Result == sink.Stale || a.Result == sink.Conflict {
			e.Type = history.Fail
		}
	}
	s.rec.Record(e)
}
