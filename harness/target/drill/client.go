package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

// requestTimeout is above every limit of the server (5 s), so that the
// coordinator's own answer always comes first: only that ends an attempt.
const requestTimeout = 15 * time.Second

// recorder is what a client needs of history.Recorder.
type recorder interface {
	NewID() int64
	Record(history.Event) int64
}

// client is an actor on lock rows that records what it does.
type client struct {
	proc  string
	locks store.Locks
	rec   recorder
}

// result is how a compare-and-set ended.
type result struct {
	applied bool
	row     *store.Version // that was there instead
	err     error
}

func (r result) String() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.applied:
		return "applied"
	}
	return "rejected by " + r.row.String()
}

// grant is the version by which the client takes a row over.
func (c *client) grant(row *store.Version) store.Version {
	v := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: c.proc, TTL: LeaseTTL}
	if row != nil {
		v.Fence = row.Fence + 1
	}
	return v
}

// freed is held after its release.
func freed(held store.Version) store.Version {
	held.Beat++
	held.Attempt, held.Holder = uuid.NewString(), ""
	return held
}

// renewed is held after a renewal.
func renewed(held store.Version) store.Version {
	held.Beat++
	return held
}

// begin records an invocation, and returns what its end repeats.
func (c *client) begin(e history.Event) history.Event {
	e.Proc, e.ID, e.Type = c.proc, c.rec.NewID(), history.Invoke
	c.rec.Record(e)
	e.From, e.To, e.Takeover = nil, nil, false
	return e
}

// cas makes one compare-and-set, in one copy.
func (c *client) cas(ctx context.Context, op history.Op, key string, from *store.Version, to store.Version) result {
	e := c.begin(history.Event{
		Op: op, Key: key, From: workload.Version(from), To: workload.Version(&to), Takeover: op == history.OpAcquire && !from.Free(),
	})
	e.Sends = []int64{history.Now()}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := c.locks.CAS(ctx, key, from, to, 0)
	switch {
	case err != nil:
		e.Type, e.Error, e.ServerTimeout = history.Unknown, err.Error(), store.IsServerTimeout(err)
		if store.OutcomeOf(err) == store.Fail {
			e.Type = history.Fail
		}
	case res.Applied:
		e.Type = history.OK
	default:
		e.Type, e.Row = history.Fail, workload.Version(res.Row)
	}
	c.rec.Record(e)
	return result{applied: err == nil && res.Applied, row: res.Row, err: err}
}

// read makes a SERIAL read. One that is not answered is made again.
func (c *client) read(ctx context.Context, key string) (*store.Version, error) {
	for n := 0; ; n++ {
		e := c.begin(history.Event{Op: history.OpRead, Key: key})
		try, cancel := context.WithTimeout(ctx, requestTimeout)
		row, err := c.locks.Read(try, key, true)
		cancel()
		if err == nil {
			e.Type, e.Row = history.OK, workload.Version(row)
			c.rec.Record(e)
			return row, nil
		}
		e.Type, e.Error = history.Unknown, err.Error()
		c.rec.Record(e)
		if n == 4 {
			return nil, fmt.Errorf("SERIAL read of %s by %s: not answered in %d tries: %w", key, c.proc, n+1, err)
		}
		if pauseErr := pause(ctx, 100*time.Millisecond); pauseErr != nil {
			return nil, errors.Join(err, pauseErr)
		}
	}
}

// seal is the last write of a row: no delayed copy of another can apply after it.
func (c *client) seal(ctx context.Context, key string) error {
	for {
		row, err := c.read(ctx, key)
		if err != nil {
			return err
		}
		to := c.grant(row)
		to.Holder = ""
		if c.cas(ctx, history.OpSeal, key, row, to).applied {
			_, err := c.read(ctx, key)
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// expiry records the end that the server gives a row with a TTL by itself: asked
// for now, never answered.
func (c *client) expiry(key string, v store.Version) {
	to := expired(v)
	e := c.begin(history.Event{Op: history.OpRelease, Key: key, From: workload.Version(&v), To: workload.Version(&to)})
	e.Type, e.Error = history.Unknown, "the TTL ends the lease on the server; nobody answers when"
	c.rec.Record(e)
}

// expired is what is left of a row when its holder's TTL is over.
func expired(v store.Version) store.Version {
	v.Holder = ""
	return v
}

// plainWriter is rows that can be written without a condition.
type plainWriter interface {
	// Plain writes a row as of a time, which decides what the write wins against.
	Plain(ctx context.Context, resource string, v store.Version, at time.Time) error
}

// plain takes a free lock by a plain write, as of a time by the client's own clock.
func (c *client) plain(ctx context.Context, key string, to store.Version, at time.Time) error {
	e := c.begin(history.Event{Op: history.OpAcquire, Key: key, From: workload.Version(nil), To: workload.Version(&to)})
	e.Sends = []int64{history.Now()}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.locks.(plainWriter).Plain(ctx, key, to, at)
	if e.Type = history.OK; err != nil {
		e.Type, e.Error = history.Unknown, err.Error()
	}
	c.rec.Record(e)
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	if clock.Go().Sleep(ctx, d) != nil {
		return ctx.Err()
	}
	return nil
}
