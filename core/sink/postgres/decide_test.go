package postgressink

import (
	"errors"
	"testing"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// TestDecide: every decision on a locked header.
func TestDecide(t *testing.T) {
	t.Parallel()
	e := &sink.Effect{Key: "k", Intent: "add 1", Value: 9}
	of := func(token int64, e *sink.Effect) *call {
		c, err := newCall("r", "i", token, e)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	accept := func(token int64) *call { return of(token, e) }
	raise := func(token int64) *call { return of(token, nil) }
	h := header{issuer: "i", highest: 5, seq: 7}
	fresh := header{issuer: "i"}
	same := &keyRow{token: 4, seq: 3, fingerprint: accept(1).fingerprint}
	other := &keyRow{token: 4, seq: 3, fingerprint: []byte("x")}
	mine := accept(5)
	mineRow := &keyRow{token: 5, seq: 6, fingerprint: mine.fingerprint, attempt: mine.attempt}

	for name, c := range map[string]struct {
		call          *call
		header        header
		key           *keyRow
		raise, accept bool
		want          sink.Answer
	}{
		"raise, new resource":        {raise(1), fresh, nil, true, false, sink.Answer{Result: sink.Applied, Seen: 1, Seq: 1}},
		"raise, higher":              {raise(6), h, nil, true, false, sink.Answer{Result: sink.Applied, Seen: 6, Seq: 8}},
		"raise, same":                {raise(5), h, nil, false, false, sink.Answer{Result: sink.Applied, Seen: 5, Seq: 7}},
		"raise, lower":               {raise(4), h, nil, false, false, sink.Answer{Result: sink.Stale, Seen: 5, Seq: 7}},
		"accept, new resource":       {accept(1), fresh, nil, true, true, sink.Answer{Result: sink.Applied, FirstToken: 1, Seen: 1, Seq: 1}},
		"accept, higher":             {accept(6), h, nil, true, true, sink.Answer{Result: sink.Applied, FirstToken: 6, Seen: 6, Seq: 8}},
		"accept, same":               {accept(5), h, nil, false, true, sink.Answer{Result: sink.Applied, FirstToken: 5, Seen: 5, Seq: 8}},
		"accept, lower":              {accept(4), h, nil, false, false, sink.Answer{Result: sink.Stale, Seen: 5, Seq: 7}},
		"duplicate, same token":      {accept(5), h, same, false, false, sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 5, Seq: 3}},
		"duplicate, lower token":     {accept(3), h, same, false, false, sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 5, Seq: 3}},
		"duplicate, raises":          {accept(6), h, same, true, false, sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 6, Seq: 3}},
		"conflict":                   {accept(5), h, other, false, false, sink.Answer{Result: sink.Conflict, FirstToken: 4, Seen: 5, Seq: 7}},
		"conflict, lower token":      {accept(1), h, other, false, false, sink.Answer{Result: sink.Conflict, FirstToken: 4, Seen: 5, Seq: 7}},
		"conflict, raises":           {accept(6), h, other, true, false, sink.Answer{Result: sink.Conflict, FirstToken: 4, Seen: 6, Seq: 8}},
		"an earlier copy of my own":  {mine, h, mineRow, false, false, sink.Answer{Result: sink.Applied, FirstToken: 5, Seen: 5, Seq: 6}},
		"my own, and a higher since": {mine, header{issuer: "i", highest: 8, seq: 9}, mineRow, false, false, sink.Answer{Result: sink.Applied, FirstToken: 5, Seen: 8, Seq: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := c.call.decide(c.header, c.key)
			if d.err != nil || d.raise != c.raise || d.accept != c.accept || d.answer != c.want {
				t.Errorf("%+v\nwant raise %t, accept %t, %+v", d, c.raise, c.accept, c.want)
			}
		})
	}
	t.Run("another issuer", func(t *testing.T) {
		t.Parallel()
		d := accept(9).decide(header{issuer: "j", highest: 1, seq: 1}, nil)
		var issuer *sink.IssuerError
		if !errors.As(d.err, &issuer) || sink.OutcomeOf(d.answer, d.err) != store.Fail || d.changes() {
			t.Errorf("%+v", d)
		}
	})
	t.Run("stale after a commit without an answer", func(t *testing.T) {
		t.Parallel()
		c := accept(4)
		c.uncertain = 1
		d := c.decide(h, nil)
		if d.answer.Result != sink.Stale || !errors.Is(d.err, sink.ErrStaleAfterUnknown) || sink.OutcomeOf(d.answer, d.err) != store.Unknown {
			t.Errorf("%+v", d)
		}
	})
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
		if _, err := newCall(c.resource, c.issuer, c.token, c.effect); store.OutcomeOf(err) != store.Fail || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
