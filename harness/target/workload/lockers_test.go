package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/harness/record/history"
)

// endingLocker is closed after a time, or when its caller gives up.
type endingLocker struct {
	Locker
	takes time.Duration
}

func (l endingLocker) Close(ctx context.Context) error {
	select {
	case <-time.After(l.takes):
		return nil
	case <-ctx.Done():
		return errors.New("left")
	}
}

// TestALockClientIsClosedInFavourOfAnother: now and then, with the number of the one that is closed,
// which callers go on to ask meanwhile.
func TestALockClientIsClosedInFavourOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testClient(Config{Seed: 8, TTL: 6 * time.Second, Lock: LockLoad{Reopen: 2 * time.Second}})
		rec := &events{}
		opened := 1
		c.rec, c.clock = rec, clock.Go()
		c.lockers = &lockers{now: endingLocker{takes: time.Second}, n: 1, open: func(n int) (Locker, error) {
			if opened++; n != opened {
				t.Errorf("number %d is opened as the %dth", n, opened)
			}
			if len(rec.list) != 2*(n-1) {
				t.Errorf("%d is opened before %d is closed", n, n-1)
			}
			return endingLocker{takes: time.Second}, nil
		}}
		c.reopen()
		if opened != 1 {
			t.Error("closed by a client that closes nothing")
		}
		c.closes()
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			c.reopen()
		}
		ends := map[history.Type]int{}
		for i, e := range rec.list {
			if e.Op != history.OpClose || e.Session() != i/2+1 || (e.Type == history.Invoke) != (i%2 == 0) || i%2 == 0 && e.LimitMS() < 1 {
				t.Fatalf("%d: %+v", i, e)
			}
			ends[e.Type]++
		}
		if _, n := c.lockers.current(); opened < 30 || opened > 60 || n != opened || ends[history.OK] < 5 || ends[history.Unknown] < 3 {
			t.Errorf("%d opened, %v", opened, ends)
		}
		none := testClient(Config{Seed: 8})
		none.closes()
		none.reopen() // has no lock clients to close
	})
}
