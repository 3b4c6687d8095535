package query

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// Options configure a Reader. Shards and Queues are needed.
type Options struct {
	Shards store.Shards
	// Runs has the history of runs; nil: there is none.
	Runs store.Runs
	// Queues are those that can be asked for, with their numbers of shards: a scheduler's.
	Queues Queues
	// Timeout bounds one request to the store; default 5 s.
	Timeout time.Duration
}

// Queues tells what queues there are, as engine.Engine does.
type Queues interface {
	Queue(ctx context.Context, name string) (store.Queue, error)
	Queues() []store.Queue
	Place(ctx context.Context, queue string, id job.ID) (store.ShardID, error)
}

// Reader reads. Safe for concurrent use.
type Reader struct{ o Options }

// New makes a reader.
func New(o Options) *Reader {
	o.Timeout = cmp.Or(max(o.Timeout, 0), 5*time.Second)
	return &Reader{o}
}

// ErrNone: there is no such job or schedule, or it is forgotten.
var ErrNone = errors.New("query: there is none")

// Job is what is known of a job.
type Job struct {
	ID    job.ID
	Queue string
	State job.State
	// Inbox: it waits in its shard's inbox for an owner to copy it.
	Inbox bool
	// Job is what was enqueued, with Body set if that is still there: of jobs that
	// are pending, running or in the dead letter queue.
	Job  job.Job
	Body bool
	// Request is a digest of what was asked for, as long as the job is known, if its
	// client gave one.
	Request []byte
	// Attempts counts the claims so far, since the last redrive; Run is the last one.
	Attempts int
	Run      job.RunID
	// Due is when it is or was due, Ended when it ended; zero: not known, not ended.
	Due, Ended time.Time
	// Note is why the last attempt failed, or what was done to the job.
	Note string
}

func (r *Reader) row(ctx context.Context, s store.ShardID, k store.Key) (*store.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	return r.o.Shards.Row(ctx, s, k)
}

// looks is how often a job that moves is looked at.
const looks = 3

// Job reads a job. The error is ErrNone, a *job.InvalidError of the queue or the id, or
// the store's.
func (r *Reader) Job(ctx context.Context, queue string, id job.ID) (Job, error) {
	s, err := r.o.Queues.Place(ctx, queue, id)
	if err != nil {
		return Job{}, err
	}
	var out Job
	for n := range looks {
		state, err := r.row(ctx, s, store.Key{Kind: store.KindJob, ID: string(id)})
		if err != nil {
			return Job{}, err
		}
		if state == nil {
			in, err := r.inbox(ctx, s, id)
			if err != nil {
				return Job{}, err
			}
			if in != nil {
				return *in, nil
			}
			if n > 0 { // it was not copied between the two looks
				return Job{}, ErrNone
			}
			continue
		}
		out = ofState(s, *state)
		key, ok := bodyKey(*state)
		if !ok {
			return out, nil
		}
		row, err := r.row(ctx, s, key)
		if err != nil {
			return Job{}, err
		}
		if row != nil {
			out.take(*row)
			return out, nil
		}
	}
	if out.ID == "" {
		return Job{}, ErrNone
	}
	return out, nil
}

func (r *Reader) inbox(ctx context.Context, s store.ShardID, id job.ID) (*Job, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	row, err := r.o.Shards.InboxRow(ctx, s, string(id))
	if err != nil || row == nil {
		return nil, err
	}
	out := &Job{ID: id, Queue: s.Queue, State: job.Pending, Inbox: true}
	out.decode(row.Body)
	out.Due, out.Request = out.Job.Due, out.Job.Request
	return out, nil
}

// ofState is a job as its state's row shows it.
func ofState(s store.ShardID, row store.Row) Job {
	j := Job{ID: job.ID(row.ID), Queue: s.Queue, State: job.State(row.State), Attempts: row.Attempt, Run: job.RunID(row.Run), Note: row.Note, Request: row.Body}
	if j.State.Ended() {
		j.Ended = time.UnixMilli(row.Place)
	} else {
		j.Due = time.UnixMilli(row.Due)
	}
	return j
}

// bodyKey is where the body of a job is, if there is one.
func bodyKey(row store.Row) (store.Key, bool) {
	kind, ok := map[job.State]store.Kind{job.Pending: store.KindPending, job.Running: store.KindRunning, job.DLQ: store.KindDLQ}[job.State(row.State)]
	return store.Key{Kind: kind, At: row.Place, ID: row.ID}, ok
}

// take adds what the row beside the state says.
func (j *Job) take(row store.Row) {
	if row.Note != "" {
		j.Note = row.Note
	}
	j.decode(row.Body)
}

// decode: what cannot be read is shown without its body.
func (j *Job) decode(body []byte) {
	got, err := job.Decode(body)
	j.Body = err == nil && len(body) > 0
	if j.Body {
		j.Job = got
	}
}

// Schedule is what is known of a schedule.
type Schedule struct {
	ID         job.ID
	Definition schedule.Definition
	State      schedule.State
	// Broken: it cannot be read, and fires nothing.
	Broken error
}

// ScheduleID is the id of the schedule with a key.
func (r *Reader) ScheduleID(ctx context.Context, queue, key string) (job.ID, error) {
	q, err := r.o.Queues.Queue(ctx, queue)
	return job.ScheduleID(queue, key, q.First), err
}

// Schedule reads a schedule by its id. The error is ErrNone, a *job.InvalidError of
// the queue or the id, or the store's.
func (r *Reader) Schedule(ctx context.Context, queue string, id job.ID) (Schedule, error) {
	s, err := r.o.Queues.Place(ctx, queue, id)
	if err != nil {
		return Schedule{}, err
	}
	key := store.Key{Kind: store.KindSchedule, At: engine.AtDefinition, ID: string(id)}
	def, err := r.row(ctx, s, key)
	if err != nil {
		return Schedule{}, err
	}
	if def == nil {
		return Schedule{}, ErrNone
	}
	key.At = engine.AtState
	state, err := r.row(ctx, s, key)
	if err != nil {
		return Schedule{}, err
	}
	return ofRows(*def, state), nil
}

func ofRows(def store.Row, state *store.Row) Schedule {
	out := Schedule{ID: job.ID(def.ID)}
	out.Definition, out.State, out.Broken = engine.DecodeSchedule(def, state)
	return out
}

func (r *Reader) header(ctx context.Context, s store.ShardID) (store.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	h, err := r.o.Shards.Look(ctx, s, false)
	if err != nil || h == nil {
		return store.Header{}, err
	}
	return *h, nil
}

// Ping asks the store for one row, by a quorum.
func (r *Reader) Ping(ctx context.Context) error {
	_, err := r.header(ctx, store.ShardID{Queue: r.Queues()[0].Name})
	return err
}

// MaxDepth bounds what is counted of one state in one shard.
const MaxDepth = 1000

// Queue is what is known of a queue.
type Queue struct {
	Name string
	// Depth counts the jobs that are pending, running and in the dead letter queue. Those
	// in inboxes are not counted.
	Depth map[job.State]Depth
	// Shards are in order.
	Shards []Shard
}

// Depth is how many jobs there are.
type Depth struct {
	Jobs int
	// More: in some shard there are MaxDepth, and maybe more.
	More bool
}

// Shard is what a shard's header shows.
type Shard struct {
	Shard int
	// Owner is the process that ticks, "" if nobody does; Fence its fencing token, Tick
	// the number of its batches so far, over all owners.
	Owner, Addr string
	Fence, Tick int64
	Pause       store.Pause
}

// Paused counts the shards that are paused.
func (q Queue) Paused() (n int) {
	for _, s := range q.Shards {
		if s.Pause.On {
			n++
		}
	}
	return n
}

// Queue reads the headers of a queue's shards, and counts its jobs. The error is a
// *job.InvalidError of the queue, or the store's.
func (r *Reader) Queue(ctx context.Context, name string) (Queue, error) {
	q, err := r.o.Queues.Queue(ctx, name)
	if err != nil {
		return Queue{}, err
	}
	out := Queue{Name: name, Depth: map[job.State]Depth{}, Shards: make([]Shard, q.Shards)}
	counts := make([][len(depths)]int, q.Shards)
	err = each(q.Shards, func(i int) error {
		id := store.ShardID{Queue: name, Shard: i}
		h, err := r.header(ctx, id)
		if err != nil {
			return err
		}
		out.Shards[i] = shardView(i, h)
		for k, d := range depths {
			if counts[i][k], err = r.count(ctx, id, d, h, MaxDepth); err != nil {
				return err
			}
		}
		return nil
	})
	for k, d := range depths {
		var sum Depth
		for i := range counts {
			sum.Jobs += counts[i][k]
			sum.More = sum.More || counts[i][k] == MaxDepth
		}
		out.Depth[d.state] = sum
	}
	return out, err
}

// ShardsOf reads the headers of a queue's shards only, without its depth. The error is
// as of Queue.
func (r *Reader) ShardsOf(ctx context.Context, name string) ([]Shard, error) {
	q, err := r.o.Queues.Queue(ctx, name)
	if err != nil {
		return nil, err
	}
	out := make([]Shard, q.Shards)
	return out, each(q.Shards, func(i int) error {
		h, err := r.header(ctx, store.ShardID{Queue: name, Shard: i})
		out[i] = shardView(i, h)
		return err
	})
}

func shardView(n int, h store.Header) Shard {
	return Shard{Shard: n, Owner: h.Owner, Addr: h.Addr, Fence: h.Fence, Tick: h.Tick, Pause: h.Pause}
}

// depth is a state that is counted, by the rows that its jobs have.
type depth struct {
	state job.State
	kind  store.Kind
	low   func(store.Header) int64
}

var depths = [...]depth{
	{job.Pending, store.KindPending, func(h store.Header) int64 { return h.LowPending }},
	{job.Running, store.KindRunning, func(h store.Header) int64 { return h.LowRunning }},
	{job.DLQ, store.KindDLQ, func(store.Header) int64 { return -1 }},
}

func (r *Reader) count(ctx context.Context, s store.ShardID, d depth, h store.Header, most int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	return r.o.Shards.Count(ctx, s, store.Range{Kind: d.kind, AfterAt: d.low(h), AfterID: afterAll, UpTo: math.MaxInt64, Limit: most})
}

// Queues are those that can be asked for, as engine.Engine's.
func (r *Reader) Queues() []store.Queue { return r.o.Queues.Queues() }

// Size is how many shards a queue has. The error is a *job.InvalidError of the queue, or the store's.
func (r *Reader) Size(ctx context.Context, queue string) (store.Queue, error) {
	return r.o.Queues.Queue(ctx, queue)
}
