package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/core/clock"
)

// A suite looks at every row in the end. readTimeout bounds a read, readTries how often it
// is repeated: it has no effect. readers work at the same time.
const (
	readTimeout = 10 * time.Second
	readPause   = 200 * time.Millisecond
	readTries   = 5
	readers     = 16
)

// Read repeats a read that failed.
func Read[T any](ctx context.Context, f func(context.Context) (T, error)) (out T, err error) {
	for range readTries {
		rctx, cancel := context.WithTimeout(ctx, readTimeout)
		out, err = f(rctx)
		cancel()
		if err == nil || clock.Go().Sleep(ctx, readPause) != nil {
			return out, err
		}
	}
	return out, err
}

// Each calls f for 0 to n-1, some at a time, until one fails.
func Each(n int, f func(i int) error) error {
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(readers)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}
