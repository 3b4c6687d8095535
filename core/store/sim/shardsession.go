package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"fencepost/core/store"
)

var _ store.Shards = (*Session)(nil)

// ErrInvalid is the cause of the refusal of a batch that Store.Refuses.
var ErrInvalid = errors.New("sim: invalid request")

// fateOf decides the fate of a copy of a request by its name and by how often the
// session has sent one of that name. Goroutines that wake at one instant run in no
// fixed order, so one stream for all requests would not replay.
func (p *Session) fateOf(name string) fate {
	p.mu.Lock()
	p.sent[name]++
	n := p.sent[name]
	f, cut := p.faults, p.cut
	p.mu.Unlock()
	return f.draw(rand.New(rand.NewPCG(p.seed^hash(p.name), hash(name)+n)), cut)
}

// Pause makes the process stand still: what it sends leaves, and what it is
// answered is heard, only after that long.
func (p *Session) Pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = time.Now().Add(d)
}

// Hold waits until the process no longer stands still or has crashed.
func (p *Session) Hold() {
	for {
		p.mu.Lock()
		d := time.Until(p.paused)
		p.mu.Unlock()
		if d <= 0 {
			return
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-p.crashed:
			timer.Stop()
			return
		}
	}
}

// Crashed is closed when the process crashes.
func (p *Session) Crashed() <-chan struct{} { return p.crashed }

// Call sends a request named name through the session's network; execute runs
// where it arrives. For tests that have other servers than the store on it.
func (p *Session) Call(ctx context.Context, name string, execute func()) error {
	p.Hold()
	err := p.call(ctx, name, p.fateOf(name), execute)
	p.Hold()
	return err
}

// EnsureQueue implements store.Shards.
func (p *Session) EnsureQueue(ctx context.Context, queue string, shards int) (int, error) {
	n := 0
	if err := p.Call(ctx, "queue "+queue, func() { n = p.store.ensureQueue(queue, shards) }); err != nil {
		return 0, err
	}
	return n, nil
}

// Look implements store.Shards.
func (p *Session) Look(ctx context.Context, s store.ShardID, serial bool) (*store.Header, error) {
	p.Hold()
	name := "look " + s.String()
	f := p.fateOf(name)
	var h *store.Header
	if err := p.call(ctx, name, f, func() { h = p.store.look(s, f.stale && !serial) }); err != nil {
		return nil, err
	}
	p.Hold()
	return h, nil
}

// Commit implements store.Shards.
func (p *Session) Commit(ctx context.Context, s store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	if len(b.Ops) > store.MaxOps {
		return store.CommitResult{}, &store.Error{Op: "commit", Outcome: store.Fail, Cause: fmt.Errorf("%d operations: %w", len(b.Ops), ErrInvalid)}
	}
	if size := b.Bytes(); size > store.MaxBytes {
		return store.CommitResult{}, &store.Error{Op: "commit", Outcome: store.Fail, Cause: fmt.Errorf("%d bytes: %w", size, ErrInvalid)}
	}
	var res store.CommitResult
	invalid := p.store.Refuses != nil && p.store.Refuses(b)
	err := p.Call(ctx, fmt.Sprintf("commit %s %d-%d", s, b.To.Fence, b.To.Tick), func() {
		if !invalid {
			res = p.store.commit(p.name, s, b)
		}
	})
	switch {
	case err != nil:
		return store.CommitResult{}, err
	case invalid:
		return store.CommitResult{}, &store.Error{Op: "commit", Outcome: store.Fail, Cause: ErrInvalid}
	}
	return res, nil
}

// Scan implements store.Shards.
func (p *Session) Scan(ctx context.Context, s store.ShardID, r store.Range) ([]store.Row, error) {
	var got []store.Row
	var failed error
	err := p.Call(ctx, fmt.Sprintf("scan %s %d", s, r.Kind), func() { got, failed = p.store.scan(s, r) })
	switch {
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, &store.Error{Op: "scan", Outcome: store.Fail, Cause: failed}
	}
	return got, nil
}

// Count implements store.Shards.
func (p *Session) Count(ctx context.Context, s store.ShardID, r store.Range) (int, error) {
	rows, err := p.Scan(ctx, s, r)
	return len(rows), err
}

// Row implements store.Shards.
func (p *Session) Row(ctx context.Context, s store.ShardID, k store.Key) (*store.Row, error) {
	var got *store.Row
	if err := p.Call(ctx, fmt.Sprintf("row %s %s", s, k), func() { got = p.store.row(s, k) }); err != nil {
		return nil, err
	}
	return got, nil
}

// InboxPut implements store.Shards.
func (p *Session) InboxPut(ctx context.Context, s store.ShardID, r store.InboxRow, _ int) (bool, string, error) {
	if size := r.Bytes(); size > store.MaxBytes {
		return false, "", &store.Error{Op: "inbox put", Outcome: store.Fail, Cause: fmt.Errorf("%d bytes: %w", size, ErrInvalid)}
	}
	var applied bool
	var existing string
	var failed error
	err := p.Call(ctx, "inbox put "+r.ID, func() { applied, existing, failed = p.store.inboxPut(s, r) })
	switch {
	case err != nil:
		return false, "", err
	case failed != nil:
		return false, "", &store.Error{Op: "inbox put", Outcome: store.Fail, Cause: failed}
	}
	return applied, existing, nil
}

// InboxDelete implements store.Shards.
func (p *Session) InboxDelete(ctx context.Context, s store.ShardID, id, nonce string, _ int) (bool, error) {
	var gone bool
	if err := p.Call(ctx, "inbox delete "+id, func() { gone = p.store.inboxDelete(s, id, nonce) }); err != nil {
		return false, err
	}
	return gone, nil
}

// InboxRow implements store.Shards.
func (p *Session) InboxRow(ctx context.Context, s store.ShardID, id string) (*store.InboxRow, error) {
	var got *store.InboxRow
	if err := p.Call(ctx, "inbox row "+id, func() { got = p.store.inboxRow(s, id) }); err != nil {
		return nil, err
	}
	return got, nil
}

// InboxScan implements store.Shards.
func (p *Session) InboxScan(ctx context.Context, s store.ShardID, after, upTo string, limit int) ([]store.InboxRow, error) {
	var got []store.InboxRow
	var failed error
	err := p.Call(ctx, "inbox scan "+s.String(), func() {
		p.store.mu.Lock()
		defer p.store.mu.Unlock()
		got, failed = p.store.inboxScan(s, after, upTo, limit)
	})
	switch {
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, &store.Error{Op: "inbox scan", Outcome: store.Fail, Cause: failed}
	}
	return got, nil
}
