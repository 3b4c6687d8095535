package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

// Sealing closes every lock with a CAS of the runner's own (fence+1, no holder) after the
// last worker is gone, and reads the row by a SERIAL read. From then on no
// delayed copy of a request can apply, as each names an older version, so the
// row tells for every operation whose outcome is open whether it took effect.
// The sink is sealed alike: raised above every token, then its ledger is read.
//
// What a broken system leaves behind does not end that: whatever cannot be sealed or read
// is told, and missing in the history, which is then for the checker to judge. The error
// is of a run that cannot be judged at all.

// sealTimeout bounds the sealing of all locks and resources.
const sealTimeout = 2 * time.Minute

// sealLock writes the version that next makes of the last one.
func (r *runner) sealLock(ctx context.Context, locks store.Locks, name string, next func(from *store.Version) store.Version) (fence int64, err error) {
	for {
		from, err := r.readSerial(ctx, locks, name)
		if err != nil {
			return 0, err
		}
		to := next(from)
		e := history.Event{Key: name, From: workload.Version(from), To: workload.Version(&to)}
		applied, err := r.sealing(ctx, e, func(ctx context.Context, n int) (bool, *history.Version, error) {
			res, err := locks.CAS(ctx, name, from, to, n)
			return res.Applied || res.Row != nil && *res.Row == to, workload.Version(res.Row), err
		})
		if err != nil {
			return 0, err
		}
		if !applied {
			continue // a late copy of some request came between: seal what it left
		}
		last, err := r.readSerial(ctx, locks, name)
		if err != nil {
			return 0, err
		}
		if last == nil || *last != to {
			// Not for the runner to judge: the checker sees the read.
			r.progress.problem("%s changed after it was sealed", name)
		}
		return to.Fence, nil
	}
}

// sealing records one conditional request of the runner's own and sends copies of it
// until its outcome is settled; what a rejection showed is row.
func (r *runner) sealing(ctx context.Context, e history.Event, send func(ctx context.Context, n int) (done bool, row *history.Version, err error)) (bool, error) {
	e.Op = history.OpSeal
	e = r.ask(e)
	e.From, e.To = nil, nil
	for n := 0; ; n++ {
		e.Sends = append(e.Sends, history.Now())
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
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
			return false, r.abandon(e, err)
		case ctx.Err() != nil:
			return false, r.abandon(e, errors.Join(err, ctx.Err()))
		default:
			if err := pause(ctx, 200*time.Millisecond); err != nil {
				return false, r.abandon(e, err)
			}
			continue
		}
		r.rec.Record(e)
		return e.Type == history.OK, nil
	}
}

// ask records the invocation of an operation of the runner's own.
func (r *runner) ask(e history.Event) history.Event {
	e.Proc, e.ID, e.Type = history.Harness, r.rec.NewID(), history.Invoke
	r.rec.Record(e)
	return e
}

// abandon records the end of an operation that the runner gives up.
func (r *runner) abandon(e history.Event, err error) error {
	e.Type, e.Error = history.Unknown, err.Error()
	if errors.As(err, new(*sink.IssuerError)) {
		e.Type = history.Fail
	}
	r.rec.Record(e)
	return err
}

func (r *runner) readSerial(ctx context.Context, locks store.Locks, name string) (row *store.Version, err error) {
	err = r.reading(ctx, name, func(ctx context.Context) (*history.Version, error) {
		row, err = locks.Read(ctx, name, true)
		return workload.Version(row), err
	})
	return row, err
}

// reading records SERIAL reads until one is answered.
func (r *runner) reading(ctx context.Context, key string, read func(context.Context) (*history.Version, error)) error {
	for {
		e := r.ask(history.Event{Op: history.OpRead, Key: key})
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		row, err := read(try)
		cancel()
		if err == nil {
			e.Type, e.Row = history.OK, row
			r.rec.Record(e)
			return nil
		}
		_ = r.abandon(e, err)
		if pauseErr := pause(ctx, 200*time.Millisecond); pauseErr != nil {
			return errors.Join(err, pauseErr)
		}
	}
}

// sealResource raises a resource above every token handed out, reads its value
// and copies its ledger into the history.
func (r *runner) sealResource(ctx context.Context, fenced sink.Sink, res, issuer string, token int64) {
	r.troubles.add("resources of the sink", r.raiseAbove(ctx, fenced, res, issuer, token))
	e := r.ask(history.Event{Op: history.OpGet, Key: res})
	st, err := fenced.Read(ctx, res)
	if err != nil {
		r.troubles.add("resources of the sink", fmt.Errorf("read %s: %w", res, r.abandon(e, err)))
		return
	}
	e.Type, e.Value, e.Seen, e.Seq = history.OK, &st.Value, st.Seen, st.Seq
	r.rec.Record(e)
	entries, err := fenced.Ledger(ctx, res)
	if err != nil {
		r.troubles.add("resources of the sink", fmt.Errorf("ledger of %s: %w", res, err))
		return
	}
	for _, en := range entries {
		r.noteLedger(res, en)
	}
}

// raiseAbove raises a resource to a token, or above what it has seen if that is higher. One
// that a broken system has bound to another issuer is raised by that.
func (r *runner) raiseAbove(ctx context.Context, fenced sink.Sink, res, issuer string, token int64) error {
	a, err := r.sealRaise(ctx, fenced, res, issuer, min(token, sink.MaxToken))
	bound := (*sink.IssuerError)(nil)
	switch {
	case errors.As(err, &bound):
		r.troubles.add("resources of the sink are bound to another issuer than their own", err)
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
	if _, err = r.sealRaise(ctx, fenced, res, issuer, a.Seen+1); err != nil {
		return fmt.Errorf("raise %s: %w", res, err)
	}
	return nil
}

// noteLedger writes one entry of the sink's ledger into the history.
func (r *runner) noteLedger(res string, en sink.Entry) {
	if en.Kind == sink.KindSeal { // raises too, though by no call with a token
		en.Kind = history.LedgerRaise
	}
	l := &history.LedgerEntry{Seq: en.Seq, Kind: en.Kind, Issuer: en.Issuer, Token: en.Token, EffectKey: en.Key, At: en.At}
	if en.Kind == history.LedgerAccept {
		l.Value = &en.Value
	}
	r.note(history.Event{Op: history.NoteLedger, Key: res, Details: &history.Details{Ledger: l}})
}

func (r *runner) sealRaise(ctx context.Context, fenced sink.Sink, res, issuer string, token int64) (sink.Answer, error) {
	e := r.ask(history.Event{Op: history.OpRaise, Key: res, Issuer: issuer, Token: token})
	a, err := fenced.Raise(ctx, res, issuer, token)
	if err != nil {
		return a, r.abandon(e, err)
	}
	e.Type, e.Result, e.Seen, e.Seq = history.OK, a.Result.String(), a.Seen, a.Seq
	if a.Result == sink.Stale {
		e.Type = history.Fail
	}
	r.rec.Record(e)
	return a, nil
}
