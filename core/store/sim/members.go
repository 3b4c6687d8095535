package sim

import (
	"context"
	"maps"
	"time"

	"fencepost/core/store"
)

var _ store.Members = (*Session)(nil)

// memberKey is a heartbeat's place.
type memberKey struct{ cell, name string }

// beat is a heartbeat's row.
type beat struct {
	nonce string
	until time.Time
}

// Beat implements store.Members.
func (p *Session) Beat(ctx context.Context, cell, name, nonce string, keep time.Duration) error {
	return p.Call(ctx, "beat "+name, func() {
		p.store.mu.Lock()
		defer p.store.mu.Unlock()
		p.store.members[memberKey{cell, name}] = beat{nonce, time.Now().Add(keep)}
	})
}

// Leave implements store.Members.
func (p *Session) Leave(ctx context.Context, cell, name string) error {
	return p.Call(ctx, "leave "+name, func() {
		p.store.mu.Lock()
		defer p.store.mu.Unlock()
		delete(p.store.members, memberKey{cell, name})
	})
}

// Members implements store.Members.
func (p *Session) Members(ctx context.Context, cell string) (map[string]string, error) {
	out := map[string]string{}
	err := p.Call(ctx, "members "+cell, func() {
		p.store.mu.Lock()
		defer p.store.mu.Unlock()
		for k, b := range maps.All(p.store.members) {
			if k.cell == cell && time.Now().Before(b.until) {
				out[k.name] = b.nonce
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
