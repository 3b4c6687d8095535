package store

import (
	"context"
	"time"
)

// Members is the store of heartbeats: plain writes and reads, which advise who
// should own what and decide nothing. Implementations are safe for concurrent use.
type Members interface {
	// Beat writes a heartbeat: a nonce (a UUID) that no other beat has. The row
	// vanishes after keep, in whole seconds, by the store's own clocks.
	Beat(ctx context.Context, cell, name, nonce string, keep time.Duration) error
	// Leave removes the row.
	Leave(ctx context.Context, cell, name string) error
	// Members returns the nonces of the cell's rows by name. It may be late.
	Members(ctx context.Context, cell string) (map[string]string, error)
}
