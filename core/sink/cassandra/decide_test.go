package cassandrasink

import (
	"errors"
	"testing"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// TestEvaluate: every decision, on a linearizable look and on one that may be old.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	e := &sink.Effect{Key: "k", Intent: "add 1", Value: 9}
	accept := func(token int64) *call {
		c, err := newCall("r", "i", token, e)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	raise := func(token int64) *call {
		c, err := newCall("r", "i", token, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	h := &header{issuer: "i", highest: 5, seq: 7}
	same := &keyRow{token: 4, seq: 3, fingerprint: accept(1).fingerprint, attempt: "earlier"}
	other := &keyRow{token: 4, seq: 3, fingerprint: []byte("x"), attempt: "earlier"}
	mine := accept(5)
	mineRow := &keyRow{token: 5, seq: 6, fingerprint: mine.fingerprint, attempt: mine.attempt}

	const raises, accepts = -1, -2 // a batch instead of a result
	for name, c := range map[string]struct {
		call       *call
		header     *header
		key        *keyRow
		want       sink.Result
		firstToken int64
		seq        int64
	}{
		"raise, new resource":        {raise(1), nil, nil, raises, 0, 0},
		"raise, higher":              {raise(6), h, nil, raises, 0, 0},
		"raise, same":                {raise(5), h, nil, sink.Applied, 0, 7},
		"raise, lower":               {raise(4), h, nil, sink.Stale, 0, 7},
		"accept, new resource":       {accept(1), nil, nil, accepts, 0, 0},
		"accept, higher":             {accept(6), h, nil, accepts, 0, 0},
		"accept, same":               {accept(5), h, nil, accepts, 0, 0},
		"accept, lower":              {accept(4), h, nil, sink.Stale, 0, 7},
		"duplicate, same token":      {accept(5), h, same, sink.Duplicate, 4, 3},
		"duplicate, lower token":     {accept(3), h, same, sink.Duplicate, 4, 3},
		"duplicate, raises first":    {accept(6), h, same, raises, 0, 0},
		"conflict":                   {accept(5), h, other, sink.Conflict, 4, 7},
		"conflict, lower token":      {accept(1), h, other, sink.Conflict, 4, 7},
		"conflict, raises first":     {accept(6), h, other, raises, 0, 0},
		"an earlier copy of my own":  {mine, h, mineRow, sink.Applied, 5, 6},
		"my own, and a higher since": {mine, &header{issuer: "i", highest: 8, seq: 9}, mineRow, sink.Applied, 5, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := c.call.evaluate(view{header: c.header, key: c.key, serial: true})
			switch {
			case d.err != nil || d.needsSerial:
				t.Fatalf("decision %+v", d)
			case c.want < 0:
				if d.batch == nil || d.batch.accept != (c.want == accepts) || d.batch.old != c.header {
					t.Errorf("decision %+v", d)
				}
			case d.batch != nil || d.answer.Result != c.want || d.answer.FirstToken != c.firstToken || d.answer.Seq != c.seq || d.answer.Seen != c.header.highest:
				t.Errorf("decision %+v", d)
			}
			old := c.call.evaluate(view{header: c.header, key: c.key})
			if want := c.want > 0; old.needsSerial != want {
				t.Errorf("on an old look: needs another %v, want %v", old.needsSerial, want)
			}
		})
	}
	t.Run("another issuer", func(t *testing.T) {
		t.Parallel()
		d := accept(9).evaluate(view{header: &header{issuer: "j", highest: 1, seq: 1}})
		var issuer *sink.IssuerError
		if !errors.As(d.err, &issuer) || store.OutcomeOf(d.err) != store.Fail || sink.OutcomeOf(d.answer, d.err) != store.Fail {
			t.Errorf("decision %+v", d)
		}
	})
	t.Run("a key without a header", func(t *testing.T) {
		t.Parallel()
		if d := accept(9).evaluate(view{key: same, serial: true}); store.OutcomeOf(d.err) != store.Unknown || d.err == nil {
			t.Errorf("decision %+v", d)
		}
	})
}

// TestBatchIsFenced: every batch names the header as it was seen, first.
func TestBatchIsFenced(t *testing.T) {
	t.Parallel()
	c, err := newCall("r", "i", 6, &sink.Effect{Key: "k", Intent: "x", Value: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := &header{issuer: "i", highest: 5, seq: 7}
	for name, x := range map[string]struct {
		b     batch
		first string
		n     int
	}{
		"new, raise":  {batch{}, insertHeader, 2},
		"new, accept": {batch{accept: true}, insertHeader, 3},
		"raise":       {batch{old: h}, raiseHeader, 2},
		"accept":      {batch{old: h, accept: true}, writeHeader, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stmts := x.b.statements(c, time.Now())
			if len(stmts) != x.n || stmts[0].CQL != x.first || len(stmts[0].Partition) != 1 {
				t.Errorf("%d statements, the first %q", len(stmts), stmts[0].CQL)
			}
			v := x.b.after(c, view{})
			if v.header.highest != 6 || v.header.seq != x.b.seq() || (v.key != nil) != x.b.accept {
				t.Errorf("after: %+v", v)
			}
		})
	}
}

// TestCallEnds: what a call says when its context ends.
func TestCallEnds(t *testing.T) {
	t.Parallel()
	refused := &store.Error{Outcome: store.Fail}
	lost := &store.Error{Outcome: store.Unknown}
	timeout := &store.Error{Outcome: store.Unknown, ServerTimeout: true}
	for name, c := range map[string]struct {
		copies        []error
		want          store.Outcome
		serverTimeout bool
	}{
		"nothing sent":                {nil, store.Fail, false},
		"refused":                     {[]error{refused, refused}, store.Fail, false},
		"lost":                        {[]error{lost}, store.Unknown, false},
		"lost, then refused":          {[]error{lost, refused}, store.Unknown, false},
		"server timeouts":             {[]error{timeout, timeout}, store.Unknown, true},
		"lost, then a server timeout": {[]error{lost, timeout}, store.Unknown, false},
		"a server timeout, then lost": {[]error{timeout, lost}, store.Unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call, err := newCall("r", "i", 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range c.copies {
				call.note(e)
			}
			end := call.ended(t.Context(), errors.New("last"))
			if store.OutcomeOf(end) != c.want || store.IsServerTimeout(end) != c.serverTimeout {
				t.Errorf("%v", end)
			}
		})
	}
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resource, issuer string
		token            int64
		effect           *sink.Effect
	}{
		"no resource":    {"", "i", 1, nil},
		"no issuer":      {"r", "", 1, nil},
		"token zero":     {"r", "i", 0, nil},
		"negative token": {"r", "i", -1, nil},
		"no key":         {"r", "i", 1, &sink.Effect{}},
	} {
		if _, err := newCall(c.resource, c.issuer, c.token, c.effect); store.OutcomeOf(err) != store.Fail {
			t.Errorf("%s: %v", name, err)
		}
	}
}
