package workload

import (
	"context"
	"errors"
	"fmt"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// shardObserver records what the engine does to shards and jobs, and stops at
// armed points.
type shardObserver struct {
	*process
	ctx   context.Context
	lanes *lanes
}

var _ engine.Observer = (*shardObserver)(nil)

// proc is who acts on a shard: this life's owner of it.
func (o *shardObserver) proc(s store.ShardID) string {
	return fmt.Sprintf("%s/%s:%d", o.cfg.Life, s.Queue, s.Shard)
}

// Stamp is a shard's stamp as the history writes it.
func Stamp(s store.Stamp) *history.Version {
	return &history.Version{Fence: s.Fence, Beat: s.Tick, Attempt: s.Nonce}
}

var batchOps = map[engine.OpKind]history.Op{
	engine.OpTakeover: history.OpTake,
	engine.OpTick:     history.OpTick,
	engine.OpHandover: history.OpHandOver,
}

var changeNames = map[engine.StepKind]string{
	engine.StepEnqueue:  history.DoEnqueue,
	engine.StepClaim:    history.DoClaim,
	engine.StepComplete: history.DoComplete,
	engine.StepRetry:    history.DoRetry,
	engine.StepRescue:   history.DoRescue,
	engine.StepDLQ:      history.DoDLQ,
	engine.StepCancel:   history.DoCancel,
	engine.StepAbandon:  history.DoAbandon,
	engine.StepSweep:    history.DoSweep,
	engine.StepRedrive:  history.DoRedrive,
	engine.StepHasten:   history.DoHasten,
	engine.StepPause:    history.DoPause,
	engine.StepResume:   history.DoResume,
	engine.StepPut:      history.DoPut,
	engine.StepFire:     history.DoFire,
	engine.StepDisable:  history.DoDisable,
}

// changePoints are reached before a batch with such a change is sent.
var changePoints = map[engine.StepKind]control.Point{
	engine.StepEnqueue:  control.EnqueueSent,
	engine.StepClaim:    control.ClaimSent,
	engine.StepComplete: control.CompleteSent,
	engine.StepRetry:    control.RetrySent,
	engine.StepDLQ:      control.DLQSent,
	engine.StepFire:     control.FireSent,
}

// Begin records the invocation; the batch is sent after it returns.
func (o *shardObserver) Begin(op engine.Op) engine.Span {
	s := &shardSpan{o: o}
	s.event = history.Event{Proc: o.proc(op.Shard), ID: o.rec.NewID(), Type: history.Invoke, Op: batchOps[op.Kind], Key: engine.Issuer(op.Shard)}
	switch op.Kind {
	case engine.OpTakeover:
		s.points = append(s.points, control.TakeSent)
	case engine.OpHandover:
		s.points = append(s.points, control.HandOverSent)
	}
	inv := s.event
	d := &history.Details{}
	inv.From, inv.To, inv.Details = Stamp(op.From), Stamp(op.To), d
	if op.Kind == engine.OpTakeover {
		d.TTLMS = o.cfg.TTL.Milliseconds()
	}
	for _, c := range op.Changes {
		d.Changes = append(d.Changes, change(c))
		if c.Job == "" {
			d.WallMS = op.Wall
		}
		if p, ok := changePoints[c.Kind]; ok {
			s.points = append(s.points, p)
		}
		if c.After != "" && !s.follows {
			s.points, s.follows = append(s.points, control.FollowSent), true
		}
	}
	o.rec.Record(inv)
	return s
}

// change is what a batch does, as the history writes it.
func change(c engine.Change) history.Change {
	out := history.Change{Job: string(c.Job), Do: changeNames[c.Kind], Run: int64(c.Run), Attempt: c.Attempt, DueMS: c.Due, After: string(c.After), LastMS: c.Last, Missed: c.Missed}
	if c.After == "" {
		out.Schedule, out.NominalMS = c.Occurrence.Schedule, c.Occurrence.Nominal
	}
	return out
}

type shardSpan struct {
	o      *shardObserver
	event  history.Event
	points []control.Point
	sends  []int64
	// follows: the batch enqueues a job that follows another.
	follows bool
}

// Sending dates the copy before an armed point may stop the shard, as the owner's
// own clock was read before it too.
func (s *shardSpan) Sending(copyNo int) {
	s.sends = append(s.sends, s.o.rec.Now())
	if copyNo > 0 {
		return
	}
	for _, p := range s.points {
		s.o.gate.Reach(s.o.ctx, p, s.event.Proc, s.event.Key)
	}
}

func (s *shardSpan) End(r engine.Result) {
	e := s.event
	e.Type, e.Sends, e.Error = endType(r.Outcome), s.sends, errText(r.Err)
	var se *store.Error
	if errors.As(r.Err, &se) {
		e.ServerTimeout = se.ServerTimeout
	}
	if e.Type == history.Fail && r.Err == nil && r.Stamp != nil {
		e.Row = Stamp(*r.Stamp)
	}
	s.o.rec.Record(e)
	if s.follows && e.Type == history.OK {
		s.o.gate.Reach(s.o.ctx, control.FollowSettled, s.event.Proc, s.event.Key)
	}
}

// Step records the runs and the end of ownerships, and stops at armed points.
func (o *shardObserver) Step(s engine.Step) {
	key := engine.Issuer(s.Shard)
	reach := func(p control.Point) { o.gate.Reach(o.ctx, p, o.proc(s.Shard), key) }
	switch s.Kind {
	case engine.StepOwn:
		reach(control.TakeSettled)
	case engine.StepLost:
		o.counts.lost.Add(1)
		o.rec.Record(history.Event{Proc: o.proc(s.Shard), Type: history.Note, Op: history.NoteLeaseLost, Key: key, Token: s.Fence, Error: errText(s.Err)})
	case engine.StepEnqueue:
		reach(control.EnqueueSettled)
	case engine.StepFire:
		reach(control.FireSettled)
	case engine.StepClaim:
		reach(control.ClaimSettled)
	case engine.StepComplete:
		o.counts.cycles.Add(1)
		reach(control.CompleteSettled)
	case engine.StepBegin:
		// Before the engine's own look at the clock: never later than it.
		o.look(o.lanes.begin(runKey{key, s.Run}))
	case engine.StepStart:
		o.start(o.lanes.of(runKey{key, s.Run}), runKey{key, s.Run}, s.Job, s.Attempt, s.Due)
	case engine.StepFinish:
		o.finish(o.lanes, runKey{key, s.Run}, s.Job, s.Err)
	}
}

// look dates a run's decision to start.
func (p *process) look(l *lane) {
	l.decided, l.wallMS = p.rec.Now(), p.clock.Wall().UnixMilli()
}

// start records that a run's handler is called.
func (p *process) start(l *lane, k runKey, id job.ID, attempt int, due int64) {
	l.started = true
	p.rec.Record(history.Event{
		Proc: l.proc, Type: history.Note, Op: history.NoteStart, Key: string(id), Issuer: k.issuer, Token: int64(k.run),
		DecidedAt: l.decided, Details: &history.Details{Attempt: attempt, DueMS: due, WallMS: l.wallMS},
	})
}

// finish records that it has returned, if it was called, and ends the run's lane.
func (p *process) finish(lanes *lanes, k runKey, id job.ID, err error) {
	if l := lanes.of(k); l != nil && l.started {
		p.rec.Record(history.Event{Proc: l.proc, Type: history.Note, Op: history.NoteFinish, Key: string(id), Issuer: k.issuer, Token: int64(k.run), Error: errText(err)})
	}
	lanes.end(k)
}

// laneSink records the sink operations of runs, each in the lane that its context
// carries.
type laneSink struct {
	sink.Sink
	*process
}

var _ sink.Sink = (*laneSink)(nil)

func (s *laneSink) lane(ctx context.Context) (*recordingSink, *lane) {
	l, ok := ctx.Value(laneKey{}).(*lane)
	if !ok {
		l = &lane{proc: s.cfg.Life} // a handler that is not of this workload
	}
	return &recordingSink{Sink: s.Sink, rec: s.rec, proc: l.proc}, l
}

// Raise implements sink.Sink.
func (s *laneSink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	r, _ := s.lane(ctx)
	return r.raise(ctx, resource, issuer, token)
}

// Read implements sink.Sink.
func (s *laneSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	r, _ := s.lane(ctx)
	return r.get(ctx, resource, keys...)
}

// Accept implements sink.Sink. The request does not end with the run: what a process
// has handed to its network stack leaves when the process goes on much later.
func (s *laneSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	r, l := s.lane(ctx)
	return r.effect(resource, issuer, token, l.decided, e, func() {
		s.gate.Reach(context.Background(), control.EffectSent, l.proc, resource)
	})
}
