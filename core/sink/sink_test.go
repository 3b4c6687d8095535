package sink_test

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	e := &sink.Effect{Key: "k", Intent: "add 1", Value: 9}
	raise := func(token int64) sink.Call { return sink.Call{Resource: "r", Issuer: "i", Token: token} }
	accept := func(token int64) sink.Call {
		c := raise(token)
		c.Effect = e
		return c
	}
	none := sink.Header{}
	h := sink.Header{Issuer: "i", Highest: 5, Seq: 7}
	sealed := sink.Header{Issuer: "i", Highest: 5, Seq: 7, Sealed: true}
	same := &sink.Accepted{Token: 4, Seq: 3, Fingerprint: e.Fingerprint()}
	other := &sink.Accepted{Token: 4, Seq: 3, Fingerprint: []byte("x")}
	own := &sink.Accepted{Token: 5, Seq: 6, Fingerprint: e.Fingerprint(), Own: true}
	for name, c := range map[string]struct {
		header sink.Header
		key    *sink.Accepted
		call   sink.Call
		kind   string
		want   sink.Answer
	}{
		"raise, new resource":        {none, nil, raise(1), sink.KindRaise, sink.Answer{Result: sink.Applied, Seen: 1, Seq: 1}},
		"raise, higher":              {h, nil, raise(6), sink.KindRaise, sink.Answer{Result: sink.Applied, Seen: 6, Seq: 8}},
		"raise, same, sealed":        {sealed, nil, raise(5), sink.KindRaise, sink.Answer{Result: sink.Applied, Seen: 5, Seq: 8}},
		"raise, lower, sealed":       {sealed, nil, raise(4), "", sink.Answer{Result: sink.Stale, Seen: 5, Seq: 7}},
		"accept, sealed":             {sealed, nil, accept(5), sink.KindAccept, sink.Answer{Result: sink.Applied, FirstToken: 5, Seen: 5, Seq: 8}},
		"duplicate, sealed":          {sealed, same, accept(5), sink.KindRaise, sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 5, Seq: 3}},
		"duplicate, lower, sealed":   {sealed, same, accept(4), "", sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 5, Seq: 3}},
		"raise, same":                {h, nil, raise(5), "", sink.Answer{Result: sink.Applied, Seen: 5, Seq: 7}},
		"raise, lower":               {h, nil, raise(4), "", sink.Answer{Result: sink.Stale, Seen: 5, Seq: 7}},
		"accept, new resource":       {none, nil, accept(1), sink.KindAccept, sink.Answer{Result: sink.Applied, FirstToken: 1, Seen: 1, Seq: 1}},
		"accept, higher":             {h, nil, accept(6), sink.KindAccept, sink.Answer{Result: sink.Applied, FirstToken: 6, Seen: 6, Seq: 8}},
		"accept, same":               {h, nil, accept(5), sink.KindAccept, sink.Answer{Result: sink.Applied, FirstToken: 5, Seen: 5, Seq: 8}},
		"accept, lower":              {h, nil, accept(4), "", sink.Answer{Result: sink.Stale, Seen: 5, Seq: 7}},
		"duplicate, same token":      {h, same, accept(5), "", sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 5, Seq: 3}},
		"duplicate, lower token":     {h, same, accept(3), "", sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 5, Seq: 3}},
		"duplicate, raises":          {h, same, accept(6), sink.KindRaise, sink.Answer{Result: sink.Duplicate, FirstToken: 4, Seen: 6, Seq: 3}},
		"conflict":                   {h, other, accept(5), "", sink.Answer{Result: sink.Conflict, FirstToken: 4, Seen: 5, Seq: 7}},
		"conflict, lower token":      {h, other, accept(1), "", sink.Answer{Result: sink.Conflict, FirstToken: 4, Seen: 5, Seq: 7}},
		"conflict, raises":           {h, other, accept(6), sink.KindRaise, sink.Answer{Result: sink.Conflict, FirstToken: 4, Seen: 6, Seq: 8}},
		"an earlier copy of its own": {h, own, accept(5), "", sink.Answer{Result: sink.Applied, FirstToken: 5, Seen: 5, Seq: 6}},
		"its own, and a higher since": {sink.Header{Issuer: "i", Highest: 8, Seq: 9}, own, accept(5), "",
			sink.Answer{Result: sink.Applied, FirstToken: 5, Seen: 8, Seq: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sink.Decide(c.header, c.key, c.call)
			if d.Err != nil || d.Kind != c.kind || d.Answer != c.want {
				t.Errorf("%+v\nwant %q, %+v", d, c.kind, c.want)
			}
			after := c.header
			if c.kind != "" {
				after = sink.Header{Issuer: "i", Highest: c.call.Token, Seq: c.header.Seq + 1}
			}
			if d.Header != after {
				t.Errorf("the header becomes %+v, want %+v", d.Header, after)
			}
		})
	}
	d := sink.Decide(sink.Header{Issuer: "j", Highest: 1, Seq: 1}, nil, accept(9))
	if want := (*sink.IssuerError)(nil); !errors.As(d.Err, &want) || d.Kind != "" || d.Answer != (sink.Answer{}) {
		t.Errorf("another issuer: %+v", d)
	}
}

func TestSeal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header, want sink.Header
	}{
		"never used":      {sink.Header{}, sink.Header{}},
		"used":            {sink.Header{Issuer: "i", Highest: 5, Seq: 7}, sink.Header{Issuer: "i", Highest: 6, Seq: 8, Sealed: true}},
		"sealed":          {sink.Header{Issuer: "i", Highest: 6, Seq: 8, Sealed: true}, sink.Header{Issuer: "i", Highest: 6, Seq: 8, Sealed: true}},
		"highest":         {sink.Header{Issuer: "i", Highest: sink.MaxToken, Seq: 1}, sink.Header{Issuer: "i", Highest: math.MaxInt64, Seq: 2, Sealed: true}},
		"above any token": {sink.Header{Issuer: "i", Highest: math.MaxInt64, Seq: 1}, sink.Header{Issuer: "i", Highest: math.MaxInt64, Seq: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sink.Seal(c.header)
			if d.Header != c.want || (d.Kind == sink.KindSeal) != (c.header != c.want) {
				t.Errorf("%+v, want %+v", d, c.want)
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	issuer := &sink.IssuerError{Resource: "r", Bound: "a", Used: "b"}
	for name, c := range map[string]struct {
		answer sink.Answer
		err    error
		want   store.Outcome
	}{
		"applied":             {sink.Answer{Result: sink.Applied}, nil, store.OK},
		"duplicate":           {sink.Answer{Result: sink.Duplicate}, nil, store.OK},
		"stale":               {sink.Answer{Result: sink.Stale}, nil, store.Fail},
		"conflict":            {sink.Answer{Result: sink.Conflict}, nil, store.Fail},
		"stale after unknown": {sink.Answer{Result: sink.Stale}, &store.Error{Outcome: store.Unknown, Cause: sink.ErrStaleAfterUnknown}, store.Unknown},
		"another issuer":      {sink.Answer{}, issuer, store.Fail},
		"refused":             {sink.Answer{}, &store.Error{Outcome: store.Fail, Cause: io.EOF}, store.Fail},
		"anything":            {sink.Answer{}, errors.New("x"), store.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sink.OutcomeOf(c.answer, c.err); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	for r, want := range map[sink.Result]string{sink.Applied: "applied", sink.Duplicate: "duplicate", sink.Stale: "stale", sink.Conflict: "conflict", 0: "result(0)", 5: "result(5)"} {
		if r.String() != want {
			t.Errorf("%d: %s", int(r), r)
		}
		if r != 0 && r != 5 && sink.ResultOf(want) != r || sink.ResultOf("other") != 0 {
			t.Errorf("%s is read as %s", want, sink.ResultOf(want))
		}
	}
}

// TestUnsettled: of all answers, only Stale leaves open what became of an earlier copy.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	for r, want := range map[sink.Result]store.Outcome{sink.Applied: store.OK, sink.Duplicate: store.OK, sink.Conflict: store.Fail, sink.Stale: store.Unknown} {
		a := sink.Answer{Result: r}
		err := sink.Unsettled("put", a)
		if (err == nil) != (r != sink.Stale) || err != nil && !errors.Is(err, sink.ErrStaleAfterUnknown) || sink.OutcomeOf(a, err) != want {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// whole is a sink that reads ledgers only whole.
type whole struct {
	sink.Sink
	err error
}

func (w whole) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) {
	if w.err != nil {
		return nil, w.err
	}
	return w.Sink.Ledger(ctx, resource)
}

// TestLedgerAfter: a part of a ledger is the same, whether the sink can read it alone or not.
func TestLedgerAfter(t *testing.T) {
	t.Parallel()
	pager := sinktest.NewMemory()
	for token := range int64(4) {
		if _, err := pager.Raise(t.Context(), "r", "i", token+1); err != nil {
			t.Fatal(err)
		}
	}
	for after := range int64(5) {
		for _, n := range []int{1, 2, math.MaxInt} {
			want, _ := pager.LedgerAfter(t.Context(), "r", after, n)
			for name, s := range map[string]sink.Sink{"pager": pager, "whole": whole{Sink: pager}} {
				got, err := sink.LedgerAfter(t.Context(), s, "r", after, n)
				if err != nil || !slices.Equal(got, want) || len(got) != min(n, int(4-after)) {
					t.Errorf("%s: up to %d after %d: %v, %v", name, n, after, got, err)
				}
			}
		}
	}
	if _, err := sink.LedgerAfter(t.Context(), whole{Sink: pager, err: io.EOF}, "r", 0, 1); !errors.Is(err, io.EOF) {
		t.Errorf("a ledger that cannot be read: %v", err)
	}
}

// TestEnded: a call without an answer says what ended it, and whether a copy may have been carried out.
func TestEnded(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	for name, c := range map[string]struct {
		ctx       context.Context
		last      error
		uncertain int
		want      store.Outcome
		cause     string
	}{
		"refused":           {t.Context(), io.EOF, 0, store.Fail, "EOF"},
		"one copy unsure":   {t.Context(), io.EOF, 1, store.Unknown, "EOF"},
		"its context ended": {over, io.EOF, 0, store.Fail, "io: read/write on closed pipe\nEOF"},
		"by its context":    {over, io.ErrClosedPipe, 2, store.Unknown, "io: read/write on closed pipe"},
	} {
		if e := sink.Ended(c.ctx, "put", c.last, c.uncertain); e.Outcome != c.want || e.Cause.Error() != c.cause || e.Op != "put" {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// TestPause: the pauses between copies double from 20 ms to 1 s, half of it more or less.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 300 { // as they are random
			var p sink.Pause
			for n, d := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
				d *= time.Millisecond
				begun := time.Now()
				p.Wait(t.Context())
				if w := time.Since(begun); w < d/2 || w >= d/2+d {
					t.Fatalf("pause %d lasts %s, want %s, half of it more or less", n+1, w, d)
				}
			}
		}
	})
}

// TestNamesAndFloors: what a sink keeps of an issuer is not taken for a resource.
func TestNamesAndFloors(t *testing.T) {
	t.Parallel()
	if f := sink.FloorOf("i"); !sink.IsFloor(f) || sink.IsFloor("i") {
		t.Errorf("floor %q", f)
	}
	if sink.Fresh(0) != (sink.Header{}) || sink.Fresh(1) != (sink.Header{Highest: 1, Sealed: true}) {
		t.Errorf("fresh: %+v, %+v", sink.Fresh(0), sink.Fresh(1))
	}
	for name, c := range map[string]struct {
		issuer    string
		below     int64
		resources []string
		ok        bool
	}{
		"right":           {"i", 1, []string{"a", "b"}, true},
		"highest":         {"i", sink.MaxToken, nil, true},
		"no issuer":       {"", 1, nil, false},
		"below any token": {"i", 0, nil, false},
		"above any token": {"i", math.MaxInt64, nil, false},
		"no name":         {"i", 1, []string{"a", ""}, false},
		"a floor":         {"i", 1, []string{sink.FloorOf("i")}, false},
	} {
		if err := sink.CheckRetire(c.issuer, c.below, c.resources); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
