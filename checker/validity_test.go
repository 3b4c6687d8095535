package checker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// TestInvalidRuns: a run that could not have shown a violation, or whose record
// has lost events, is INVALID: neither PASS nor FAIL.
func TestInvalidRuns(t *testing.T) {
	t.Parallel()
	expect := func(change func(*history.Expect)) func(*edit) {
		return func(e *edit) {
			n := e.notes(history.NoteExpect)[0]
			x := *n.Expect()
			change(&x)
			n.OwnDetails().Expect = &x
		}
	}
	for _, tc := range []struct {
		name, message string
		do            func(*edit)
	}{
		{"no expect note", "no expect note", func(e *edit) {
			e.drop(func(ev *history.Event) bool { return ev.Op == history.NoteExpect })
		}},
		{"no operations", "no lock cycle was completed", func(e *edit) {
			e.drop(func(ev *history.Event) bool { return ev.Type != history.Note })
		}},
		{"fault not injected", "was not injected", func(e *edit) {
			e.drop(func(ev *history.Event) bool { return ev.Op == history.NoteFault })
		}},
		{"fault without evidence", "there is no evidence", func(e *edit) {
			e.drop(func(ev *history.Event) bool {
				return ev.Op == history.NoteFault && ev.Fault().Action == history.ActionEvidence
			})
		}},
		{"fault not proven", "12 requests were held", func(e *edit) {
			for _, n := range e.notes(history.NoteFault) {
				f := *n.Fault()
				f.Proven = false
				n.OwnDetails().Fault = &f
			}
		}},
		{"too few cycles", "the scenario demands 100000", expect(func(x *history.Expect) { x.MinCycles = map[string]int{"fault": 100_000} })},
		{"a group that had to succeed", "no release of w1 succeeded", expect(func(x *history.Expect) {
			x.Success = []history.Success{{Phase: "seal", Workers: []string{"w1"}, Want: history.Some}}
		})},
		{"expectation of an unknown worker", "worker w9, which recorded nothing", expect(func(x *history.Expect) {
			x.Success = []history.Success{{Phase: "before", Workers: []string{"w9"}, Want: history.Some}}
		})},
		{"a group that must not succeed", "demands none", expect(func(x *history.Expect) {
			x.Success = []history.Success{{Phase: "before", Workers: []string{"w1"}, Want: history.None}}
		})},
		{"expectation of an unknown phase", "did not have", expect(func(x *history.Expect) {
			x.Success = []history.Success{{Phase: "moon", Want: history.Some}}
		})},
		{"unknown expectation", `wants "perhaps"`, expect(func(x *history.Expect) {
			x.Success = []history.Success{{Phase: "before", Want: "perhaps"}}
		})},
		{"point not reached", `must reach "holding"`, expect(func(x *history.Expect) { x.Must = []string{"holding"} })},
		{"a worker that recorded nothing", "the scenario has 9", expect(func(x *history.Expect) { x.Workers = 9 })},
		{"lock not sealed", "was not sealed", func(e *edit) {
			e.drop(func(ev *history.Event) bool {
				return ev.Op == history.OpSeal || ev.Op == history.OpRead && ev.Proc == history.Harness
			})
			e.renumber(history.Harness)
		}},
		{"no final value", "was not read after the run", func(e *edit) {
			e.drop(func(ev *history.Event) bool {
				return ev.Op == history.OpGet && ev.Proc == history.Harness
			})
			e.renumber(history.Harness)
		}},
		{"ledger entry missing", "is incomplete: entry", func(e *edit) {
			l := e.ledger("res-lock-0")
			i := slices.IndexFunc(l, func(n *history.Event) bool { return n.Ledger().Kind == history.LedgerRaise })
			gone := *l[i]
			e.drop(func(ev *history.Event) bool {
				return ev.Op == history.NoteLedger && ev.Key == gone.Key && ev.Ledger().Seq == gone.Ledger().Seq
			})
		}},
		{"end of the ledger missing", "the final read shows", func(e *edit) {
			l := e.ledger("res-lock-0")
			last := *l[len(l)-1]
			for _, p := range e.all(history.OpEffect, history.OK) {
				if p.inv.EffectKey == last.Ledger().EffectKey {
					p.end.Type = history.Unknown
				}
			}
			e.drop(func(ev *history.Event) bool {
				return ev.Op == history.NoteLedger && ev.Key == last.Key && ev.Ledger().Seq == last.Ledger().Seq
			})
		}},
		{"operation lost", "1 id is missing", func(e *edit) { e.dropOp(e.middle().raise) }},
		{"granting operation lost", "1 id is missing", func(e *edit) { e.dropOp(e.middle().acquire) }},
		{"release lost", "1 id is missing", func(e *edit) { e.dropOp(e.middle().release) }},
		{"effect lost", "1 id is missing", func(e *edit) { e.dropOp(e.middle().effect) }},
		{"operation lost and ids renumbered", "no recorded operation", func(e *edit) {
			p := e.middle().effect
			life := history.Life(p.inv.Proc)
			e.dropOp(p)
			e.renumber(life)
		}},
		{"every 50th operation lost", "missing", func(e *edit) {
			e.drop(func(ev *history.Event) bool { return ev.ID%50 == 0 && ev.ID > 0 && ev.Proc != history.Harness })
		}},
		{"end lost", "without an end although", func(e *edit) {
			p := e.middle().get.end
			id, life := p.ID, history.Life(p.Proc)
			e.drop(func(ev *history.Event) bool {
				return ev.ID == id && history.Life(ev.Proc) == life && ev.Type == history.OK
			})
		}},
		{"answer of a granting acquire lost", "has no end although", func(e *edit) {
			p := e.middle().acquire.end
			id, life := p.ID, history.Life(p.Proc)
			e.drop(func(ev *history.Event) bool {
				return ev.ID == id && history.Life(ev.Proc) == life && ev.Type == history.OK
			})
		}},
		{"record cut off", "may have been cut off", func(e *edit) {
			e.drop(func(ev *history.Event) bool {
				return ev.Op == history.NoteExit && ev.Proc == "w1.1" || ev.Op == history.NoteCrash
			})
		}},
		{"id used twice", "is used twice", func(e *edit) {
			h := e.middle()
			h.get.inv.ID, h.get.end.ID = h.raise.inv.ID, h.raise.inv.ID
		}},
		{"invocations recorded after the send", "send outside", func(e *edit) {
			p := e.middle().acquire
			p.end.Sends = []int64{p.inv.TS - 5}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(3); seed < 9; seed++ {
				e := newEdit(simulate(small(seed)))
				tc.do(e)
				r := Check(context.Background(), e.h, Options{})
				if r.Verdict != Invalid {
					for _, id := range failing(r) {
						t.Log(id, firstViolation(r, id))
					}
					t.Fatalf("seed %d: %s: %s", seed, r.Verdict, r.Summary)
				}
				found := false
				for _, p := range r.Properties {
					for _, v := range p.Violations {
						found = found || p.ID == "P14" && strings.Contains(v.Message, tc.message)
					}
				}
				if !found {
					t.Fatalf("seed %d: no finding says %q: %s", seed, tc.message, r.Summary)
				}
				checkExplained(t, r)
			}
		})
	}
}

// renumber closes the gaps in a life's ids.
func (e *edit) renumber(life string) {
	n := int64(0)
	seen := map[int64]int64{}
	for i := range e.h.Events {
		ev := &e.h.Events[i]
		if ev.ID == 0 || history.Life(ev.Proc) != life {
			continue
		}
		if ev.Type == history.Invoke {
			n++
			seen[ev.ID] = n
		}
		ev.ID = seen[ev.ID]
	}
	e.index()
}

// TestManyLossesAreInvalid: whatever a recorder loses, the system is not blamed.
func TestManyLossesAreInvalid(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for seed := range uint64(40) {
		e := newEdit(simulate(small(seed)))
		every := int64(10 + seed)
		e.drop(func(ev *history.Event) bool { return ev.ID > 0 && ev.ID%every == 0 && ev.Proc != history.Harness })
		if r := Check(context.Background(), e.h, Options{}); r.Verdict != Invalid {
			for _, id := range failing(r) {
				t.Log(id, firstViolation(r, id))
			}
			t.Fatalf("seed %d, every %d lost: %s: %s", seed, every, r.Verdict, r.Summary)
		}
	}
}

// TestKilledLifeMayHaveDrawnAnID: a process that dies between drawing an id and
// recording the invocation has lost nothing.
func TestKilledLifeMayHaveDrawnAnID(t *testing.T) {
	t.Parallel()
	for seed := uint64(0); ; seed++ {
		h := simulate(small(seed))
		e := newEdit(h)
		crashes := e.notes(history.NoteCrash)
		if len(crashes) == 0 {
			continue
		}
		life := crashes[0].Proc
		var last pair
		for _, p := range e.ops {
			if history.Life(p.inv.Proc) == life {
				last = p
			}
		}
		// The next id was drawn by another client, which got no further.
		last.inv.ID++
		if last.end != nil {
			last.end.ID++
		}
		if r := Check(context.Background(), h, Options{}); r.Verdict != Pass {
			t.Fatalf("%s: %s", r.Verdict, r.Summary)
		}
		// The same gap long before the death is a loss.
		cut := last.inv.ID / 2
		for i := range h.Events {
			if ev := &h.Events[i]; history.Life(ev.Proc) == life && ev.ID > cut {
				ev.ID++
			}
		}
		if r := Check(context.Background(), h, Options{}); r.Verdict != Invalid {
			t.Fatalf("%s: %s", r.Verdict, r.Summary)
		}
		return
	}
}

// TestInterruptedRunIsInvalid: a history cut off at any instant, with nothing
// sealed or read after it, blames nobody.
func TestInterruptedRunIsInvalid(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		h := simulate(small(seed))
		from, to := h.Events[0].TS, h.Events[len(h.Events)-1].TS
		cut := from + (to-from)*int64(seed+1)/25
		h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return e.TS > cut })
		if r := Check(context.Background(), h, Options{}); r.Verdict != Invalid {
			for _, id := range failing(r) {
				t.Log(id, firstViolation(r, id))
			}
			t.Fatalf("seed %d: %s: %s", seed, r.Verdict, r.Summary)
		}
	}
}

// TestUnfinishedSearchIsUnknown: a search that does not finish is never a pass.
func TestUnfinishedSearchIsUnknown(t *testing.T) {
	t.Parallel()
	h := simulate(small(1))
	r := Check(context.Background(), h, Options{Search: time.Nanosecond})
	if r.Verdict != Unknown || !strings.Contains(r.Summary, "P2") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r := Check(ctx, h, Options{}); r.Verdict != Unknown {
		t.Errorf("cancelled: %s: %s", r.Verdict, r.Summary)
	}
	// What the linear-time checks found stands.
	e := newEdit(h)
	e.middle().release.end.Type = history.Fail
	e.middle()
	if r := Check(context.Background(), e.h, Options{Search: time.Nanosecond}); r.Verdict != Fail {
		t.Errorf("broken chain: %s: %s", r.Verdict, r.Summary)
	}
}

// TestPromises: what a system does not claim is n/a, P14 and P18 always count.
func TestPromises(t *testing.T) {
	t.Parallel()
	h := simulate(small(2))
	for i := range h.Headers {
		h.Headers[i].Promises = []string{"P1", "P2"}
	}
	r := Check(context.Background(), h, Options{})
	for _, p := range r.Properties {
		judged := p.ID == "P1" || p.ID == "P2" || p.ID == "P14" || p.ID == "P18"
		if judged != (p.Status != StatusNA) {
			t.Errorf("%s: %s (%s)", p.ID, p.Status, p.Detail)
		}
	}
	if r.Verdict != Pass || !strings.Contains(r.Summary, "P3") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

// TestNotJudged: what the workload cannot show is not listed as passed.
func TestNotJudged(t *testing.T) {
	t.Parallel()
	r := Check(context.Background(), simulate(small(2)), Options{})
	for _, p := range r.Properties {
		na := property.CheckByID(p.ID).Of != "" || p.ID == "P13"
		if na != (p.Status == StatusNA) || p.Detail == "" {
			t.Errorf("%s: %s (%s)", p.ID, p.Status, p.Detail)
		}
	}
	for _, want := range []string{"no violation in", "takeovers", "stale writes refused", "settled", "not exercised", "P12"} {
		if !strings.Contains(r.Summary, want) {
			t.Errorf("the summary lacks %q: %s", want, r.Summary)
		}
	}
}

// TestHits: a client at a point before its request, and what its links carried of that.
func TestHits(t *testing.T) {
	t.Parallel()
	const late = 5 // the id of w1's write
	for name, c := range map[string]struct {
		change  func(*sinkStory)
		hit     history.Hit
		at      int64
		message string
	}{
		"let go, then sent":              {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(2901)}},
		"sent as it was let go":          {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(2900)}},
		"killed there":                   {at: 131, hit: history.Hit{ID: late}, change: func(s *sinkStory) { s.late().result = ""; s.late().uncarried = true }},
		"its links were cut":             {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900)}, change: func(s *sinkStory) { s.late().result = ""; s.late().uncarried = true }},
		"sent before it asked":           {at: 133, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(131)}, message: "w1.1/c1 asked at the point effect-sent of a 2.0 ms after its request had left: the fault came too late"},
		"sent before it asked, killed":   {at: 133, hit: history.Hit{ID: late, Sent: tinyAt(131)}, message: "2.0 ms after its request had left"},
		"sent while it stood there":      {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(2899)}, message: "w1.1/c1 stood at the point effect-sent of a, and its request left before it was let go"},
		"sent and never let go":          {at: 131, hit: history.Hit{ID: late, Sent: tinyAt(2899)}, message: "its request left before it was let go"},
		"never sent, and yet an answer":  {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900)}, message: "says that its effect was answered; its links carried no such request"},
		"nothing was about to be sent":   {at: 131, hit: history.Hit{Go: tinyAt(2900)}, message: "had recorded no operation that was about to be sent"},
		"an operation that nobody knows": {at: 131, hit: history.Hit{ID: 99, Go: tinyAt(2900), Sent: tinyAt(2901)}, message: "had recorded no operation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSinkStory()
			if c.change != nil {
				c.change(s)
			}
			h := s.tell()
			c.hit.Proc = "w1.1/c1"
			h.Events = append(h.Events, history.Event{TS: tinyAt(c.at), Proc: history.Harness, Type: history.Note, Op: history.NoteHit, Key: "a", Details: &history.Details{Point: "effect-sent", Hit: &c.hit}, File: "tiny.jsonl", Line: 999})
			var want []string
			if c.message != "" {
				want = []string{"P14"}
			}
			tinyCheck(t, h, c.message, want...)
		})
	}
}
