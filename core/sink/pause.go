package sink

import (
	"context"
	"math/rand/v2"
	"time"

	"fencepost/core/clock"
)

// Pause is the time between copies of a request that was answered by an error: 20 ms at first,
// doubling to 1 s, with jitter of half of it either way. The zero value is ready.
type Pause struct{ next time.Duration }

// Wait waits, or until ctx ends.
func (p *Pause) Wait(ctx context.Context) {
	d := max(p.next, 20*time.Millisecond)
	_ = clock.Go().Sleep(ctx, d/2+rand.N(d))
	p.next = min(2*d, time.Second)
}
