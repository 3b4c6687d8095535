package seal

import (
	"context"
	"testing"
	"time"

	"fencepost/core/sink"
	"fencepost/harness/record/history"
)

// Every entry of a ledger is in the history once, however much of it was dropped meanwhile.
func TestTrimmedLedgerIsWhole(t *testing.T) {
	t.Parallel()
	const age = 20 * time.Millisecond
	r, s, recorded := sealing(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	go func() {
		r.Trim(ctx, s, age, "res")
		close(over)
	}()
	token, dropped := int64(1), false
	for begun := time.Now(); !dropped; token++ {
		a, err := s.Accept(ctx, "res", "issuer", token, sink.Effect{Key: string(rune('a' + token%26)), Value: token})
		if err != nil || a.Result == sink.Stale && a.Seen != token+1 {
			t.Fatalf("%+v, %v", a, err)
		}
		entries, err := s.Ledger(ctx, "res")
		if err != nil || time.Since(begun) > 20*time.Second {
			t.Fatalf("after %d effects nothing was dropped, %v", token, err)
		}
		dropped = entries[0].Seq > 1
	}
	cancel()
	<-over
	r.Resource(t.Context(), s, "res", "issuer", token)
	if told := r.told(); len(told) > 0 {
		t.Error(told)
	}
	h := recorded()
	last, seals, keys := int64(0), 0, int64(0)
	for _, e := range h.Events {
		switch l := e.Ledger(); {
		case e.Op == history.OpForget && e.Type == history.OK:
			keys += *e.Value
		case l == nil:
		case l.Seq != last+1:
			t.Errorf("entry %d follows entry %d", l.Seq, last)
			fallthrough
		default:
			if last = l.Seq; l.Kind == history.LedgerSeal {
				seals++
			}
		}
	}
	if seals == 0 || keys == 0 {
		t.Errorf("%d seals, %d keys forgotten", seals, keys)
	}
}
