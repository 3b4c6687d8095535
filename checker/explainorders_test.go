package checker

import (
	"slices"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// act is an effect of an order's job, asked for by a run.
func act(h *tiny, at int64, kind, order, key string, run int64, outcome history.Type, end history.Event) {
	id := kind + "-" + order
	res := "job/q/" + id
	if h.ids["asked "+id]++; h.ids["asked "+id] == 1 {
		h.op(at-2, at-1, "w1.1/e1", history.OK, history.Event{Op: history.OpEnqueue, Key: id, Details: &history.Details{Job: &history.Job{
			Queue: "q", Shard: storyShard, Kind: kind, Resource: res, MaxAttempts: 5, Order: &history.Order{ID: order, Item: "tea", Quantity: 1, Cents: 1},
		}}}, history.Event{Result: past.ResultApplied})
	}
	one := int64(1)
	h.op(at, at+1, "w1.1/r1", outcome, history.Event{Op: history.OpEffect, Key: res, Issuer: storyShard, Token: run, EffectKey: key, Value: &one, DecidedAt: at*1e6 + 1e9}, end)
}

// TestShopMistakesAreNamed: what went wrong with an order is told from its effects and
// rows, and nothing of the kind where they do not show it.
func TestShopMistakesAreNamed(t *testing.T) {
	t.Parallel()
	applied, stale := history.Event{Result: past.ResultApplied}, history.Event{Result: past.ResultStale, Seen: 8}
	for name, c := range map[string]struct {
		change func(*shopStory)
		want   string // "": none of them
	}{
		"the fence refused what was paid": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "c", Cents: 400, Token: 5})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "c", "cancel c", 8, history.OK, applied)
				act(h, 40, history.OrderPay, "c", "pay c", 5, history.Fail, stale)
			}
		}, "paid-before-the-fence"},
		"the fence let it pass": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "c", Cents: 400, Token: 8})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "c", "pay c", 8, history.OK, applied)
				act(h, 40, history.OrderPay, "c", "pay c", 5, history.Fail, stale)
			}
		}, ""},
		"two keys": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "a", Cents: 200, Token: 9})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "a", "pay a by run 7", 7, history.OK, applied)
				act(h, 40, history.OrderPay, "a", "pay a by run 9", 9, history.OK, applied)
			}
		}, "paid-by-run"},
		"one key": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "a", Cents: 200, Token: 9})
			y.more = func(h *tiny) {
				act(h, 30, history.OrderPay, "a", "pay a", 7, history.OK, applied)
				act(h, 40, history.OrderPay, "a", "pay a", 9, history.OK, applied)
			}
		}, ""},
		"one version twice": {func(y *shopStory) { y.books[4].Version, y.books[4].Quantity = 3, 5 }, "stock-overwritten"},
		"sold and there":    {func(y *shopStory) { y.find(history.BookStock, "tea").Quantity = 6 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newShopStory()
			c.change(y)
			h := y.tell()
			r := Check(t.Context(), h, Options{})
			if r.Verdict != Fail {
				t.Fatalf("%s: %s", r.Verdict, r.Summary)
			}
			e := Explain(h, r, Options{})
			var got []string
			for _, x := range e.Causes {
				if slices.Contains([]string{"paid-before-the-fence", "paid-by-run", "stock-overwritten"}, x.Mechanism) {
					got = append(got, x.Mechanism)
				}
			}
			if want := []string{c.want}; c.want != "" && !slices.Equal(got, want) || c.want == "" && len(got) > 0 {
				t.Errorf("%v, want %q (%s)", got, c.want, e.Summary)
			}
			checkChains(t, h, e)
		})
	}
}
