package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/history"
	"fencepost/harness/workload"
)

// sealTimeout bounds the sealing of all locks and resources.
const sealTimeout = 2 * time.Minute

// seal closes every lock with a CAS of its own (fence+1, no holder) after the
// last worker is gone, and reads the row by a SERIAL read. From then on no
// delayed copy of a request can apply, as each names an older version, so the
// row tells for every operation whose outcome is open whether it took effect.
// The sink is sealed alike: raised above every token, then its ledger is read.
func (r *runner) seal(ctx context.Context) error {
	locks := cassandra.NewLocks(r.db)
	fenced := cassandrasink.New(r.db, cassandrasink.Options{})
	for i, name := range r.plan.Locks {
		r.progress.detail("%d of %d locks sealed", i, len(r.plan.Locks))
		fence, err := r.sealLock(ctx, locks, name)
		if err != nil {
			return fmt.Errorf("seal %s: %w", name, err)
		}
		if err := r.sealResource(ctx, fenced, name, fence); err != nil {
			return fmt.Errorf("seal the sink's %s: %w", workload.Resource(name), err)
		}
	}
	return nil
}

func (r *runner) sealLock(ctx context.Context, locks store.Locks, name string) (fence int64, err error) {
	from, err := r.readSerial(ctx, locks, name)
	if err != nil {
		return 0, err
	}
	for {
		to := store.Version{Fence: 1, Attempt: uuid.NewString(), TTL: r.plan.Spec.Workload.TTL.D()}
		if from != nil {
			to.Fence, to.TTL = from.Fence+1, from.TTL
		}
		applied, row, err := r.sealOnce(ctx, locks, name, from, to)
		if err != nil {
			return 0, err
		}
		if !applied {
			from = row // a late copy of some request came between: seal what it left
			continue
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

// sealOnce sends one CAS until its outcome is settled.
func (r *runner) sealOnce(ctx context.Context, locks store.Locks, name string, from *store.Version, to store.Version) (bool, *store.Version, error) {
	e := history.Event{Proc: history.Harness, ID: r.rec.NewID(), Type: history.Invoke, Op: history.OpSeal, Key: name, From: version(from), To: version(&to)}
	r.rec.Record(e)
	e.From, e.To = nil, nil
	for n := 0; ; n++ {
		e.Sends = append(e.Sends, history.Now())
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		res, err := locks.CAS(try, name, from, to, n)
		cancel()
		switch {
		case err == nil && (res.Applied || res.Row != nil && *res.Row == to):
			e.Type = history.OK
		case err == nil && n == 0:
			e.Type, e.Row = history.Fail, version(res.Row)
		case err == nil:
			// Rejected after a copy of unknown fate: that copy may have applied
			// before something else did. Leave it open.
			e.Type, e.Error = history.Unknown, "rejected after an unknown copy"
		case store.OutcomeOf(err) == store.Fail && n == 0:
			return false, nil, r.abandon(e, err)
		case ctx.Err() != nil:
			return false, nil, r.abandon(e, errors.Join(err, ctx.Err()))
		default:
			if err := pause(ctx, 200*time.Millisecond); err != nil {
				return false, nil, r.abandon(e, err)
			}
			continue
		}
		r.rec.Record(e)
		return e.Type == history.OK, res.Row, nil
	}
}

// abandon records the end of an operation that the runner gives up.
func (r *runner) abandon(e history.Event, err error) error {
	e.Type, e.Error = history.Unknown, err.Error()
	r.rec.Record(e)
	return err
}

func (r *runner) readSerial(ctx context.Context, locks store.Locks, name string) (*store.Version, error) {
	for {
		e := history.Event{Proc: history.Harness, ID: r.rec.NewID(), Type: history.Invoke, Op: history.OpRead, Key: name}
		r.rec.Record(e)
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		row, err := locks.Read(try, name, true)
		cancel()
		if err == nil {
			e.Type, e.Row = history.OK, version(row)
			r.rec.Record(e)
			return row, nil
		}
		_ = r.abandon(e, err)
		if pauseErr := pause(ctx, 200*time.Millisecond); pauseErr != nil {
			return nil, errors.Join(err, pauseErr)
		}
	}
}

// sealResource raises a resource above every token handed out, reads its value
// and copies its ledger into the history.
func (r *runner) sealResource(ctx context.Context, fenced *cassandrasink.Sink, name string, token int64) error {
	res := workload.Resource(name)
	// A system with tokens of its own may have raised higher than the lock's fence.
	st, err := fenced.Read(ctx, res)
	if err != nil {
		return err
	}
	token = max(token, st.Seen+1)
	e := history.Event{Proc: history.Harness, ID: r.rec.NewID(), Type: history.Invoke, Op: history.OpRaise, Key: res, Issuer: name, Token: token}
	r.rec.Record(e)
	a, err := fenced.Raise(ctx, res, name, token)
	if err != nil {
		return r.abandon(e, err)
	}
	e.Type, e.Result, e.Seen, e.Seq = history.OK, a.Result.String(), a.Seen, a.Seq
	r.rec.Record(e)

	e = history.Event{Proc: history.Harness, ID: r.rec.NewID(), Type: history.Invoke, Op: history.OpGet, Key: res}
	r.rec.Record(e)
	if st, err = fenced.Read(ctx, res); err != nil {
		return r.abandon(e, err)
	}
	e.Type, e.Value, e.Seen, e.Seq = history.OK, &st.Value, st.Seen, st.Seq
	r.rec.Record(e)

	entries, err := fenced.Ledger(ctx, res)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for _, en := range entries {
		l := &history.LedgerEntry{Seq: en.Seq, Kind: string(en.Kind), Issuer: en.Issuer, Token: en.Token, EffectKey: en.Key}
		if en.Kind == history.LedgerAccept {
			l.Value = &en.Value
		}
		r.rec.Record(history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteLedger, Key: res, Ledger: l})
	}
	return nil
}

func version(v *store.Version) *history.Version { return workload.Version(v) }
