package cassandrasink

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"fencepost/core/sink"
	"fencepost/core/store"
)

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
