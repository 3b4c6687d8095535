package cassandrasink

import (
	"context"
	"errors"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

const (
	selectKeys  = "SELECT key, attempt, at FROM sink WHERE resource = ? AND kind = 1"
	selectTimes = "SELECT seq, at FROM sink WHERE resource = ? AND kind = 2"
	deleteKey   = "DELETE FROM sink WHERE resource = ? AND kind = 1 AND seq = 0 AND key = ? IF attempt = ?"
	// The header says up to which entry the ledger was dropped. That rises: a late copy of an
	// older trim finds the header that it names, and would take back what a newer one has said.
	dropUpTo   = "UPDATE sink SET fence = ?" + ifHeader + " AND fence = ?"
	deleteUpTo = "DELETE FROM sink WHERE resource = ? AND kind = 2 AND seq <= ?"
)

// forgetBatch is how many keys are dropped by one statement.
const forgetBatch = 50

// Forget implements sink.Sink.
func (s *Sink) Forget(ctx context.Context, resource string, before time.Time) (int, error) {
	rows, err := s.read(ctx, false, store.Statement{CQL: selectKeys, Args: []any{resource}, Partition: []any{resource}})
	if err != nil {
		return 0, err
	}
	var old []store.Statement
	for _, row := range rows {
		if at, ok := row["at"].(time.Time); ok && at.Before(before) {
			old = append(old, store.Statement{CQL: deleteKey, Args: []any{resource, row["key"], row["attempt"]}, Partition: []any{resource}})
		}
	}
	if len(old) > 0 {
		if err := s.seal(ctx, resource); err != nil {
			return 0, err
		}
	}
	dropped := 0
	for len(old) > 0 {
		n := min(forgetBatch, len(old))
		c := &call{Call: sink.Call{Resource: resource}}
		_, applied, err := s.send(ctx, c, old[:n])
		switch {
		case err != nil:
			return dropped, err
		case !applied && c.uncertain == 0:
			// Another call is dropping the same keys.
			return dropped, &store.Error{Op: "forget keys of " + resource, Outcome: store.Fail,
				Cause: errors.New("keys were dropped by someone else at the same time: call again for the rest")}
		}
		dropped += n
		old = old[n:]
	}
	return dropped, s.trim(ctx, resource, before)
}

// seal refuses the highest token, so that no copy of an accepted effect that is still on
// its way can be accepted once its key is gone.
func (s *Sink) seal(ctx context.Context, resource string) error {
	c := &call{Call: sink.Call{Resource: resource}}
	for {
		v, err := s.look(ctx, c, true)
		if err != nil {
			return err
		}
		d := sink.Seal(v.header)
		if d.Kind == "" {
			return nil
		}
		if _, _, err := s.send(ctx, c, c.statements(v.header, d, s.now())); err != nil {
			return err
		}
	}
}

// trim drops the entries of the ledger that were made before the instant, up to the last one.
func (s *Sink) trim(ctx context.Context, resource string, before time.Time) error {
	rows, err := s.read(ctx, false, store.Statement{CQL: selectTimes, Args: []any{resource}, Partition: []any{resource}})
	if err != nil {
		return err
	}
	upTo := int64(0)
	for i, row := range rows {
		at, ok := row["at"].(time.Time)
		if !ok || !at.Before(before) || i == len(rows)-1 {
			break
		}
		upTo, _ = row["seq"].(int64)
	}
	c := &call{Call: sink.Call{Resource: resource}}
	for {
		v, err := s.look(ctx, c, true)
		h := v.header
		if err != nil || upTo <= v.dropped || upTo >= h.Seq { // or it was retired since
			return err
		}
		var old any // null, until the first trim
		if v.dropped > 0 {
			old = v.dropped
		}
		_, applied, err := s.send(ctx, c, []store.Statement{
			{CQL: dropUpTo, Args: []any{upTo, resource, h.Issuer, h.Highest, h.Seq, old}, Partition: []any{resource}},
			{CQL: deleteUpTo, Args: []any{resource, upTo}},
		})
		if err != nil || applied {
			return err
		}
	}
}
