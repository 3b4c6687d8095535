package broken

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/workload"
)

// takeoverPlainWrite reads the row and, if nothing has changed, writes it
// without a condition. Between the two it stands still for longer than a
// contender's polling interval (ttl/8), as a busy process may: two contenders
// then both find the row unchanged, in every run.
func takeoverPlainWrite(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
	return plainTakeover{inner, db, cfg.TTL / 7}
}

type plainTakeover struct {
	store.Locks
	db     *cassandra.DB
	window time.Duration
}

func (p plainTakeover) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	takeover := from != nil && from.Holder != "" && to.Holder != "" && to.Fence == from.Fence+1
	if !takeover {
		return p.Locks.CAS(ctx, resource, from, to, copyNo)
	}
	row, err := p.Read(ctx, resource, false)
	if err != nil {
		return store.CASResult{}, err
	}
	if !store.Same(row, from) {
		return store.CASResult{Row: row}, nil
	}
	t := time.NewTimer(p.window)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	err = p.db.Exec(ctx, `UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ?`,
		to.Fence, to.Beat, to.Attempt, to.Holder, to.TTL.Milliseconds(), resource)
	return store.CASResult{Applied: err == nil}, err
}

// sinkNoTokenCheck records tokens like the real sink but accepts every effect.
func sinkNoTokenCheck(_ workload.Config, db *cassandra.DB, inner sink.Sink) sink.Sink {
	return uncheckedSink{inner, db}
}

type uncheckedSink struct {
	sink.Sink
	db *cassandra.DB
}

func (s uncheckedSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	for {
		st, err := s.Read(ctx, resource)
		if err != nil {
			return sink.Answer{}, err
		}
		seq := st.Seq + 1
		applied, _, err := s.db.CAS(ctx, 0,
			store.Statement{
				CQL:  `UPDATE sink SET value = ?, last_seq = ?, highest = ? WHERE resource = ? AND kind = 0 AND seq = 0 AND key = '' IF last_seq = ?`,
				Args: []any{e.Value, seq, max(token, st.Seen), resource, st.Seq}, Partition: []any{resource},
			},
			store.Statement{
				CQL:  `INSERT INTO sink (resource, kind, seq, key, issuer, fence, value, entry, effect_key) VALUES (?, 2, ?, '', ?, ?, ?, 'accept', ?)`,
				Args: []any{resource, seq, issuer, token, e.Value, e.Key},
			})
		if err != nil {
			return sink.Answer{}, fmt.Errorf("unchecked accept: %w", err)
		}
		if applied {
			return sink.Answer{Result: sink.Applied, FirstToken: token, Seen: max(token, st.Seen), Seq: seq}, nil
		}
	}
}
