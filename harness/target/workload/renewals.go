package workload

import (
	"context"
	"errors"
	"math"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// byHandAlone: no lease of the worker is renewed unless its holder does it.
func (c Config) byHandAlone() bool { return c.Lock.Renew > 0 && c.workerNumber()%2 == 0 }

// work lasts for so long, or until the lease ends. If the holder renews by hand it does so once at
// least, and a quarter of the ttl apart at most. It goes on when a renewal fails, as the lease may
// still be its own; one that is lost has a last renewal, which must fail.
func (c *client) work(lease Lease, hold time.Duration) {
	if l := c.cfg.Lock; l.Renew == 0 || !c.cfg.byHandAlone() && c.rng.Float64() >= l.Renew {
		sleep(lease.Context(), hold)
		return
	}
	ttl := c.cfg.TTLOf(lease.Resource(), c.proc)
	for every := min(c.around(hold/2), ttl/4); hold > every && lease.Valid(); hold -= every {
		sleep(lease.Context(), every)
		c.renew(lease, ttl)
	}
	sleep(lease.Context(), hold)
}

// renew renews by hand, and records how that ended. One call in three has a limit of a few ms,
// or of up to the ttl: the next one, or the release, goes on with what it has begun.
func (c *client) renew(lease Lease, ttl time.Duration) {
	ctx := context.Background()
	if c.rng.IntN(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.drawLimit(ttl))
		defer cancel()
	}
	e := history.Event{Proc: c.proc, ID: c.rec.NewID(), Type: history.Invoke, Op: history.OpExtend, Key: lease.Resource(), Token: lease.Token()}
	c.rec.Record(e)
	err := lease.Renew(ctx)
	e.Type, e.Token, e.Error = endType(store.OutcomeOf(err)), 0, errText(err)
	if errors.As(err, new(*lock.LostError)) || errors.Is(err, lock.ErrReleased) {
		e.Type = history.Fail
	}
	c.rec.Record(e)
}

// drawLimit draws a limit: as many of a few ms, within a request, as of seconds, while another holds.
func (c *client) drawLimit(ttl time.Duration) time.Duration {
	return time.Duration(float64(shortest) * math.Pow(float64(ttl/shortest), c.rng.Float64())).Round(time.Millisecond)
}
