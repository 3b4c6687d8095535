package cassandrasink

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// Kinds of rows.
const (
	kindHeader = 0
	kindKey    = 1
	kindLedger = 2
)

// selectRows reads the header and the rows of keys in one statement. The number
// of keys is padded to a power of two, so that there are few statement shapes.
func selectRows(resource string, keys []string) store.Statement {
	var b strings.Builder
	b.WriteString("SELECT kind, key, issuer, highest, last_seq, value, payload, fence, fingerprint, attempt, entry_seq FROM sink WHERE resource = ? AND (kind, seq, key) IN ((0, 0, '')")
	args := []any{resource}
	if n := len(keys); n > 0 {
		for i := range 1 << bits.Len(uint(n-1)) {
			b.WriteString(", (1, 0, ?)")
			args = append(args, keys[min(i, n-1)])
		}
	}
	b.WriteString(")")
	return store.Statement{CQL: b.String(), Args: args, Partition: []any{resource}}
}

// viewOf reads the rows of a look, or those that came back with a rejection.
func viewOf(rows []map[string]any, c *call) (view, error) {
	v := view{}
	for _, row := range rows {
		kind, ok := kindOf(row)
		switch {
		case !ok:
			return view{}, malformed(row)
		case kind == kindHeader:
			h, err := headerOf(row)
			if err != nil {
				return view{}, err
			}
			v.header = h
			v.dropped, _ = row["fence"].(int64)
		case kind == kindKey && c.Effect != nil && row["key"] == c.Effect.Key:
			k, err := keyOf(row, c.attempt)
			if err != nil {
				return view{}, err
			}
			v.key = &k
		}
	}
	return v, nil
}

// kindOf returns a row's kind. A rejected batch returns the whole key of each
// row; a rejected single statement would not, and none is used here.
func kindOf(row map[string]any) (int, bool) {
	k, ok := row["kind"].(int8)
	return int(k), ok
}

func headerOf(row map[string]any) (sink.Header, error) {
	issuer, ok1 := row["issuer"].(string)
	highest, ok2 := row["highest"].(int64)
	seq, ok3 := row["last_seq"].(int64)
	if !ok1 || !ok2 || !ok3 || issuer == "" || seq < 1 {
		return sink.Header{}, malformed(row)
	}
	// Where the ledger stood when it was sealed: whatever changes the header ends that, also
	// by a program that knows of no seals.
	sealed, _ := row["entry_seq"].(int64)
	return sink.Header{Issuer: issuer, Highest: highest, Seq: seq, Sealed: sealed == seq}, nil
}

// keyOf reads a key's row for a call that is known by its attempt.
func keyOf(row map[string]any, own string) (sink.Accepted, error) {
	token, ok1 := row["fence"].(int64)
	seq, ok2 := row["entry_seq"].(int64)
	print, ok3 := row["fingerprint"].([]byte)
	attempt, ok4 := row["attempt"].(string)
	if !ok1 || !ok2 || !ok3 || !ok4 || attempt == "" {
		return sink.Accepted{}, malformed(row)
	}
	return sink.Accepted{Token: token, Seq: seq, Fingerprint: print, Own: attempt == own}, nil
}

func malformed(row map[string]any) error {
	return &store.Error{Op: "read sink", Outcome: store.Unknown,
		Cause: fmt.Errorf("the row is malformed: %v: it was written by something else than this program", row)}
}

// Read implements sink.Sink by one SERIAL read.
func (s *Sink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	rows, err := s.read(ctx, true, selectRows(resource, keys))
	if err != nil {
		return sink.State{}, err
	}
	st := sink.State{Applied: map[string]int64{}}
	for _, row := range rows {
		switch kind, _ := kindOf(row); kind {
		case kindHeader:
			h, err := headerOf(row)
			if err != nil {
				return sink.State{}, err
			}
			st.Issuer, st.Seen, st.Seq = h.Issuer, h.Highest, h.Seq
			st.Value, _ = row["value"].(int64)
			st.Payload, _ = row["payload"].([]byte)
			s.remember(resource, h)
		case kindKey:
			k, err := keyOf(row, "")
			if err != nil {
				return sink.State{}, err
			}
			key, _ := row["key"].(string)
			st.Applied[key] = k.Token
		}
	}
	return st, nil
}

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
