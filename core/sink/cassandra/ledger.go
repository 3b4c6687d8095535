package cassandrasink

import (
	"context"
	"fmt"
	"math"

	"fencepost/core/sink"
	"fencepost/core/store"
)

const selectLedger = "SELECT seq, entry, issuer, fence, effect_key, value FROM sink WHERE resource = ? AND kind = 2 AND seq > ? LIMIT ?"

// Ledger implements sink.Sink.
func (s *Sink) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) {
	return s.LedgerAfter(ctx, resource, 0, math.MaxInt32)
}

// LedgerAfter implements sink.Pager. A SERIAL read comes first, which completes any
// decision that is half-way; then the ledger is read page by page.
func (s *Sink) LedgerAfter(ctx context.Context, resource string, after int64, n int) ([]sink.Entry, error) {
	c := &call{Call: sink.Call{Resource: resource}}
	v, err := s.look(ctx, c, true)
	for err == nil {
		var rows []map[string]any
		from := max(after, v.dropped)
		if rows, err = s.read(ctx, false, store.Statement{CQL: selectLedger, Args: []any{resource, from, n}, Partition: []any{resource}}); err != nil {
			break
		}
		out, missing := entriesOf(rows, from, v.header.Seq, n)
		if missing == nil {
			return out, nil
		}
		before := v
		if v, err = s.look(ctx, c, true); err == nil && v.dropped <= before.dropped && v.header.Seq >= before.header.Seq {
			return nil, &store.Error{Op: "read ledger of " + resource, Outcome: store.Unknown, Cause: missing}
		} // else entries were dropped since
	}
	return nil, err
}

// entriesOf are up to n entries that follow number from, of a ledger that ends with last.
func entriesOf(rows []map[string]any, from, last int64, n int) (out []sink.Entry, missing error) {
	out = make([]sink.Entry, 0, len(rows))
	for _, row := range rows {
		e := entryOf(row)
		if from++; e.Seq != from {
			return nil, fmt.Errorf("entry %d is missing although entry %d is there: the store has lost an acknowledged write", from, e.Seq)
		}
		out = append(out, e)
	}
	if len(out) < n && from < last {
		return nil, fmt.Errorf("the ledger ends with entry %d, but the header counts %d", from, last)
	}
	return out, nil
}

func entryOf(row map[string]any) (e sink.Entry) {
	e.Seq, _ = row["seq"].(int64)
	e.Kind, _ = row["entry"].(string)
	e.Issuer, _ = row["issuer"].(string)
	e.Token, _ = row["fence"].(int64)
	e.Key, _ = row["effect_key"].(string)
	e.Value, _ = row["value"].(int64)
	return e
}
