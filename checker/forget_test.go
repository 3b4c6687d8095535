package checker

import (
	"context"
	"slices"
	"testing"
	"time"

	"fencepost/core/sink"
	"fencepost/harness/record/history"
	"fencepost/harness/target/simrun"
	"fencepost/internal/race"
)

func init() { namedAlone["forgotten-too-much"] = true }

// forgetsAll forgets whatever is there, whatever its age.
type forgetsAll struct{ sink.Sink }

func (f forgetsAll) Forget(ctx context.Context, resource string, _ time.Time) (int, error) {
	return f.Sink.Forget(ctx, resource, time.Now())
}

// TestForgetting: a sink may forget what is old, and then refuses who is at work. One that forgets what
// is young is found; so is a token that is refused although nobody asked the sink to forget.
func TestForgetting(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	seals, refused := 0, 0
	for seed := range uint64(4) {
		c := simrun.DrawForgetting(seed)
		h := simrun.Make(t, c)
		if r := Check(t.Context(), h, Options{}); r.Verdict != Pass || r.Counts.Points["forget"] == 0 {
			t.Errorf("seed %d: %s, %v, forgot %d times", seed, r.Verdict, failing(r), r.Counts.Points["forget"])
		}
		s, n := sealed(h)
		seals, refused = seals+s, refused+n
		h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return e.Op == history.OpForget })
		if r := Check(t.Context(), h, Options{}); r.Verdict == Pass {
			t.Errorf("seed %d: seals that nobody asked for pass", seed)
		}
		c.Trimmed = func(s sink.Sink) sink.Sink { return forgetsAll{s} }
		h = simrun.Make(t, c)
		r := Check(t.Context(), h, Options{})
		if best := Explain(h, r, Options{}).Best(); !slices.Contains(failing(r), "P4") || !slices.Contains(best, "forgotten-too-much") {
			t.Errorf("seed %d: %s, %v, explained by %v", seed, r.Verdict, failing(r), best)
		}
	}
	if seals == 0 || refused == 0 {
		t.Errorf("%d seals, %d effects refused because of one: the runs show nothing", seals, refused)
	}
}

// sealed counts the seals of ledgers, and the effects that were refused because of the token of one
// and nothing else.
func sealed(h *history.History) (seals, refused int) {
	of := map[int64]bool{}
	for _, e := range h.Events {
		if l := e.Ledger(); l != nil && l.Kind == history.LedgerSeal {
			seals, of[l.Token] = seals+1, true
		}
	}
	for _, e := range h.Events {
		if e.Op == history.OpEffect && e.Result == "stale" && of[e.Seen] {
			refused++
		}
	}
	return seals, refused
}
