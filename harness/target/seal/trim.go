package seal

import (
	"context"
	"time"

	"fencepost/core/clock"
	"fencepost/core/sink"
	"fencepost/harness/record/history"
)

// Trim has a sink forget what its resources accepted longer than age ago, again and again until ctx
// ends, as a caller does that keeps the sink small. What is in a ledger is in the history for half of
// the age when it is dropped, however late this process gets to it: so the whole of it can be judged,
// and a sink that drops what is younger than it was told leaves a gap.
func (s *Sealer) Trim(ctx context.Context, fenced sink.Sink, age time.Duration, resources ...string) {
	for ctx.Err() == nil {
		read := time.Now()
		for _, res := range resources {
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			s.Trouble("ledgers that are trimmed", s.archive(reading, fenced, res))
			cancel()
		}
		if clock.Go().Sleep(ctx, age/2) != nil {
			return
		}
		for _, res := range resources {
			s.forget(context.WithoutCancel(ctx), fenced, res, read.Add(-age/2))
		}
	}
}

// forget records one Forget. One that fails is repeated by the next round.
func (s *Sealer) forget(ctx context.Context, fenced sink.Sink, res string, before time.Time) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e := s.ask(history.Event{Op: history.OpForget, Key: res})
	n, err := fenced.Forget(ctx, res, before)
	if err != nil {
		_ = s.abandon(e, err) // recorded
		return
	}
	dropped := int64(n)
	e.Type, e.Value = history.OK, &dropped
	s.Rec.Record(e)
}

// archive copies what a ledger has that was not copied before into the history.
func (s *Sealer) archive(ctx context.Context, fenced sink.Sink, res string) error {
	const page = 1000
	for {
		entries, err := sink.LedgerAfter(ctx, fenced, res, s.archived(res), page)
		if err != nil {
			return err
		}
		for _, en := range entries {
			s.noteLedger(res, en)
		}
		if len(entries) < page {
			return nil
		}
	}
}

// archived is the number of the last entry of a ledger that is in the history.
func (s *Sealer) archived(res string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noted[res]
}
