package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fencepost/core/store"
)

var _ store.Runs = (*Session)(nil)

var errTooMany = errors.New("sim: too many rows")

type runKey struct {
	job string
	run int64
}

// PutRuns implements store.Runs.
func (p *Session) PutRuns(ctx context.Context, d store.RunsDay, rows []store.RunRow) error {
	if len(rows) > store.MaxOps {
		return &store.Error{Op: "put runs", Outcome: store.Fail, Cause: errTooMany}
	}
	return p.Call(ctx, fmt.Sprintf("put runs %s %d", d.Shard, d.Day), func() { p.store.putRuns(d, rows) })
}

func (s *Store) putRuns(d store.RunsDay, rows []store.RunRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[d] == nil {
		s.runs[d] = map[runKey]store.RunRow{}
	}
	for _, row := range rows {
		k := runKey{row.Job, row.Run}
		if old := s.runs[d][k]; row.Worker == "" {
			row.Worker, row.Started, row.Ended, row.Error = old.Worker, old.Started, old.Ended, old.Error
		}
		s.runs[d][k] = row
	}
}

// RunsOf implements store.Runs.
func (p *Session) RunsOf(ctx context.Context, d store.RunsDay, job string) (out []store.RunRow, err error) {
	err = p.Call(ctx, fmt.Sprintf("runs of %s %d", job, d.Day), func() {
		out = p.store.runsWhere(d, func(k runKey) bool { return k.job == job })
	})
	return out, err
}

// RunsOn implements store.Runs.
func (p *Session) RunsOn(ctx context.Context, d store.RunsDay, afterJob string, afterRun int64, limit int) (out []store.RunRow, err error) {
	err = p.Call(ctx, fmt.Sprintf("runs on %s %d", d.Shard, d.Day), func() {
		out = p.store.runsWhere(d, func(k runKey) bool { return k.job > afterJob || k.job == afterJob && k.run > afterRun })
	})
	return out[:min(len(out), max(limit, 0))], err
}

func (s *Store) runsWhere(d store.RunsDay, is func(runKey) bool) (out []store.RunRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, row := range s.runs[d] {
		if is(k) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b store.RunRow) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Run, b.Run)) })
	return out
}

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
