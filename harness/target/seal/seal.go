// Package seal ends what a run has written to, so that its history can be judged.
//
// It closes every lock with a CAS of the harness's own (fence+1, no holder) after the
// last worker is gone, and reads the row by a SERIAL read. From then on no
// delayed copy of a request can apply, as each names an older version, so the
// row tells for every operation whose outcome is open whether it took effect.
// Shards are sealed alike, and so is the sink: raised above every token, then its ledger is
// read.
//
// What a broken system leaves behind does not end that: whatever cannot be sealed or read
// is told, and missing in the history, which is then for the checker to judge.
package seal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

// Sealer seals, and records what it does. It may be used by many goroutines.
type Sealer struct {
	Rec workload.Recorder
	// Problem tells what is wrong and is not for the harness to judge.
	Problem func(format string, args ...any)

	mu       sync.Mutex
	troubles []trouble        // by kind: hundreds of one are told as one
	noted    map[string]int64 // by resource, the number of the last entry of its ledger that is in the history
}

// patience is how long one request may take, and between how long it is until the next.
const patience, between = 5 * time.Second, 200 * time.Millisecond

// Lock seals a lock with the version that next makes of the last one.
func (s *Sealer) Lock(ctx context.Context, locks store.Locks, name string, next func(from *store.Version) store.Version) (
	fence int64, err error) {
	for {
		from, err := s.readSerial(ctx, locks, name)
		if err != nil {
			return 0, err
		}
		to := next(from)
		e := history.Event{Key: name, From: workload.Version(from), To: workload.Version(&to)}
		applied, err := s.sealing(ctx, e, func(ctx context.Context, n int) (bool, *history.Version, error) {
			res, err := locks.CAS(ctx, name, from, to, n)
			return res.Applied || res.Row != nil && *res.Row == to, workload.Version(res.Row), err
		})
		if err != nil {
			return 0, err
		}
		if !applied {
			continue // a late copy of some request came between: seal what it left
		}
		last, err := s.readSerial(ctx, locks, name)
		if err != nil {
			return 0, err
		}
		if last == nil || *last != to {
			// Not for the runner to judge: the checker sees the read.
			s.Problem("%s changed after it was sealed", name)
		}
		return to.Fence, nil
	}
}

// sealing records one conditional request of the harness's own and sends copies of it
// until its outcome is settled; what a rejection showed is row.
func (s *Sealer) sealing(ctx context.Context, e history.Event,
	send func(ctx context.Context, n int) (done bool, row *history.Version, err error)) (bool, error) {
	e.Op = history.OpSeal
	e = s.ask(e)
	e.From, e.To = nil, nil
	for n := 0; ; n++ {
		e.Sends = append(e.Sends, s.Rec.Now())
		try, cancel := context.WithTimeout(ctx, patience)
		done, row, err := send(try, n)
		cancel()
		switch {
		case err == nil && done:
			e.Type = history.OK
		case err == nil && n == 0:
			e.Type, e.Row = history.Fail, row
		case err == nil:
			// Rejected after a copy of unknown fate: that copy may have applied
			// before something else did. Leave it open.
			e.Type, e.Error = history.Unknown, "rejected after an unknown copy"
		case store.OutcomeOf(err) == store.Fail && n == 0:
			return false, s.abandon(e, err)
		case ctx.Err() != nil:
			return false, s.abandon(e, errors.Join(err, ctx.Err()))
		default:
			if clock.Go().Sleep(ctx, between) != nil {
				return false, s.abandon(e, ctx.Err())
			}
			continue
		}
		s.Rec.Record(e)
		return e.Type == history.OK, nil
	}
}

// ask records the invocation of an operation of the harness's own.
func (s *Sealer) ask(e history.Event) history.Event {
	e.Proc, e.ID, e.Type = history.Harness, s.Rec.NewID(), history.Invoke
	s.Rec.Record(e)
	return e
}

// abandon records the end of an operation that is given up.
func (s *Sealer) abandon(e history.Event, err error) error {
	e.Type, e.Error = history.Unknown, err.Error()
	if errors.As(err, new(*sink.IssuerError)) {
		e.Type = history.Fail
	}
	s.Rec.Record(e)
	return err
}

func (s *Sealer) readSerial(ctx context.Context, locks store.Locks, name string) (row *store.Version, err error) {
	err = s.reading(ctx, name, func(ctx context.Context) (*history.Version, error) {
		row, err = locks.Read(ctx, name, true)
		return workload.Version(row), err
	})
	return row, err
}

// reading records SERIAL reads until one is answered.
func (s *Sealer) reading(ctx context.Context, key string, read func(context.Context) (*history.Version, error)) error {
	for {
		e := s.ask(history.Event{Op: history.OpRead, Key: key})
		try, cancel := context.WithTimeout(ctx, patience)
		row, err := read(try)
		cancel()
		if err == nil {
			e.Type, e.Row = history.OK, row
			s.Rec.Record(e)
			return nil
		}
		_ = s.abandon(e, err)
		if clock.Go().Sleep(ctx, between) != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// Resource raises a resource above every token handed out, copies its ledger into the history
// and reads its value. The value comes last: who finds that read in a history knows that the
// ledger before it is whole, whenever the sealing ended.
func (s *Sealer) Resource(ctx context.Context, fenced sink.Sink, res, issuer string, token int64) {
	s.Trouble("resources of the sink", s.raiseAbove(ctx, fenced, res, issuer, token))
	if err := s.archive(ctx, fenced, res); err != nil {
		s.Trouble("resources of the sink", fmt.Errorf("ledger of %s: %w", res, err))
		return
	}
	e := s.ask(history.Event{Op: history.OpGet, Key: res})
	st, err := fenced.Read(ctx, res)
	if err != nil {
		s.Trouble("resources of the sink", fmt.Errorf("read %s: %w", res, s.abandon(e, err)))
		return
	}
	e.Type, e.Value, e.Seen, e.Seq = history.OK, &st.Value, st.Seen, st.Seq
	s.Rec.Record(e)
}

// raiseAbove raises a resource to a token, or above what it has seen if that is higher. One
// that a broken system has bound to another issuer is raised by that.
func (s *Sealer) raiseAbove(ctx context.Context, fenced sink.Sink, res, issuer string, token int64) error {
	a, err := s.sealRaise(ctx, fenced, res, issuer, min(token, sink.MaxToken))
	bound := (*sink.IssuerError)(nil)
	switch {
	case errors.As(err, &bound):
		s.Trouble("resources of the sink are bound to another issuer than their own", err)
		st, err := fenced.Read(ctx, res)
		if err != nil {
			return fmt.Errorf("read %s: %w", res, err)
		}
		issuer, a.Seen = bound.Bound, st.Seen
	case err != nil:
		return fmt.Errorf("raise %s: %w", res, err)
	case a.Result != sink.Stale:
		return nil
	}
	if a.Seen >= sink.MaxToken {
		return nil // nothing can come above it
	}
	// A system with tokens of its own has raised higher than its row's fence.
	if _, err = s.sealRaise(ctx, fenced, res, issuer, a.Seen+1); err != nil {
		return fmt.Errorf("raise %s: %w", res, err)
	}
	return nil
}

// noteLedger writes one entry of the sink's ledger into the history.
func (s *Sealer) noteLedger(res string, en sink.Entry) {
	l := &history.LedgerEntry{Seq: en.Seq, Kind: en.Kind, Issuer: en.Issuer, Token: en.Token, EffectKey: en.Key, At: en.At}
	if en.Kind == history.LedgerAccept {
		l.Value = &en.Value
	}
	s.note(history.Event{Op: history.NoteLedger, Key: res, Details: &history.Details{Ledger: l}})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noted == nil {
		s.noted = map[string]int64{}
	}
	s.noted[res] = en.Seq
}

func (s *Sealer) sealRaise(ctx context.Context, fenced sink.Sink, res, issuer string, token int64) (sink.Answer, error) {
	e := s.ask(history.Event{Op: history.OpRaise, Key: res, Issuer: issuer, Token: token})
	a, err := fenced.Raise(ctx, res, issuer, token)
	if err != nil {
		return a, s.abandon(e, err)
	}
	e.Type, e.Result, e.Seen, e.Seq = history.OK, a.Result.String(), a.Seen, a.Seq
	if a.Result == sink.Stale {
		e.Type = history.Fail
	}
	s.Rec.Record(e)
	return a, nil
}

// Shard seals a shard as locks are sealed: with the next fence, for no owner.
func (s *Sealer) Shard(ctx context.Context, shards store.Shards, id store.ShardID) (fence int64, err error) {
	for {
		head, err := s.lookSerial(ctx, shards, id)
		if err != nil {
			return 0, err
		}
		if head == nil {
			return 0, errors.New("it has no header: the queue was never made")
		}
		to := *head
		to.Fence, to.Tick, to.Nonce, to.Owner, to.Addr = head.Fence+1, head.Tick+1, uuid.NewString(), "", ""
		e := history.Event{Key: engine.Issuer(id), From: workload.Stamp(head.Stamp), To: workload.Stamp(to.Stamp)}
		applied, err := s.sealing(ctx, e, func(ctx context.Context, n int) (bool, *history.Version, error) {
			res, err := shards.Commit(ctx, id, store.Batch{From: head.Stamp, To: to}, n)
			if err != nil || res.Stamp == nil {
				return res.Applied, nil, err
			}
			return res.Applied || *res.Stamp == to.Stamp, workload.Stamp(*res.Stamp), nil
		})
		if err != nil {
			return 0, err
		}
		if !applied {
			continue // a late copy of some request came between: seal what it left
		}
		last, err := s.lookSerial(ctx, shards, id)
		if err != nil {
			return 0, err
		}
		if last == nil || last.Stamp != to.Stamp {
			// Not for the runner to judge: the checker sees the read.
			s.Problem("shard %s changed after it was sealed", id)
		}
		return to.Fence, nil
	}
}

func (s *Sealer) lookSerial(ctx context.Context, shards store.Shards, id store.ShardID) (head *store.Header, err error) {
	err = s.reading(ctx, engine.Issuer(id), func(ctx context.Context) (*history.Version, error) {
		head, err = shards.Look(ctx, id, true)
		if err != nil || head == nil {
			return &history.Version{Absent: true}, err
		}
		return workload.Stamp(head.Stamp), nil
	})
	return head, err
}

// Rows writes every row of a sealed shard into the history, when all of them are read:
// the absence of one means something. It returns the jobs that were ever claimed.
func (s *Sealer) Rows(ctx context.Context, shards store.Shards, id store.ShardID) (claimed []job.ID, err error) {
	const page = 500
	var notes []history.Event
	note := func(key string, row *history.JobRow) {
		notes = append(notes, history.Event{Op: history.NoteRow, Key: key, Issuer: engine.Issuer(id), Details: &history.Details{JobRow: row}})
	}
	for _, kind := range slices.Sorted(maps.Keys(workload.RowKinds)) {
		next := store.Range{Kind: kind, AfterAt: math.MinInt64, UpTo: math.MaxInt64, Limit: page}
		for {
			rows, err := shards.Scan(ctx, id, next)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				for _, one := range row.Each() {
					note(one.ID, workload.JobRow(one))
				}
				if kind == store.KindJob && row.Run > 0 {
					claimed = append(claimed, job.ID(row.ID))
				}
			}
			if len(rows) < page {
				break
			}
			next.AfterAt, next.AfterID = rows[len(rows)-1].At, rows[len(rows)-1].ID
		}
	}
	for after := ""; ; {
		rows, err := shards.InboxScan(ctx, id, after, store.AboveAll, page)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			note(row.ID, &history.JobRow{Kind: history.RowInbox})
			after = row.ID
		}
		if len(rows) < page {
			break
		}
	}
	for _, e := range append(notes, history.Event{Op: history.NoteRowsEnd, Issuer: engine.Issuer(id)}) {
		s.note(e)
	}
	return claimed, nil
}

type trouble struct {
	what  string
	n     int
	first error
}

// Trouble notes an error; nil is none.
func (s *Sealer) Trouble(what string, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.troubles, func(t trouble) bool { return t.what == what })
	if i < 0 {
		i = len(s.troubles)
		s.troubles = append(s.troubles, trouble{what: what, first: err})
	}
	s.troubles[i].n++
}

// Tell says what trouble there was, with the first of each kind.
func (s *Sealer) Tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.troubles {
		s.Problem("after the run, %s: %d times; the first: %v", t.what, t.n, t.first)
	}
}

func (s *Sealer) note(e history.Event) {
	e.Proc, e.Type = history.Harness, history.Note
	s.Rec.Record(e)
}
