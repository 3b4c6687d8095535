package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fencepost/core/store"
)

var _ store.Runs = (*Session)(nil)

type runKey struct {
	job string
	run int64
}

// PutRuns implements store.Runs.
func (p *Session) PutRuns(ctx context.Context, d store.RunsDay, rows []store.RunRow) error {
	if err := tooLarge("put runs", len(rows), 0); err != nil {
		return err
	}
	return p.change(ctx, fmt.Sprintf("put runs %s %d", d.Shard, d.Day), func() { p.store.putRuns(d, rows) })
}

// change sends a request that cannot be refused.
func (p *Session) change(ctx context.Context, op string, do func()) error {
	_, err := askNamed(ctx, p, op, func(fate) (any, error) { do(); return nil, nil })
	return err
}

func (s *Store) putRuns(d store.RunsDay, rows []store.RunRow) {
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
func (p *Session) RunsOf(ctx context.Context, d store.RunsDay, job string) ([]store.RunRow, error) {
	return askNamed(ctx, p, fmt.Sprintf("runs of %s %d", job, d.Day), func(fate) ([]store.RunRow, error) {
		return p.store.runsWhere(d, func(k runKey) bool { return k.job == job }), nil
	})
}

// RunsOn implements store.Runs.
func (p *Session) RunsOn(ctx context.Context, d store.RunsDay, afterJob string, afterRun int64, limit int) ([]store.RunRow, error) {
	out, err := askNamed(ctx, p, fmt.Sprintf("runs on %s %d", d.Shard, d.Day), func(fate) ([]store.RunRow, error) {
		return p.store.runsWhere(d, func(k runKey) bool { return k.job > afterJob || k.job == afterJob && k.run > afterRun }), nil
	})
	return out[:min(len(out), max(limit, 0))], err
}

func (s *Store) runsWhere(d store.RunsDay, is func(runKey) bool) (out []store.RunRow) {
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
	return p.change(ctx, "beat "+name, func() { p.store.members[memberKey{cell, name}] = beat{nonce, time.Now().Add(keep)} })
}

// Leave implements store.Members.
func (p *Session) Leave(ctx context.Context, cell, name string) error {
	return p.change(ctx, "leave "+name, func() { delete(p.store.members, memberKey{cell, name}) })
}

// Members implements store.Members.
func (p *Session) Members(ctx context.Context, cell string) (map[string]string, error) {
	return askNamed(ctx, p, "members "+cell, func(fate) (map[string]string, error) {
		out := map[string]string{}
		for k, b := range p.store.members {
			if k.cell == cell && time.Now().Before(b.until) {
				out[k.name] = b.nonce
			}
		}
		return out, nil
	})
}
