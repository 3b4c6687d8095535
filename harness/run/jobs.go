package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/orders"
	"fencepost/harness/target/workload"
)

// jobs is each worker's part of the work.
func (r *runner) jobs() *workload.Jobs {
	w := r.plan.Spec.Workload
	j := w.Jobs
	var schedules []workload.Recurring
	for _, s := range j.Schedules {
		schedules = append(schedules, s.Of())
	}
	return &workload.Jobs{
		Schedules: schedules, Begin: time.Now().UnixMilli(), Dedupe: j.Dedupe.D(),
		Queue: r.plan.Queue, Shards: w.Shards(), Workers: w.Workers, Rate: j.Rate / float64(w.Workers),
		Steps: j.Steps, Length: j.Length.D(), Flaky: j.Flaky, Poison: j.Poison, Ahead: j.Ahead.D(), Storm: j.Storm.D(), Every: j.Every.D(),
		Window: j.Window.D(), Sequence: j.Sequence,
		MaxAttempts: j.MaxAttempts, RetryBase: j.Retry.D(), Slots: j.Slots, Mixture: (*workload.Mixture)(j.Mixture),
		Commands: commandsOf(j.Commands, w.Workers), API: j.API,
	}
}

// commandsOf is each worker's part of the commands.
func commandsOf(c *scenario.Commands, workers int) *workload.Commands {
	if c == nil {
		return nil
	}
	n := float64(workers)
	return &workload.Commands{
		Cancel: c.Cancel / n, Redrive: c.Redrive / n, RedriveMany: c.RedriveMany / n, Hasten: c.Hasten / n, Pause: c.Pause / n,
		PauseQueue: c.PauseQueue / n,
	}
}

func (b workers) describeJobs(i *rundir.Info) {
	b.describe(i)
	i.Clients, i.Hold = 0, 0
	i.Shards, i.JobRate = len(b.plan.Shards()), b.plan.Spec.Workload.Jobs.Rate
}

// queueError is of a queue that could not be made; nil stays nil.
func queueError(queue string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("make queue %s: %w", queue, err)
}

// jobsByShard are queues of the core.
type jobsByShard struct{ workers }

func (r jobsByShard) describe(i *rundir.Info) { r.describeJobs(i) }

func (r jobsByShard) prepare(ctx context.Context, cfg *fleet.Config) error {
	cfg.Worker.Jobs = r.jobs()
	if all := r.plan.Queues(); len(all) > 1 {
		cfg.Worker.Jobs.Queues = all
	}
	want := r.plan.Spec.Workload.Shards()
	for _, queue := range r.plan.Queues() {
		q, err := cassandra.NewShards(r.db).EnsureQueue(ctx, queue, want)
		if err == nil && q.Shards != want {
			err = fmt.Errorf("it has %d shards, not %d", q.Shards, want)
		}
		if err != nil {
			return queueError(queue, err)
		}
	}
	return nil
}

func (r jobsByShard) finish(ctx context.Context, _ *history.Feed) error { return r.drain(ctx, r.open) }

func (r jobsByShard) proofs() rowProofs {
	return rowProofs{stamps: r.stamps, stay: r.claim, queues: queueRows{r.plan.Queues(), cassandra.NewShards(r.db)}}
}

const runStampsCQL = "SELECT worker, ended, WRITETIME(ended) AS written FROM runs WHERE queue = ? AND shard = ? AND day = ?"

// stamps are the ends of runs. The row of one that ended by a clock that is wrong is on
// another day at times.
func (r jobsByShard) stamps(ctx context.Context) ([]fault.Stamp, error) {
	var out []fault.Stamp
	days := r.daysOfRuns(time.Now())
	for _, id := range r.plan.Shards() {
		for _, day := range days {
			rows, err := r.db.Query(ctx, false, runStampsCQL, id.Queue, id.Shard, day)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				life, _ := row["worker"].(string)
				if ended, ok := row["ended"].(time.Time); ok && life != "" {
					out = append(out, fault.Stamp{Life: life, Wall: ended, Written: written(row)})
				}
			}
		}
	}
	return out, nil
}

// daysOfRuns are the days that workers' clocks may show.
func (r jobsByShard) daysOfRuns(now time.Time) []int {
	days := map[int]bool{}
	of := func(t time.Time) {
		for d := -1; d <= 1; d++ {
			days[store.DayOf(t)+d] = true
		}
	}
	of(now)
	for _, w := range r.env.Fleet.Workers() {
		of(now.Add(w.Offset()))
	}
	return slices.Sorted(maps.Keys(days))
}

// claim is a job's run, by its id, which one queue has.
func (r jobsByShard) claim(ctx context.Context, key string) (fault.Claim, error) {
	shard, err := job.ID(key).Shard()
	if err != nil {
		return fault.Claim{}, err
	}
	for _, queue := range r.plan.Queues() {
		row, err := cassandra.NewShards(r.db).Row(ctx, store.ShardID{Queue: queue, Shard: shard}, store.Key{Kind: store.KindJob, ID: key})
		if err != nil {
			return fault.Claim{}, err
		}
		if row != nil && row.State == string(job.Running) {
			return runClaim(row.Run), nil
		}
	}
	return fault.Claim{}, nil
}

func (r jobsByShard) coordinator(ctx context.Context) (string, error) {
	return r.db.ShardCoordinator(ctx, r.plan.Shards()[0])
}

// drain ends the enqueuing and waits until no job is left that may run (open), for as long
// as the scenario says: what is left then is the checker's to judge.
func (r *runner) drain(ctx context.Context, open func(context.Context) (bool, error)) error {
	r.phase(history.PhaseDrain)
	r.env.Fleet.Drain()
	ctx, cancel := context.WithTimeoutCause(ctx, r.plan.Spec.Workload.Jobs.Drain.D(), errDrained)
	defer cancel()
	err := r.drained(ctx, open)
	if errors.Is(context.Cause(ctx), errDrained) {
		r.progress.problem("not all jobs finished within %s", r.plan.Spec.Workload.Jobs.Drain.D())
		return nil
	}
	return err
}

var errDrained = errors.New("the drain's time is over")

// statsAge is how old a worker's totals may be; twice what they are sent after.
const statsAge = 400 * time.Millisecond

func (r *runner) drained(ctx context.Context, open func(context.Context) (bool, error)) error {
	if err := pause(ctx, statsAge); err != nil {
		return err
	}
	for {
		n := r.env.Fleet.Stats().Enqueuing
		left, err := open(ctx)
		if n == 0 && !left && err == nil || r.env.Fleet.Fallen() {
			return nil
		}
		r.progress.at("%d enqueues under way", n)
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// open reports whether a job is pending, running or in an inbox.
func (r jobsByShard) open(ctx context.Context) (bool, error) {
	shards := cassandra.NewShards(r.db)
	for _, id := range r.plan.Shards() {
		h, err := shards.Look(ctx, id, false)
		if err != nil {
			return true, err
		}
		if h == nil { // its queue was not given more shards
			continue
		}
		for kind, low := range map[store.Kind]int64{store.KindPending: h.LowPending, store.KindRunning: h.LowRunning} {
			rows, err := shards.Scan(ctx, id, store.Range{Kind: kind, AfterAt: low, AfterID: lastID, UpTo: math.MaxInt64, Limit: 1})
			if err != nil || len(rows) > 0 {
				return true, err
			}
		}
		in, err := shards.InboxScan(ctx, id, "", store.AboveAll, 1)
		if err != nil || len(in) > 0 {
			return true, err
		}
	}
	return false, nil
}

// lastID is above every job's id.
const lastID = "\U0010FFFF"

// sealsAtOnce bounds the requests under way while a run is sealed.
const sealsAtOnce = 16

// seal seals every shard, as locks are sealed, then reads all of its rows, and then
// seals the sink's resource of each job that was ever claimed.
func (r jobsByShard) seal(ctx context.Context) error {
	shards := cassandra.NewShards(r.db)
	ids := r.plan.Shards()
	var claimed []claimedJob
	fences := map[string]claimedJob{}
	for i, id := range ids {
		r.progress.at("%d of %d shards sealed", i, len(ids))
		fence, err := r.seals.Shard(ctx, shards, id)
		if err != nil {
			r.seals.Trouble("shards", fmt.Errorf("seal %s: %w", id, err))
		}
		fences[engine.Issuer(id)] = claimedJob{shard: id, fence: fence}
		jobs, err := r.seals.Rows(ctx, shards, id)
		if err != nil {
			r.seals.Trouble("shards", fmt.Errorf("read %s: %w", id, err))
		}
		for _, j := range jobs {
			claimed = append(claimed, claimedJob{id, j, fence})
		}
	}
	if r.plan.Spec.Workload.Jobs.Dedupe.D() < workload.DedupeWindow {
		claimed = append(claimed, r.swept(fences, claimed)...)
	}
	r.progress.at("sealing the sink's %d resources", len(claimed))
	var g errgroup.Group
	g.SetLimit(sealsAtOnce)
	for _, c := range claimed {
		g.Go(func() error {
			res, token := worker.Resource(job.Job{Queue: c.shard.Queue, ID: c.id}), int64(job.FirstRunID(c.fence+1))
			r.seals.Resource(ctx, r.sink.client, res, engine.Issuer(c.shard), token)
			return nil
		})
	}
	return g.Wait() // none has an error
}

// swept are the jobs that were claimed and of which no row tells any more, by what their workers
// have recorded: the sink has resources of them too. A resource that is left out there, P14 misses.
func (r jobsByShard) swept(fences map[string]claimedJob, known []claimedJob) (out []claimedJob) {
	seen := map[claimedJob]bool{}
	for _, c := range known {
		seen[c] = true
	}
	r.seals.Trouble("jobs that were swept", history.AllOf(r.historyDir()).Next(func(e *history.Event) {
		at, ok := fences[e.Key]
		if !ok {
			return
		}
		for _, c := range e.Changes() {
			if at.id = job.ID(c.Job); c.Do == history.DoClaim && !seen[at] {
				seen[at] = true
				out = append(out, at)
			}
		}
	}))
	return out
}

type claimedJob struct {
	shard store.ShardID
	id    job.ID
	fence int64 // that the shard was sealed with
}

// byOrders are jobs of the core that are a shop's orders.
type byOrders struct{ jobsByShard }

// prepare makes the shop's tables too, and fills its stock.
func (r byOrders) prepare(ctx context.Context, cfg *fleet.Config) error {
	if err := r.jobsByShard.prepare(ctx, cfg); err != nil {
		return err
	}
	o := r.plan.Spec.Workload.Jobs.Orders
	cfg.Worker.Jobs.Orders = &workload.Orders{Items: o.Items, Hold: o.Hold.D()}
	tables, ok := r.sink.client.(orders.Tables)
	if !ok {
		return fmt.Errorf("the sink %s has no transactions in which the shop's tables could change", r.sink.kind.Name)
	}
	return orders.Make(ctx, tables.Pool(), o.Items, o.Stock)
}

// seal writes every row of the shop's tables, as of one instant, into the history too.
func (r byOrders) seal(ctx context.Context) error {
	err := r.jobsByShard.seal(ctx)
	r.progress.at("reading the shop's tables")
	unread := orders.Read(ctx, r.sink.client.(orders.Tables).Pool(), func(b history.Book) { // prepare has looked
		r.note(history.Event{Op: history.NoteBook, Details: &history.Details{Book: &b}})
	})
	if unread != nil {
		r.seals.Trouble("the shop's tables", fmt.Errorf("read the shop's tables: %w", unread))
	}
	return err
}
