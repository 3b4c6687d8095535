package runlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Outcomes of runs.
const (
	Completed = "completed"
	Failed    = "failed" // and tried again
	DLQ       = "dlq"
	Cancelled = "cancelled"
	Rescued   = "rescued"   // its owner lost the shard while it was running: tried again
	Abandoned = "abandoned" // likewise, and not tried again
	Lost      = "lost"      // it ended after its owner had lost the shard
)

var outcomes = map[engine.StepKind]string{
	engine.StepComplete: Completed, engine.StepRetry: Failed, engine.StepDLQ: DLQ,
	engine.StepCancel: Cancelled, engine.StepRescue: Rescued, engine.StepAbandon: Abandoned,
}

// Options configure a Log. Store and Worker are needed.
type Options struct {
	Store  store.Runs
	Worker string // the name of this process
	// Interval is for how long rows are gathered; default 1 s.
	Interval time.Duration
	// Most is how many rows may wait to be written; default 10,000.
	Most int
	// Timeout bounds one write, and the last writes together; default 5 s.
	Timeout time.Duration
	// Clock defaults to clock.System(), Wall to time.Now.
	Clock clock.Clock
	Wall  func() time.Time
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Log notes and writes runs. Safe for concurrent use.
type Log struct {
	o Options

	mu     sync.Mutex
	reigns map[reign]atWork
	lost   map[store.ShardID]int64 // the last fence that was lost
	rows   []waitingRow
	kept   int // rows, and those that are being written
	stats  Stats
	// warned: somebody was told at warnedAt of rows that were dropped.
	warned   bool
	warnedAt time.Duration
}

// Stats counts rows.
type Stats struct{ Written, Dropped int64 }

// reign is an ownership of a shard.
type reign struct {
	shard store.ShardID
	fence int64
}

// atWork are the runs of an ownership that are not settled.
type atWork map[job.RunID]*run

type run struct {
	row      store.RunRow
	finished bool
}

// waitingRow is to be written; tries counts the times that it was not.
type waitingRow struct {
	day   store.RunsDay
	row   store.RunRow
	tries int
}

// New makes a log; Run writes it.
func New(o Options) *Log {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Most <= 0 {
		o.Most = 10_000
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	o.Clock = cmp.Or(o.Clock, clock.System())
	if o.Wall == nil {
		o.Wall = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return &Log{o: o, reigns: map[reign]atWork{}, lost: map[store.ShardID]int64{}}
}

// Stats returns how many rows were written and dropped so far.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Step takes a step of the engine (engine.Watch). It does not wait for anything.
func (l *Log) Step(s engine.Step) {
	switch s.Kind {
	case engine.StepStart, engine.StepFinish, engine.StepLost:
	default:
		if outcomes[s.Kind] == "" || s.Run == 0 {
			return // not about a run, or its job never had one
		}
	}
	now := l.o.Wall()
	l.mu.Lock()
	defer l.mu.Unlock()
	of := reign{s.Shard, s.Fence}
	switch s.Kind {
	case engine.StepStart:
		l.at(of, s).row.Started = now
	case engine.StepFinish:
		r := l.at(of, s)
		r.row.Ended, r.finished = now, true
		if s.Err != nil {
			r.row.Error = store.NoteOf(s.Err)
		}
		if l.lost[of.shard] >= of.fence {
			l.end(of, s.Run, Lost)
		}
	case engine.StepLost:
		l.lost[of.shard] = of.fence
		for id, r := range l.reigns[of] {
			if r.finished {
				l.end(of, id, Lost)
			}
		}
	default:
		l.settled(of, s, now)
	}
}

// at is the run of a step, as it was noted before.
func (l *Log) at(of reign, s engine.Step) *run {
	w := l.reigns[of]
	if w == nil {
		w = atWork{}
		l.reigns[of] = w
	}
	r := w[s.Run]
	if r == nil {
		r = &run{row: store.RunRow{Job: string(s.Job), Run: int64(s.Run), Attempt: s.Attempt, Worker: l.o.Worker}}
		w[s.Run] = r
	}
	return r
}

// settled: it is certain what became of a run.
func (l *Log) settled(of reign, s engine.Step, now time.Time) {
	if s.Err != nil {
		return // the store refuses even that: a later owner will try again
	}
	if l.reigns[of][s.Run] != nil {
		l.end(of, s.Run, outcomes[s.Kind])
		return
	}
	// Else it is about a run of another owner, or about a job that is pending: the
	// last run of that has its row.
	if s.Run.Fence() < s.Fence && s.Kind != engine.StepCancel {
		l.add(waitingRow{day: store.RunsDay{Shard: of.shard, Day: store.DayOf(now)},
			row: store.RunRow{Job: string(s.Job), Run: int64(s.Run), Attempt: s.Attempt, Outcome: outcomes[s.Kind]}})
	}
}

// end hands a run's row to the writer.
func (l *Log) end(of reign, id job.RunID, outcome string) {
	r := l.reigns[of][id]
	if delete(l.reigns[of], id); len(l.reigns[of]) == 0 {
		delete(l.reigns, of)
	}
	r.row.Outcome = outcome
	l.add(waitingRow{day: store.RunsDay{Shard: of.shard, Day: store.DayOf(r.row.Ended)}, row: r.row})
}

func (l *Log) add(w waitingRow) {
	if l.kept >= l.o.Most {
		l.drop(1, nil)
		return
	}
	l.kept++
	l.rows = append(l.rows, w)
}

// warnEvery is how often is warned of rows that are dropped.
const warnEvery = time.Minute

func (l *Log) drop(n int, why error) {
	l.stats.Dropped += int64(n)
	now := l.o.Clock.Now()
	if l.warned && now-l.warnedAt < warnEvery {
		return
	}
	l.warned, l.warnedAt = true, now
	l.o.Logger.Warn("run history rows dropped: the store is too slow", "dropped", l.stats.Dropped, "waiting", l.kept, "error", why)
}

// Run writes until ctx ends, and then what is left.
func (l *Log) Run(ctx context.Context) {
	for l.o.Clock.Sleep(ctx, l.o.Interval) == nil {
		l.write(ctx)
	}
	last, stop := l.timeout(context.WithoutCancel(ctx))
	defer stop()
	for n := 0; n < mostTries && !l.write(last); n++ {
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.rows); n > 0 {
		l.rows, l.kept = nil, 0
		l.drop(n, context.Cause(last))
	}
}

// mostTries is how often a row is sent: one that the store never takes must not stand
// in the way of the others.
const mostTries = 5

// mostAtOnce is how many rows go into one request.
const mostAtOnce = 100

// write writes what waits, a request for each partition and so many rows, until one
// fails. It reports whether all was written; what was not waits again.
func (l *Log) write(ctx context.Context) bool {
	parts := l.parts()
	for i, part := range parts {
		if err := l.put(ctx, part); err != nil {
			l.failed(part, slices.Concat(parts[i+1:]...), err)
			return false
		}
		l.mu.Lock()
		l.stats.Written += int64(len(part))
		l.kept -= len(part)
		l.mu.Unlock()
	}
	return true
}

// parts takes what waits, by partition.
func (l *Log) parts() (parts [][]waitingRow) {
	l.mu.Lock()
	rows := l.rows
	l.rows = nil
	l.mu.Unlock()
	slices.SortStableFunc(rows, func(a, b waitingRow) int {
		return cmp.Or(cmp.Compare(a.day.Shard.Queue, b.day.Shard.Queue), cmp.Compare(a.day.Shard.Shard, b.day.Shard.Shard), cmp.Compare(a.day.Day, b.day.Day))
	})
	for len(rows) > 0 {
		n := 1
		for n < min(len(rows), mostAtOnce) && rows[n].day == rows[0].day {
			n++
		}
		parts, rows = append(parts, rows[:n]), rows[n:]
	}
	return parts
}

// failed takes the end of a request, and what was not sent because of it.
func (l *Log) failed(part, rest []waitingRow, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := 0
	for _, w := range part {
		if w.tries++; w.tries < mostTries {
			rest = append(rest, w)
		} else {
			dropped++
		}
	}
	l.rows = append(rest, l.rows...)
	if dropped > 0 {
		l.kept -= dropped
		l.drop(dropped, err)
	}
}

func (l *Log) put(ctx context.Context, part []waitingRow) error {
	rows := make([]store.RunRow, len(part))
	for i, w := range part {
		rows[i] = w.row
	}
	ctx, stop := l.timeout(ctx)
	defer stop()
	return l.o.Store.PutRuns(ctx, part[0].day, rows)
}

var errTimeout = errors.New("runlog: no answer in time")

func (l *Log) timeout(ctx context.Context) (context.Context, func()) {
	return clock.WithTimeout(ctx, l.o.Clock, l.o.Timeout, errTimeout)
}

// MostDays is how many days RunsOf looks through: rows are forgotten after two weeks.
const MostDays = 15

// RunsOf returns the runs of a job that ended from one instant to another, on at most
// MostDays days, by run. The error is a *job.InvalidError, or the store's.
func RunsOf(ctx context.Context, s store.Runs, queue string, id job.ID, from, to time.Time) ([]store.RunRow, error) {
	shard, err := id.Shard()
	if err != nil {
		return nil, err
	}
	first, last := store.DayOf(from), store.DayOf(to)
	if last < first || last-first >= MostDays {
		return nil, &job.InvalidError{Field: "days", Reason: fmt.Sprintf("from %s to %s: want 1 to %d days, as no row is older", from.UTC().Format(time.DateOnly), to.UTC().Format(time.DateOnly), MostDays)}
	}
	var out []store.RunRow
	for day := first; day <= last; day++ {
		rows, err := s.RunsOf(ctx, store.RunsDay{Shard: store.ShardID{Queue: queue, Shard: shard}, Day: day}, string(id))
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortStableFunc(out, func(a, b store.RunRow) int { return cmp.Compare(a.Run, b.Run) })
	return out, nil
}
