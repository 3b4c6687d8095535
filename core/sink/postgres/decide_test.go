package postgressink

import (
	"errors"
	"testing"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// TestAnswer: a stale answer is final for the only copy alone.
func TestAnswer(t *testing.T) {
	t.Parallel()
	c, err := newCall(sink.Call{Resource: "r", Issuer: "i", Token: 4, Effect: &sink.Effect{Key: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	stale := sink.Decide(sink.Header{Issuer: "i", Highest: 5, Seq: 7}, nil, c.Call)
	if a, err := c.answer(stale); err != nil || a.Result != sink.Stale {
		t.Errorf("%+v, %v", a, err)
	}
	c.uncertain = 1
	if a, err := c.answer(stale); a.Result != sink.Stale || !errors.Is(err, sink.ErrStaleAfterUnknown) || sink.OutcomeOf(a, err) != store.Unknown {
		t.Errorf("%+v, %v", a, err)
	}
	other := sink.Decide(sink.Header{Issuer: "j", Highest: 1, Seq: 1}, nil, c.Call)
	if a, err := c.answer(other); sink.OutcomeOf(a, err) != store.Fail || !errors.As(err, new(*sink.IssuerError)) {
		t.Errorf("%+v, %v", a, err)
	}
}
