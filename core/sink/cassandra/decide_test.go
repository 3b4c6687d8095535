package cassandrasink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

var effect = &sink.Effect{Key: "k", Intent: "add 1", Value: 9}

func aCall(t *testing.T, token int64, e *sink.Effect) *call {
	t.Helper()
	c, err := newCall(sink.Call{Resource: "r", Issuer: "i", Token: token, Effect: e})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEvaluate: what changes nothing rests on a linearizable look; a batch on any.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	h := sink.Header{Issuer: "i", Highest: 5, Seq: 7}
	k := &sink.Accepted{Token: 4, Seq: 3, Fingerprint: effect.Fingerprint()}
	for name, c := range map[string]struct {
		call   *call
		header sink.Header
		key    *sink.Accepted
		kind   string
	}{
		"raise, new resource":     {aCall(t, 1, nil), sink.Header{}, nil, sink.KindRaise},
		"raise, same":             {aCall(t, 5, nil), h, nil, ""},
		"raise, lower":            {aCall(t, 4, nil), h, nil, ""},
		"accept":                  {aCall(t, 5, effect), h, nil, sink.KindAccept},
		"accept, lower":           {aCall(t, 4, effect), h, nil, ""},
		"duplicate":               {aCall(t, 5, effect), h, k, ""},
		"duplicate, raises first": {aCall(t, 6, effect), h, k, sink.KindRaise},
		"another issuer":          {aCall(t, 9, effect), sink.Header{Issuer: "j", Highest: 1, Seq: 1}, nil, ""},
		"a key without a header":  {aCall(t, 9, effect), sink.Header{}, k, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, serial := range []bool{true, false} {
				d, ok := c.call.evaluate(view{header: c.header, key: c.key, serial: serial})
				if d.Kind != c.kind || ok != (serial || c.kind != "") {
					t.Errorf("serial %t: %+v, %t", serial, d, ok)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		view view
		want store.Outcome
	}{
		"another issuer":         {view{header: sink.Header{Issuer: "j", Highest: 1, Seq: 1}}, store.Fail},
		"a key without a header": {view{key: k}, store.Unknown},
	} {
		call := aCall(t, 9, effect)
		d, _ := call.evaluate(c.view)
		if _, err := call.answer(d); err == nil || store.OutcomeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBatchIsFenced: every batch names the header as it was seen, first.
func TestBatchIsFenced(t *testing.T) {
	t.Parallel()
	h := sink.Header{Issuer: "i", Highest: 5, Seq: 7}
	for name, x := range map[string]struct {
		old   sink.Header
		call  *call
		first string
		n     int
	}{
		"new, raise":  {sink.Header{}, aCall(t, 6, nil), insertHeader, 2},
		"new, accept": {sink.Header{}, aCall(t, 6, effect), insertHeader, 3},
		"raise":       {h, aCall(t, 6, nil), raiseHeader, 2},
		"accept":      {h, aCall(t, 6, effect), writeHeader, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stmts := x.call.statements(x.old, sink.Decide(x.old, nil, x.call.Call), time.Now())
			if len(stmts) != x.n || stmts[0].CQL != x.first || len(stmts[0].Partition) != 1 {
				t.Errorf("%d statements, the first %q", len(stmts), stmts[0].CQL)
			}
			if got := strings.Count(stmts[0].CQL, "?"); got != len(stmts[0].Args) {
				t.Errorf("%d arguments for %q", len(stmts[0].Args), stmts[0].CQL)
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
			call := aCall(t, 1, nil)
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

// forbidden refuses for good to write, or to read as well. It counts.
type forbidden struct {
	database
	reads bool
	n     int
}

var errForbidden = &store.Error{Outcome: store.Fail, Permanent: true, Cause: errors.New("no MODIFY permission: grant it")}

func (f *forbidden) CAS(context.Context, int, ...store.Statement) (bool, []map[string]any, error) {
	f.n++
	return false, nil, errForbidden
}

func (f *forbidden) QueryBy(ctx context.Context, n int, serial bool, s store.Statement) ([]map[string]any, error) {
	if !f.reads {
		return f.database.QueryBy(ctx, n, serial, s)
	}
	f.n++
	return nil, errForbidden
}

// TestRefusedForGood: what no node will ever take is not sent again and again.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"writes": false, "reads": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &forbidden{database: newFake(1), reads: reads}
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				answer, err := newSink(f, time.Second).Raise(ctx, "r", "i", 3)
				if !store.IsPermanent(err) || !errors.Is(err, errForbidden) || sink.OutcomeOf(answer, err) != store.Fail || f.n != 3 {
					t.Errorf("%d requests were refused, %v", f.n, err)
				}
			})
		})
	}
}
