package enginetest

import (
	"context"
	"errors"
	"time"

	"fencepost/core/engine"
)

// move has a process hand a shard over to the next one, if it has one, and goes on. After so long
// it does not wait any more.
func (w *World) move(ctx context.Context, p *process, patience time.Duration) {
	to := w.at((p.node + 1) % w.cfg.nodes)
	for _, id := range w.shardIDs() {
		if !p.eng.Owns(id) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := p.eng.HandOver(ctx, id, to.name)
		switch {
		case !p.answered():
		case err == nil:
			w.count("moved")
			_ = p.client.Glance(ctx, to.name, id) // it may be lost
		case errors.Is(err, engine.ErrRunsGoOn), ctx.Err() != nil:
			w.count("move-kept")
		}
		return
	}
}
