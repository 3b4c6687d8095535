package checker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// deleting is a healthy lock whose row is gone when nobody holds it, four times taken:
// released by a delete, or expired. Its tokens are of a counter of their own.
func deleting(expires bool, promises []string) *history.History {
	y := newTiny("w1.1", "w2.1")
	for i := range y.h.Headers {
		y.h.Headers[i].Promises = promises
	}
	y.expect(history.Expect{})
	for i := range int64(4) {
		at, token, proc, key := 100+1500*i, i+1, fmt.Sprintf("w%d.1/c1", 1+i%2), fmt.Sprint("k", i)
		row := history.Version{Fence: token, Attempt: fmt.Sprint("a", i), Holder: proc, TTLMS: tinyTTL}
		y.lock(at-5, at+30, proc, history.OK, token)
		y.op(at, at+10, proc, history.OK, history.Event{Op: history.OpAcquire, Key: "a", From: &history.Version{Absent: true}, To: &row}, history.Event{Sends: []int64{at*1e6 + 1e9}})
		y.note(at+41, proc, history.Event{Op: history.NoteStart, Key: "a", Token: token, DecidedAt: (at+40)*1e6 + 1e9})
		y.op(at+50, at+60, proc, history.OK, history.Event{Op: history.OpEffect, Key: "r", Issuer: "a", Token: token, EffectKey: key, Value: &token, DecidedAt: (at+49)*1e6 + 1e9}, history.Event{Result: past.ResultApplied, Seen: token, Seq: token})
		y.note(9000+i, history.Harness, history.Event{Op: history.NoteLedger, Key: "r", Details: &history.Details{Ledger: &history.LedgerEntry{Seq: token, Kind: history.LedgerAccept, Issuer: "a", Token: token, EffectKey: key, Value: &token}}})
		if !expires || i == 3 {
			y.op(at+100, at+110, proc, history.OK, history.Event{Op: history.OpRelease, Key: "a", From: &row, To: &history.Version{Absent: true}}, history.Event{Sends: []int64{(at+101)*1e6 + 1e9}})
		}
	}
	last := int64(4)
	y.op(8100, 8101, history.Harness, history.OK, history.Event{Op: history.OpGet, Key: "r"}, history.Event{Value: &last, Seen: 4, Seq: 4})
	return y.end(9100)
}

// TestRowsThatVanish: a lock whose rows vanish cannot promise a chain of versions, and is
// told so; what it can promise is judged, and nothing is said that the chain would tell.
func TestRowsThatVanish(t *testing.T) {
	t.Parallel()
	can := []string{"P1", "P3", "P4", "P7", "P8", "P10"}
	for name, expires := range map[string]bool{"deleted": false, "expired": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Check(t.Context(), deleting(expires, can), Options{})
			var printed strings.Builder
			Print(&printed, r)
			if r.Verdict != Pass || strings.Contains(r.Summary+printed.String(), "settled") || !strings.Contains(printed.String(), "4 grants reported") {
				t.Errorf("%s: %s\n%s", r.Verdict, r.Summary, printed.String())
			}
			if n := r.Counts.Points[property.PointTakeover]; n != map[bool]int{false: 0, true: 3}[expires] {
				t.Errorf("%d takeovers", n)
			}
			all := Check(t.Context(), deleting(expires, nil), Options{})
			if p := propertyOf(all, property.Validity); !slices.ContainsFunc(p.Violations, func(v Violation) bool {
				return strings.Contains(v.Message, "do not promise P2, P6, P9 and P11")
			}) {
				t.Errorf("promises all: %s: %+v", all.Verdict, p.Violations)
			}
		})
	}
}

// TestExplainNeedsPromises: an update that is lost is explained by nothing that the rows
// of a lock without a chain would have to show.
func TestExplainNeedsPromises(t *testing.T) {
	t.Parallel()
	chained := []string{"row-deleted", "rows-expire", "release-resets-counter", "refusal-granted", "release-without-owner", "tokens-not-from-row"}
	for name, c := range map[string]struct {
		promises []string
		named    bool
	}{"no chain": {[]string{"P1", "P3", "P4", "P7", "P8", "P10"}, false}, "all": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := deleting(true, c.promises)
			for i := range h.Events {
				if e := &h.Events[i]; e.Op == history.OpGet && e.Type == history.OK {
					one := int64(1)
					e.Value = &one
				}
			}
			r := Check(t.Context(), h, Options{})
			if p := propertyOf(r, "P4"); p.Status != StatusFail {
				t.Fatalf("P4 is %s", p.Status)
			}
			named := slices.ContainsFunc(Explain(h, r, Options{}).Causes, func(x Cause) bool { return slices.Contains(chained, x.Mechanism) })
			if named != c.named {
				t.Errorf("named %v", named)
			}
		})
	}
}

// TestTokensSoFar: a token that is not what the row has is its client's in the midst of a run too, when
// no life has ended yet; one that nobody was handed is nobody's.
func TestTokensSoFar(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string]bool{"handed out": false, "made up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := deleting(true, []string{"P3", "P4", "P7", "P8", "P10"})
			for i := range h.Events {
				e := &h.Events[i]
				for _, v := range []*history.Version{e.From, e.To} {
					if v != nil && v.Holder != "" {
						v.Fence = 1000 + v.Fence%1000 // two events may share it
					}
				}
				if forged && e.EffectKey == "k3" {
					e.Token = 77
				}
			}
			if seen, r := seenBefore(h), Check(t.Context(), h, Options{}); (seen["P3"] != "") != forged || (len(seen) > 0) != forged || (r.Verdict == Fail) != forged {
				t.Errorf("seen before the end: %v, in the end %s: %s", seen, r.Verdict, r.Summary)
			}
		})
	}
}

// TestLostUpdateWithoutToken: where the sink compares no token, nothing is raised: that nobody compares
// is the cause of an update that is lost.
func TestLostUpdateWithoutToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		promises []string
		named    []string // nil: nothing is lost
		says     string
	}{
		"no token":            {[]string{"P4", "P7", "P8", "P10"}, []string{"no-token-checked"}, ", because the sink checks no token: a holder can still write when another has the lock"},
		"tokens are compared": {[]string{"P1", "P3", "P4", "P7", "P8", "P10"}, []string{"raise-not-done"}, "before the sink knows its token: the one before can still write"},
		"nothing is lost":     {[]string{"P4", "P7", "P8", "P10"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := deleting(true, c.promises)
			for i := range h.Events {
				e := &h.Events[i]
				switch l := e.Ledger(); {
				case c.named == nil:
				case e.Op == history.OpGet && e.Type == history.OK, e.Op == history.OpEffect && e.EffectKey == "k3":
					e.Value = ptr(int64(3))
				case l != nil && l.EffectKey == "k3":
					l.Value = ptr(int64(3))
				}
			}
			r := Check(t.Context(), h, Options{})
			e := Explain(h, r, Options{})
			if p := propertyOf(r, "P4"); (p.Status == StatusFail) != (c.named != nil) || !slices.Equal(e.Best(), c.named) || !strings.HasSuffix(r.Summary, c.says) {
				t.Errorf("P4 is %s, explained by %v: %s\n%+v", p.Status, e.Best(), r.Summary, e.Causes)
			}
			if name == "no token" {
				checkChains(t, h, e)
			}
		})
	}
}

// TestLostUpdateOfALaterRun: the runs of a job share its key; the one that overwrote is named, not the first.
func TestLostUpdateOfALaterRun(t *testing.T) {
	t.Parallel()
	h := deleting(true, []string{"P4", "P7", "P8", "P10"})
	for i := range h.Events { // the fourth grant runs k0 again, after it read 2
		e := &h.Events[i]
		switch l := e.Ledger(); {
		case e.Op == history.OpGet && e.Type == history.OK:
			e.Value = ptr(int64(3))
		case e.Op == history.OpEffect && e.EffectKey == "k3":
			e.EffectKey, e.Value = "k0", ptr(int64(3))
		case l != nil && l.EffectKey == "k3":
			l.EffectKey, l.Value = "k0", ptr(int64(3))
		}
	}
	e := Explain(h, Check(t.Context(), h, Options{}), Options{})
	i := slices.IndexFunc(e.Causes, func(c Cause) bool { return c.Mechanism == "no-token-checked" })
	if i < 0 {
		t.Fatalf("the causes are %+v", e.Causes)
	}
	checkChains(t, h, e)
	if !slices.ContainsFunc(e.Causes[i].Chain, func(s property.Step) bool {
		return s.Role == RoleMistake && strings.Contains(s.Text, "that of w2.1/c1 (entry 4)")
	}) {
		t.Errorf("it says: %+v", e.Causes[i].Chain)
	}
}

// TestNumbersForTokens: where a lock has no token, numbers that rise from grant to grant do
// (docs/own-system.md); a write under an older grant after one under a newer fails P4.
func TestNumbersForTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		back int64
		want Verdict
	}{"they rise": {0, Pass}, "the second is below the first": {5000, Fail}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			number := func(n int64) int64 { return 1735787045000000 + n + n%2*c.back }
			seen := func(n int64) int64 { return max(number(n), number(max(n-1, 1))) }
			row := func(v *history.Version) *history.Version {
				if v == nil || v.Holder == "" {
					return v
				}
				w := *v
				w.Fence = number(v.Fence)
				return &w
			}
			h := deleting(true, []string{"P4", "P7", "P8", "P10"})
			for i := range h.Events {
				e := &h.Events[i]
				e.From, e.To = row(e.From), row(e.To)
				if e.Token > 0 {
					e.Token = number(e.Token)
				}
				if e.Seen > 0 {
					e.Seen = seen(e.Seen)
				}
				if e.Ledger() != nil {
					e.Ledger().Token = number(e.Ledger().Token)
				}
			}
			if r := Check(t.Context(), h, Options{}); r.Verdict != c.want {
				t.Errorf("%s: %s", r.Verdict, r.Summary)
			}
		})
	}
}

// TestTokenOfADuplicate: on a sink that checks no token that of a duplicate is forgotten. On one that does
// what follows has a higher one.
func TestTokenOfADuplicate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		promises []string
		last     int64 // the token of the effect that follows
		verdict  Verdict
	}{
		"no token is checked":         {[]string{"P4", "P10"}, 5, Pass},
		"below the effect before":     {[]string{"P4", "P10"}, 1, Fail},
		"tokens are checked":          {[]string{"P3", "P4", "P10"}, 5, Fail},
		"above that of the duplicate": {[]string{"P4", "P10"}, 10, Pass},
	} {
		y := newTiny("w1.1", "w2.1")
		for i := range y.h.Headers {
			y.h.Headers[i].Promises = c.promises
		}
		y.expect(history.Expect{})
		effect := func(at int64, proc, key, result string, token, value, seen, seq int64) {
			y.op(at, at+10, proc, history.OK, history.Event{Op: history.OpEffect, Key: "r", Issuer: "a", Token: token, EffectKey: key, Value: &value, DecidedAt: (at-1)*1e6 + 1e9}, history.Event{Result: result, Seen: seen, Seq: seq})
			if result == past.ResultApplied {
				y.note(9000+at, history.Harness, history.Event{Op: history.NoteLedger, Key: "r", Details: &history.Details{Ledger: &history.LedgerEntry{Seq: seq, Kind: history.LedgerAccept, Issuer: "a", Token: token, EffectKey: key, Value: &value}}})
			}
		}
		effect(100, "w1.1/c1", "k1", past.ResultApplied, 2, 1, 2, 1)
		effect(200, "w2.1/c1", "k1", past.ResultDuplicate, 9, 2, 2, 1)
		effect(300, "w1.1/c1", "k2", past.ResultApplied, c.last, 2, max(2, c.last), 2)
		last := int64(2)
		y.op(8100, 8101, history.Harness, history.OK, history.Event{Op: history.OpGet, Key: "r"}, history.Event{Value: &last, Seen: max(2, c.last), Seq: 2})
		if r := Check(t.Context(), y.end(9900), Options{}); propertyOf(r, "P4").Status == StatusFail != (c.verdict == Fail) {
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Summary)
		}
	}
}
