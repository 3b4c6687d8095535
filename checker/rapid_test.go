package checker

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

func drawConfig(t *rapid.T) simConfig {
	return simConfig{
		seed:    rapid.Uint64Range(0, 1<<32).Draw(t, "seed"),
		workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		clients: rapid.IntRange(1, 4).Draw(t, "clients"),
		locks:   rapid.IntRange(1, 3).Draw(t, "locks"),
		ttl:     time.Duration(rapid.IntRange(200, 2000).Draw(t, "ttl ms")) * time.Millisecond,
		length:  time.Duration(rapid.IntRange(2, 15).Draw(t, "length s")) * time.Second,
		noise:   rapid.Float64Range(0, 0.7).Draw(t, "noise"),
		pause:   rapid.Float64Range(0, 0.5).Draw(t, "pause"),
		crash:   rapid.Float64Range(0, 1).Draw(t, "crash"),

		witnessed: rapid.Bool().Draw(t, "witnessed"),
	}
}

// TestNoFalseAlarm: no history of the correct protocol fails or stays unknown,
// whatever the network, the clients and the processes do. (It may be INVALID: a
// short run can miss what its expect note demands.)
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	noFalseAlarm(t, drawConfig)
}

func noFalseAlarm(t *testing.T, world func(*rapid.T) simConfig) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		r := Check(context.Background(), simulate(world(t)), Options{})
		if r.Verdict == Fail || r.Verdict == Unknown {
			t.Fatalf("%s: %s", r.Verdict, r.Summary)
		}
		for _, p := range r.Properties {
			for _, v := range p.Violations {
				if !tooLittle.MatchString(v.Message) {
					t.Fatalf("%s: %s", p.ID, v.Message)
				}
			}
		}
	})
}

// tooLittle is what P14 says of a run that was too short.
var tooLittle = regexp.MustCompile(`^(phase|in phase|no lock|no job|nothing of)`)

// TestMangledHistoriesAreJudged: events of any shape that the reader lets
// through give a verdict, never a panic, and the page is drawn.
func TestMangledHistoriesAreJudged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := simulate(simConfig{
			seed: rapid.Uint64Range(0, 1000).Draw(t, "seed"), workers: 2, clients: 2, locks: 2,
			ttl: 300 * time.Millisecond, length: 2 * time.Second, noise: 0.3, pause: 0.2, crash: 0.5,
		})
		n := rapid.IntRange(1, 30).Draw(t, "changes")
		for range n {
			e := &h.Events[rapid.IntRange(0, len(h.Events)-1).Draw(t, "event")]
			mangle(t, h, e)
		}
		dir, err := os.MkdirTemp("", "mangled")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		r := Check(context.Background(), newEdit(h).h, Options{Dir: dir, Search: time.Second})
		if r.Verdict == "" || r.Summary == "" || len(r.Properties) != len(property.All) {
			t.Fatalf("%+v", r)
		}
	})
}

func mangle(t *rapid.T, h *history.History, e *history.Event) {
	other := h.Events[rapid.IntRange(0, len(h.Events)-1).Draw(t, "other")]
	switch rapid.IntRange(0, 11).Draw(t, "change") {
	case 0:
		e.Row = nil
	case 1:
		e.Row = other.To
	case 2:
		e.Value = nil
	case 3:
		e.Token, e.Issuer = other.Token, other.Issuer
	case 4:
		e.Sends = nil
	case 5:
		e.Seq, e.Seen = other.Seq, other.Seen
	case 6:
		d := e.OwnDetails()
		d.Fault, d.Ledger, d.Expect = other.Fault(), other.Ledger(), other.Expect()
	case 7:
		if e.From != nil && other.From != nil {
			e.From = other.From
		}
	case 8:
		if e.To != nil && other.To != nil {
			e.To = other.To
		}
	case 9:
		if e.Type == history.OK || e.Type == history.Fail || e.Type == history.Unknown {
			e.Type = rapid.SampledFrom([]history.Type{history.OK, history.Fail, history.Unknown}).Draw(t, "type")
		}
	case 10:
		e.Result, e.EffectKey = other.Result, other.EffectKey
	case 11:
		e.DecidedAt, e.OwnDetails().Phase = other.DecidedAt, other.Phase()
	}
}
