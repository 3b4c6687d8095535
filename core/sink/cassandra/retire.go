package cassandrasink

import (
	"context"

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

// Retire implements sink.Retirer: the floor first, then one conditional batch a resource.
// Their tombstones last for gc_grace_seconds of the table.
func (s *Sink) Retire(ctx context.Context, issuer string, below int64, resources ...string) (removed int, err error) {
	if err := sink.CheckRetire(issuer, below, resources); err != nil {
		return 0, &store.Error{Op: "retire resources of " + issuer, Outcome: store.Fail, Cause: err}
	}
	floor, err := s.raiseFloor(ctx, issuer, below)
	if err != nil {
		return 0, err
	}
	for _, name := range resources {
		gone, err := s.remove(ctx, issuer, floor, name)
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}

// raiseFloor makes below the issuer's floor, unless it is higher, and returns it.
func (s *Sink) raiseFloor(ctx context.Context, issuer string, below int64) (int64, error) {
	c := &call{Call: sink.Call{Resource: sink.FloorOf(issuer)}}
	for {
		v, err := s.look(ctx, c, true)
		if err != nil {
			return 0, c.ended(ctx, err)
		}
		old := v.header
		if old.Highest >= below {
			return old.Highest, nil
		}
		to := sink.Decision{Kind: sink.KindRaise, Header: sink.Header{Issuer: issuer, Highest: below, Seq: old.Seq + 1}}
		first := c.statements(old, to, s.now())[:1] // without the entry of a ledger
		if _, _, err := s.send(ctx, c, first); err != nil {
			return 0, err
		}
	}
}

// remove removes a resource of the issuer whose highest token is below the floor. The header
// that the batch names says that nothing was decided since.
func (s *Sink) remove(ctx context.Context, issuer string, floor int64, name string) (gone bool, err error) {
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
		case h.Issuer != issuer || h.Highest >= floor:
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
