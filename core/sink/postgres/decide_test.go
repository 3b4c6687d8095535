package postgressink

import (
	"context"
	"errors"
	"testing"
	"time"

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

// TestSlowApply: a function that is cut off by the time limit of a try has one more, and is
// an error then; one that the caller ends itself is the caller's matter.
func TestSlowApply(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithTimeoutCause(t.Context(), time.Nanosecond, errTryEnded)
	defer cancel()
	<-over.Done()
	cancelled, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		slow bool
	}{
		"the client's limit":    {over, context.DeadlineExceeded, true},
		"it ignores the limit":  {over, errTryEnded, true},
		"statement_timeout":     {t.Context(), pgError("57014"), true},
		"idle_in_transaction":   {t.Context(), pgError("25P03"), true},
		"the caller's own end":  {cancelled, context.Canceled, false},
		"the server shuts down": {t.Context(), pgError("57P01"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call, err := newCall(sink.Call{Resource: "r", Issuer: "i", Token: 4, Effect: &sink.Effect{Key: "k"}})
			if err != nil {
				t.Fatal(err)
			}
			for try := 1; try <= maxSlow; try++ {
				var final finalError
				ended := errors.As(call.applyError(c.ctx, nil, c.err), &final)
				if ended != (c.slow && try == maxSlow) || ended && (!errors.Is(final.error, ErrSlow) || store.OutcomeOf(final.error) != store.Fail) {
					t.Errorf("try %d: %v", try, final.error)
				}
			}
		})
	}
}
