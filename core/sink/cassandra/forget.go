package cassandrasink

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// A floor is a header of a name of its own, without keys and ledger.
const (
	deleteHeader = "DELETE FROM sink" + ifHeader
	deleteKeys   = "DELETE FROM sink WHERE resource = ? AND kind = 1"
	deleteLedger = "DELETE FROM sink WHERE resource = ? AND kind = 2"
)

// floor is that of an issuer, 0 if it has none. A plain read sees what a Retire has raised
// before it removed anything.
func (s *Sink) floor(ctx context.Context, issuer string) (int64, error) {
	name := sink.FloorOf(issuer)
	rows, err := s.read(ctx, false, selectRows(name, nil))
	if err != nil {
		return 0, err
	}
	v, err := viewOf(rows, &call{})
	return v.header.Highest, err
}

// errNotRetiring: others may not look at floors either.
var errNotRetiring = errors.New("this sink was opened without Options.Retires: set it in all processes that use the keyspace's sink first")

// removedAtOnce is how many resources a Retire removes at once.
const removedAtOnce = 8

// Retire implements sink.Retirer: the floor first, then one conditional batch a resource,
// some at once. Their tombstones last for gc_grace_seconds of the table.
func (s *Sink) Retire(ctx context.Context, issuer string, below int64, resources ...string) (removed int, err error) {
	err = sink.CheckRetire(issuer, below, resources)
	if err == nil && !s.retires {
		err = errNotRetiring
	}
	if err != nil {
		return 0, &store.Error{Op: "retire resources of " + issuer, Outcome: store.Fail, Permanent: true, Cause: err}
	}
	if err := s.raiseFloor(ctx, issuer, below); err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var gone atomic.Int64
	errs := make([]error, min(removedAtOnce, len(resources)))
	for n := range errs {
		wg.Go(func() {
			for i := n; i < len(resources) && errs[n] == nil; i += len(errs) {
				var ok bool
				if ok, errs[n] = s.remove(ctx, issuer, below, resources[i]); ok {
					gone.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(gone.Load()), errors.Join(errs...)
}

// raiseFloor makes below the issuer's floor, unless it is higher.
func (s *Sink) raiseFloor(ctx context.Context, issuer string, below int64) error {
	c := &call{Call: sink.Call{Resource: sink.FloorOf(issuer)}}
	for {
		v, err := s.look(ctx, c, true)
		if err != nil {
			return c.ended(ctx, err)
		}
		old := v.header
		if old.Highest >= below {
			return nil
		}
		to := sink.Decision{Kind: sink.KindRaise, Header: sink.Header{Issuer: issuer, Highest: below, Seq: old.Seq + 1}}
		first := c.statements(old, to, s.now())[:1] // without the entry of a ledger
		if _, _, err := s.send(ctx, c, first); err != nil {
			return err
		}
	}
}

// remove removes a resource of the issuer whose highest token is lower than below. The header
// that the batch names says that nothing was decided since.
func (s *Sink) remove(ctx context.Context, issuer string, below int64, name string) (gone bool, err error) {
	c := &call{Call: sink.Call{Resource: name}}
	for {
		v, err := s.look(ctx, c, true)
		h := v.header
		switch {
		case err != nil:
			return false, c.ended(ctx, err)
		case h.Issuer == "":
			s.forget(name)
			return c.uncertain > 0, nil // by a copy that was not answered
		case h.Issuer != issuer || h.Highest >= below:
			return false, nil
		}
		_, applied, err := s.send(ctx, c, []store.Statement{
			{CQL: deleteHeader, Args: []any{name, h.Issuer, h.Highest, h.Seq}, Partition: []any{name}},
			{CQL: deleteKeys, Args: []any{name}},
			{CQL: deleteLedger, Args: []any{name}},
		})
		if err != nil {
			return false, err
		}
		if applied {
			s.forget(name)
			return true, nil
		}
	}
}
