package boltsink

import (
	"context"
	"errors"
	"fmt"
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

var _ sink.Sink = (*Sink)(nil)

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

// decide makes one decision in a transaction. decide may be run again, if the transaction
// is, and begins anew then.
func (s *Sink) decide(ctx context.Context, op, resource string, decide func(r *Rows) error) error {
	if ctx.Err() != nil {
		return &store.Error{Op: op, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	err := s.db.Batch(func(tx *bolt.Tx) error {
		r, err := openRows(tx, resource)
		if err != nil {
			return err
		}
		if err := decide(r); err != nil {
			return err
		}
		return r.save()
	})
	if err == nil {
		return nil
	}
	e := &store.Error{Op: op, Outcome: store.Unknown, Cause: err}
	if is := (*sink.IssuerError)(nil); errors.As(err, &is) || errors.As(err, new(*refusal)) || errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		e.Outcome = store.Fail // before anything was written
	}
	return e
}

// refusal is a call that can never be carried out.
type refusal struct{ error }

func check(resource, issuer string, token int64, e *sink.Effect) error {
	if err := sink.Check(resource, issuer, token, e); err != nil {
		return &refusal{err}
	}
	return nil
}

// Raise implements sink.Sink.
func (s *Sink) Raise(ctx context.Context, resource, issuer string, token int64) (a sink.Answer, err error) {
	op := fmt.Sprintf("raise %s to %d", resource, token)
	if err := check(resource, issuer, token, nil); err != nil {
		return a, &store.Error{Op: op, Outcome: store.Fail, Cause: err}
	}
	err = s.decide(ctx, op, resource, func(r *Rows) error {
		if err := r.Bind(issuer); err != nil {
			return err
		}
		if err := r.raise(token); err != nil {
			return err
		}
		a = sink.Answer{Result: sink.Applied, Seen: r.Highest, Seq: r.Seq}
		if token < r.Highest {
			a.Result = sink.Stale
		}
		return nil
	})
	if err != nil {
		return sink.Answer{}, err
	}
	return a, nil
}

// Accept implements sink.Sink.
func (s *Sink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (a sink.Answer, err error) {
	op := fmt.Sprintf("accept %s on %s with token %d", e.Key, resource, token)
	if err := check(resource, issuer, token, &e); err != nil {
		return a, &store.Error{Op: op, Outcome: store.Fail, Cause: err}
	}
	err = s.decide(ctx, op, resource, func(r *Rows) error {
		if err := r.Bind(issuer); err != nil {
			return err
		}
		old, err := r.key(e.Key)
		if err != nil {
			return err
		}
		if old == nil && token >= r.Highest {
			if err := r.Accept(token, e); err != nil {
				return err
			}
			a = sink.Answer{Result: sink.Applied, FirstToken: token, Seen: r.Highest, Seq: r.Seq}
			return nil
		}
		if err := r.raise(token); err != nil {
			return err
		}
		switch a = (sink.Answer{Seen: r.Highest, Seq: r.Seq}); {
		case old == nil:
			a.Result = sink.Stale
		case old.Intent == e.Intent:
			a.Result, a.FirstToken, a.Seq = sink.Duplicate, old.Token, old.Seq
		default:
			a.Result, a.FirstToken = sink.Conflict, old.Token
		}
		return nil
	})
	if err != nil {
		return sink.Answer{}, err
	}
	return a, nil
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
func (s *Sink) Ledger(ctx context.Context, resource string) (out []sink.Entry, err error) {
	err = s.view(ctx, resource, func(r *Rows) error {
		out, err = r.ledger()
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
	err = s.decide(ctx, "forget keys of "+resource, resource, func(r *Rows) error {
		dropped, err = r.forget(before)
		return err
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}

// Resources are the names of those that were ever called, in order.
func (s *Sink) Resources() (out []string, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			out = append(out, string(name))
			return nil
		})
	})
	return out, err
}

// Update changes a resource's rows in one transaction, past all rules: for tools that
// repair, and for tests that break. change may be run more than once.
func (s *Sink) Update(ctx context.Context, resource string, change func(r *Rows) error) error {
	return s.decide(ctx, "update "+resource, resource, change)
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
