package boltsink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// batchDelay is how long a transaction waits for others to share its write to the disk.
const batchDelay = time.Millisecond

// lockTimeout bounds the wait for another process that has the file.
const lockTimeout = 5 * time.Second

// Sink implements sink.Sink. Safe for concurrent use. Close it.
type Sink struct{ db *bolt.DB }

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Pager   = (*Sink)(nil)
	_ sink.Retirer = (*Sink)(nil)
)

// Open opens the sink in a file, which is made if it is not there. One process at a time
// has it.
func Open(path string) (*Sink, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = errors.New("another process has it open")
	}
	if err != nil {
		return nil, fmt.Errorf("boltsink: %s: %w", path, err)
	}
	db.MaxBatchDelay = batchDelay
	return &Sink{db}, nil
}

// Close closes the file. Calls after it fail.
func (s *Sink) Close() error { return s.db.Close() }

// change changes a resource's rows in a transaction. change may be run again, if the
// transaction is, and starts over then.
func (s *Sink) change(ctx context.Context, op, resource string, change func(r *Rows) error) error {
	if ctx.Err() != nil {
		return &store.Error{Op: op, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	err := s.db.Batch(func(tx *bolt.Tx) error {
		r, err := openRows(tx, resource)
		if err != nil {
			return err
		}
		if err := change(r); err != nil {
			return err
		}
		return r.save()
	})
	if err == nil {
		return nil
	}
	e := &store.Error{Op: op, Outcome: store.Unknown, Cause: err}
	if is := (*sink.IssuerError)(nil); errors.As(err, &is) || errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		e.Outcome = store.Fail // before anything was written
	}
	return e
}

// call makes one decision.
func (s *Sink) call(ctx context.Context, c sink.Call) (a sink.Answer, err error) {
	if err := c.Check(); err != nil {
		return a, &store.Error{Op: c.String(), Outcome: store.Fail, Cause: err}
	}
	err = s.change(ctx, c.String(), c.Resource, func(r *Rows) error {
		a, err = r.decide(c)
		return err
	})
	if err != nil {
		return sink.Answer{}, err
	}
	return a, nil
}

// Raise implements sink.Sink.
func (s *Sink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return s.call(ctx, sink.Call{Resource: resource, Issuer: issuer, Token: token})
}

// Accept implements sink.Sink.
func (s *Sink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return s.call(ctx, sink.Call{Resource: resource, Issuer: issuer, Token: token, Effect: &e})
}

// Read implements sink.Sink.
func (s *Sink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	st := sink.State{Applied: map[string]int64{}}
	err := s.view(ctx, resource, func(r *Rows) error {
		st.Value, st.Payload, st.Seen, st.Seq, st.Issuer = r.Value, r.Payload, r.Highest, r.Seq, r.Issuer
		for _, name := range keys {
			k, err := r.key(name)
			if err != nil {
				return err
			}
			if k != nil {
				st.Applied[name] = k.Token
			}
		}
		return nil
	})
	return st, err
}

// Ledger implements sink.Sink.
func (s *Sink) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) {
	return s.LedgerAfter(ctx, resource, 0, math.MaxInt)
}

// LedgerAfter implements sink.Pager.
func (s *Sink) LedgerAfter(ctx context.Context, resource string, after int64, n int) (out []sink.Entry, err error) {
	err = s.view(ctx, resource, func(r *Rows) error {
		out, err = r.ledger(after, n)
		return err
	})
	return out, err
}

// view reads a resource that there is.
func (s *Sink) view(ctx context.Context, resource string, read func(r *Rows) error) error {
	if ctx.Err() != nil {
		return &store.Error{Op: "read " + resource, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	err := s.db.View(func(tx *bolt.Tx) error {
		r, err := openRows(tx, resource)
		if err != nil || r.bucket == nil {
			return err
		}
		return read(r)
	})
	if err != nil {
		return &store.Error{Op: "read " + resource, Outcome: store.Fail, Cause: err}
	}
	return nil
}

// Forget implements sink.Sink, in one transaction.
func (s *Sink) Forget(ctx context.Context, resource string, before time.Time) (dropped int, err error) {
	err = s.change(ctx, "forget keys of "+resource, resource, func(r *Rows) error {
		dropped, err = r.forget(before)
		return err
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}

// Retire implements sink.Retirer, in one transaction. The file does not shrink: what was
// removed makes room for what comes.
func (s *Sink) Retire(ctx context.Context, issuer string, below int64, resources ...string) (removed int, err error) {
	const op = "retire resources"
	if err := sink.CheckRetire(issuer, below, resources); err != nil {
		return 0, &store.Error{Op: op, Outcome: store.Fail, Cause: err}
	}
	err = s.change(ctx, op, sink.FloorOf(issuer), func(floor *Rows) error {
		removed = 0
		if err := floor.Bind(issuer); err != nil {
			return err
		}
		floor.Highest, floor.changed = max(floor.Highest, below), true
		for _, name := range resources {
			r, err := openRows(floor.tx, name)
			if err != nil {
				return err
			}
			if r.bucket == nil || r.Issuer != issuer || r.Highest >= below {
				continue
			}
			if err := floor.tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
			removed++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// Resources are the names of those that are there, in order.
func (s *Sink) Resources() (out []string, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			if !sink.IsFloor(string(name)) {
				out = append(out, string(name))
			}
			return nil
		})
	})
	return out, err
}

// Update changes a resource's rows in one transaction, past all rules: for tools that
// repair, and for tests that break. change may be run more than once.
func (s *Sink) Update(ctx context.Context, resource string, change func(r *Rows) error) error {
	return s.change(ctx, "update "+resource, resource, change)
}

// Remove removes a resource, ledger and all, and so what keeps stale tokens out.
func (s *Sink) Remove(resource string) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket([]byte(resource)); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
		return nil
	})
}
