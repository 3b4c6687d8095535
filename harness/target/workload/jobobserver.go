package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// shardObserver records what the engine does to shards and jobs, and stops at
// armed points.
type shardObserver struct {
	*process
	ctx   context.Context
	lanes *lanes
	dead  func(jobRef) // is called with each job that is put into the dead letter queue; may be nil

	mu      sync.Mutex
	flights map[store.ShardID]*shardSpan // of batches by a shard's owner: one at a time
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
	engine.StepEnable:   history.DoEnable,
	engine.StepRemove:   history.DoRemove,
	engine.StepOver:     history.DoOver,
	engine.StepTrigger:  history.DoTrigger,
}

// Begin records the invocation; the batch is sent after it returns. The owner looks at the clock
// between the two: a batch that is stopped here is only planned.
func (o *shardObserver) Begin(op engine.Op) engine.Span {
	s := &shardSpan{o: o, shard: op.Shard}
	s.event = history.Event{
		Proc: o.proc(op.Shard), ID: o.rec.NewID(), Type: history.Invoke, Op: batchOps[op.Kind], Key: engine.Issuer(op.Shard),
	}
	switch op.Kind {
	case engine.OpTakeover:
		s.points, s.answers = append(s.points, control.TakeSent), append(s.answers, control.TakeAnswered)
	case engine.OpHandover:
		s.points, s.answers = append(s.points, control.HandOverSent), append(s.answers, control.HandOverAnswered)
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
		if p, ok := answerPoints[c.Kind]; ok {
			s.answers = append(s.answers, p)
		}
		if c.After != "" && !s.follows {
			s.points, s.follows = append(s.points, control.FollowSent), true
		}
	}
	o.rec.Record(inv)
	if op.Kind != engine.OpTakeover {
		o.flies(s)
		s.reach(control.BatchPlanned)
	}
	return s
}

// change is what a batch does, as the history writes it.
func change(c engine.Change) history.Change {
	out := history.Change{
		Job: string(c.Job), Do: changeNames[c.Kind], Run: int64(c.Run), Attempt: c.Attempt, DueMS: c.Due, After: string(c.After),
		LastMS: c.Last, Missed: c.Missed, Skipped: c.Skipped, Waiting: c.Waiting, Form: formOf(c.Definition),
	}
	if c.Kind == engine.StepOver {
		out.EndedMS = c.Ended
	}
	if c.After == "" {
		out.Schedule = c.Occurrence.Schedule
		if c.Job != "" || c.Kind == engine.StepOver || c.Kind == engine.StepTrigger {
			out.NominalMS, out.Trigger = c.Occurrence.Nominal, c.Occurrence.Trigger
		}
	}
	return out
}

type shardSpan struct {
	o     *shardObserver
	shard store.ShardID
	event history.Event
	// points are reached before the first copy is sent, answers when it was applied.
	points, answers []control.Point
	sends           []int64
	// follows: the batch enqueues a job that follows another.
	follows bool
}

// Sending dates the copy before an armed point may stop the shard, as the owner's
// own clock was read before it too.
func (s *shardSpan) Sending(copyNo int) {
	s.sends = append(s.sends, s.o.rec.Now())
	if copyNo == 0 {
		s.reach(s.points...)
	}
}

func (s *shardSpan) reach(points ...control.Point) {
	for _, p := range points {
		s.o.gate.Reach(s.o.ctx, p, s.event.Proc, s.event.Key)
	}
}

// End is called for a takeover as soon as its answer has come; see answered for other batches.
func (s *shardSpan) End(r engine.Result) {
	e := s.event
	if e.Op == history.OpTake && r.Outcome == store.OK {
		s.reach(s.answers...)
	}
	s.o.landed(s)
	e.Type, e.Sends, e.Error, e.ServerTimeout = endType(r.Outcome), s.sends, errText(r.Err), store.IsServerTimeout(r.Err)
	if e.Type == history.Fail && r.Err == nil && r.Stamp != nil {
		e.Row = Stamp(*r.Stamp)
	}
	s.o.rec.Record(e)
	if s.follows && e.Type == history.OK {
		s.reach(control.FollowSettled)
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
		o.rec.Record(history.Event{
			Proc: o.proc(s.Shard), Type: history.Note, Op: history.NoteLeaseLost, Key: key, Token: s.Fence, Error: errText(s.Err),
		})
	case engine.StepEnqueue:
		reach(control.EnqueueSettled)
	case engine.StepFire:
		reach(control.FireSettled)
	case engine.StepClaim:
		reach(control.ClaimSettled)
	case engine.StepComplete:
		o.counts.cycles.Add(1)
		reach(control.CompleteSettled)
	case engine.StepDLQ:
		if o.dead != nil {
			o.dead(jobRef{s.Shard.Queue, s.Job})
		}
	case engine.StepAnswer:
		if s.Applied {
			o.answered(s.Shard)
		}
	case engine.StepBegin:
		reach(control.RunBegin)
		// Before the engine's own look at the clock: never later than it.
		o.look(o.lanes.begin(runKey{key, s.Run}))
	case engine.StepStart:
		o.start(o.lanes.of(runKey{key, s.Run}), runKey{key, s.Run}, s.Job, s.Attempt, s.Due)
		reach(control.RunStart)
	case engine.StepFinish:
		o.finish(o.lanes, runKey{key, s.Run}, s.Job, s.Err)
		reach(control.RunEnd)
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
		p.rec.Record(history.Event{
			Proc: l.proc, Type: history.Note, Op: history.NoteFinish, Key: string(id), Issuer: k.issuer, Token: int64(k.run), Error: errText(err),
		})
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
	return r.effect(resource, issuer, token, l.decided, e, func(p control.Point) {
		s.gate.Reach(context.Background(), p, l.proc, resource)
	})
}

// lane is the line of one run: what it does follows one after the other.
type lane struct {
	proc string
	// decided is when the run last looked whether its shard is trusted before it
	// decided to act, wallMS what the worker's wall clock showed at its begin.
	decided, wallMS int64
	started         bool // its handler was called
	lent            bool // proc is somebody else's to hand out
	// task is the run itself, of an order.
	task *worker.Task
}

// names hands out procs of a life, PREFIX1, PREFIX2 …, free ones again, so that there
// are no more of them than are in use at once.
type names struct {
	prefix string // "w1.1/r"
	mu     sync.Mutex
	made   int
	free   []string
}

func (n *names) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last := len(n.free) - 1; last >= 0 {
		name := n.free[last]
		n.free = n.free[:last]
		return name
	}
	n.made++
	return fmt.Sprint(n.prefix, n.made)
}

func (n *names) give(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, name)
}

func (n *names) used() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.made - len(n.free)
}

// lanes hands out lanes to runs.
type lanes struct {
	mu    sync.Mutex
	names names
	runs  map[runKey]*lane
}

// runKey names a run: ids are unique within their shard.
type runKey struct {
	issuer string
	run    job.RunID
}

func newLanes(life string) *lanes {
	return &lanes{names: names{prefix: life + "/r"}, runs: map[runKey]*lane{}}
}

func (l *lanes) begin(run runKey) *lane { return l.set(run, &lane{proc: l.names.take()}) }

// enter gives a run the lane of a proc that the scheduler has named itself.
func (l *lanes) enter(run runKey, proc string) *lane {
	return l.set(run, &lane{proc: proc, lent: true})
}

func (l *lanes) set(run runKey, to *lane) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run] = to
	return to
}

// of returns a run's lane, nil if it has not begun.
func (l *lanes) of(run runKey) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[run]
}

// end gives a run's lane back, after its last event.
func (l *lanes) end(run runKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.runs[run]; at != nil {
		delete(l.runs, run)
		if !at.lent {
			l.names.give(at.proc)
		}
	}
}

type laneKey struct{}

// in is the lane of a task, and its context with it.
func (l *lanes) in(ctx context.Context, t *worker.Task) (context.Context, *lane, error) {
	at := l.of(runKey{t.Issuer(), t.Run.ID})
	if at == nil {
		return nil, nil, errors.New("workload: a run that was never started")
	}
	return context.WithValue(ctx, laneKey{}, at), at, nil
}
