package query

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

// Limits of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 200
	// shardsAPage bounds the shards that a page looks at.
	shardsAPage = 32
	// atOnce is how many requests of a page are on their way at the same time.
	atOnce = 8
)

// Page asks for a part of a list.
type Page struct {
	// Limit is the most jobs, or schedules, that are looked at, 1 to MaxLimit; 0: DefaultLimit.
	Limit int
	// After is the Next of the page before; "": from the beginning.
	After string
}

// cursor is the place of the last row that was looked at.
type cursor struct {
	List  string `json:"l"` // of which list
	Shard int    `json:"s"`
	At    int64  `json:"a"`
	ID    string `json:"i"` // "": at the shard's beginning
	// Jobs is how many of the jobs that the row names were looked at; 0: all.
	Jobs int `json:"n,omitempty"`
}

// rest is the part of rows, from the cursor's on, that was not looked at: a row for each job, and the cursor
// behind each.
func (c cursor) rest(rows []store.Row) (out []store.Row, behind []cursor) {
	for _, row := range rows {
		at := store.Key{Kind: row.Kind, At: c.At, ID: c.ID}
		if row.Less(at) {
			continue
		}
		each := row.Each()
		for n, one := range each {
			if row.Key == at && n < c.Jobs {
				continue
			}
			next := cursor{List: c.List, Shard: c.Shard, At: row.At, ID: row.ID, Jobs: n + 1}
			if next.Jobs == len(each) {
				next.Jobs = 0
			}
			out, behind = append(out, one), append(behind, next)
		}
	}
	return out, behind
}

func (c cursor) String() string {
	b, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(b)
}

// PageError is a limit or a cursor that cannot be used.
type PageError struct{ Field, Reason string }

func (e *PageError) Error() string { return "query: " + e.Field + " " + e.Reason }

func (p Page) parse(list string, shards int) (cursor, int, error) {
	c := cursor{List: list}
	switch {
	case p.Limit == 0:
		p.Limit = DefaultLimit
	case p.Limit < 0 || p.Limit > MaxLimit:
		return c, 0, &PageError{"limit", fmt.Sprintf("is %d: want 1 to %d", p.Limit, MaxLimit)}
	}
	if p.After == "" {
		return c, p.Limit, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || c.List != list || c.Shard < 0 || c.Shard >= shards || c.Jobs < 0 || c.Jobs > 0 && c.ID == "" {
		return c, 0, &PageError{"after", "is not the next of a page of this list"}
	}
	return c, p.Limit, nil
}

// afterAll is above any id.
const afterAll = "\x7f"

// walk hands rows of a kind to see, shard by shard, and returns where it ended: "" if
// there is no more. low is the mark below which a shard has none of them.
func (r *Reader) walk(ctx context.Context, list, queue string, p Page, kind store.Kind, low func(store.Header) int64, upTo int64, see func(store.ShardID, []store.Row) error) (next string, err error) {
	size, err := r.Size(ctx, queue)
	if err != nil {
		return "", err
	}
	shards := size.Shards
	c, left, err := p.parse(list, shards)
	if err != nil {
		return "", err
	}
	for end := c.Shard + shardsAPage; c.Shard < shards; c = (cursor{List: list, Shard: c.Shard + 1}) {
		if left == 0 || c.Shard == end {
			return c.String(), nil
		}
		s := store.ShardID{Queue: queue, Shard: c.Shard}
		rng := store.Range{Kind: kind, AfterAt: c.At, AfterID: c.ID, UpTo: upTo, Limit: left}
		if c.ID == "" {
			rng.AfterAt, rng.AfterID = -1, afterAll
			if low != nil {
				h, err := r.header(ctx, s)
				if err != nil {
					return "", err
				}
				rng.AfterAt = low(h)
			}
		}
		if c.Jobs > 0 {
			rng.AfterID, rng.Limit = c.ID[:len(c.ID)-1], left+1 // from the row itself on
		}
		all, err := r.scan(ctx, s, rng)
		if err != nil {
			return "", err
		}
		rows, behind := c.rest(all)
		rows = rows[:min(left, len(rows))]
		if err := see(s, rows); err != nil {
			return "", err
		}
		if left -= len(rows); left == 0 {
			return behind[len(rows)-1].String(), nil
		}
	}
	return "", nil
}

func (r *Reader) scan(ctx context.Context, s store.ShardID, rng store.Range) ([]store.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	return r.o.Shards.Scan(ctx, s, rng)
}

// Jobs lists the jobs of a queue that are in a state. The error is a *PageError, a
// *job.InvalidError of queue or state, or the store's.
func (r *Reader) Jobs(ctx context.Context, queue string, state job.State, p Page) (jobs []Job, next string, err error) {
	kind, low := store.KindEnded, func(h store.Header) int64 { return h.LowEnded }
	switch state {
	case job.Pending:
		kind, low = store.KindPending, func(h store.Header) int64 { return h.LowPending }
	case job.Running:
		kind, low = store.KindRunning, func(h store.Header) int64 { return h.LowRunning }
	case job.DLQ:
		kind, low = store.KindDLQ, nil
	case job.Completed, job.Cancelled, job.Abandoned:
	default:
		return nil, "", &job.InvalidError{Field: "state", Reason: fmt.Sprintf("is %q: want pending, running, completed, dlq, cancelled or abandoned", state)}
	}
	next, err = r.walk(ctx, string(state), queue, p, kind, low, math.MaxInt64, func(s store.ShardID, rows []store.Row) error {
		if kind == store.KindEnded {
			ended, err := r.ended(ctx, s, rows, state)
			jobs = append(jobs, ended...)
			return err
		}
		for _, row := range rows {
			jobs = append(jobs, ofBody(s, state, row))
		}
		return nil
	})
	return jobs, next, err
}

// ofBody is a job as the row with its body shows it.
func ofBody(s store.ShardID, state job.State, row store.Row) Job {
	j := Job{ID: job.ID(row.ID), Queue: s.Queue, State: state, Attempts: row.Attempt, Run: job.RunID(row.Run)}
	if state == job.DLQ {
		j.Ended = time.UnixMilli(row.At)
	} else {
		j.Due = time.UnixMilli(row.Due)
	}
	j.take(row)
	return j
}

// ended reads the states of jobs that have ended, and returns those that are asked for.
func (r *Reader) ended(ctx context.Context, s store.ShardID, rows []store.Row, state job.State) ([]Job, error) {
	all := make([]Job, len(rows))
	err := each(len(rows), func(i int) error {
		row, err := r.row(ctx, s, store.Key{Kind: store.KindJob, ID: rows[i].ID})
		if row != nil {
			all[i] = ofState(s, *row)
		}
		return err
	})
	var out []Job
	for _, j := range all {
		if j.State == state {
			out = append(out, j)
		}
	}
	return out, err
}

// each calls f for 0 to n-1, some at once.
func each(n int, f func(int) error) error {
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			errs[i] = f(i)
			return nil
		})
	}
	_ = g.Wait() // all errors count, not the first alone
	return errors.Join(errs...)
}

// Schedules lists the schedules of a queue. The error is a *PageError, a
// *job.InvalidError of the queue, or the store's.
func (r *Reader) Schedules(ctx context.Context, queue string, p Page) (out []Schedule, next string, err error) {
	next, err = r.walk(ctx, "schedules", queue, p, store.KindSchedule, nil, engine.AtDefinition, func(s store.ShardID, rows []store.Row) error {
		states := make([]*store.Row, len(rows))
		err := each(len(rows), func(i int) (err error) {
			states[i], err = r.row(ctx, s, store.Key{Kind: store.KindSchedule, At: engine.AtState, ID: rows[i].ID})
			return err
		})
		for i, row := range rows {
			out = append(out, ofRows(row, states[i]))
		}
		return err
	})
	return out, next, err
}

// MaxDays is how many days the history of runs is kept.
const MaxDays = 14

// Runs reads a job's runs that have ended within the last days, 1 to MaxDays, the
// latest first, from the history of runs: it is for people, and may lack some.
func (r *Reader) Runs(ctx context.Context, queue string, id job.ID, now time.Time, days int) ([]store.RunRow, error) {
	s, err := r.o.Queues.Place(ctx, queue, id)
	if err != nil {
		return nil, err
	}
	if days < 1 || days > MaxDays {
		return nil, &PageError{"days", fmt.Sprintf("is %d: want 1 to %d", days, MaxDays)}
	}
	if r.o.Runs == nil {
		return nil, nil
	}
	found := make([][]store.RunRow, days)
	err = each(days, func(i int) (err error) {
		ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
		defer cancel()
		found[i], err = r.o.Runs.RunsOf(ctx, store.RunsDay{Shard: s, Day: store.DayOf(now) - i}, string(id))
		return err
	})
	var out []store.RunRow
	for _, rows := range found {
		for i := range rows {
			out = append(out, rows[len(rows)-1-i])
		}
	}
	return out, err
}
