package checker

import (
	"context"
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P16",
		title: "every order ends paid once and shipped, or not paid at all",
		by:    "the shop's tables, the clients' calls",
		of:    "orders",
		run:   checkMoney,
		whole: true,
		count: (*analysis).countOrders,
		tell:  tellOrders,
		blind: blindToOrders,
		rules: []rule{
			{find: (*inquiry).payments},
		},
		mechanisms: []mechanism{
			{id: "paid-before-the-fence", accounts: []string{"P16", "P17"},
				statement: "an order is paid before the fence is asked, not with it: a run that was fenced off has taken the money",
				apart:     "a payment by a run that the fence let pass"},
			{id: "paid-by-run", accounts: []string{"P4", "P16"},
				statement: "the idempotency key of a payment is the run's, not the order's: what an earlier run has paid is paid again",
				apart:     "two payments under one key"},
		},
	})
}

// checkMoney is P16: by the shop's tables each order that was accepted has come to an
// end, and is paid once, in full, and shipped once, or neither.
func checkMoney(_ context.Context, a *analysis, p *Property) {
	if a.unread(p) {
		return
	}
	open := 0
	drained := a.drained().Name != ""
	for _, o := range a.orders.sorted() {
		p.Checked++
		a.checkOrder(o, p)
		if c := o.acknowledged(); (c != nil || o.row != nil) && !orderEnded(o.state()) {
			if !drained {
				open++
				continue
			}
			p.add(o.id, append(both(c), o.row), "order %s was taken and has not come to an end: it is %s", o.id, stateText(o.state()))
		}
	}
	n := a.count().Orders
	p.Detail = fmt.Sprintf("by the shop's tables: %s over %d cents", plural(n.Payments, "payment"), n.Cents)
	if open > 0 {
		p.Status, p.Detail = StatusUnknown, fmt.Sprintf("%s not at an end, and the run did not wait for them", were(open, "order"))
	}
}

func stateText(state string) string {
	if state == "" {
		return "in no table"
	}
	return state
}

// checkOrder holds what was charged and shipped against what the order is.
func (a *analysis) checkOrder(o *orderLog, p *Property) {
	bad := func(events []*history.Event, format string, args ...any) {
		rows := slices.Concat(o.payments, o.shipments, []*history.Event{o.row})
		p.add(o.id, slices.Concat(events, rows), "order %s "+format, append([]any{o.id}, args...)...)
	}
	pays := func() []*history.Event { return both(a.acts(o.id, history.OrderPay)...) }
	state, paid, shipped := o.state(), len(o.payments), len(o.shipments)
	switch {
	case o.row == nil && paid+shipped == 0:
		return
	case o.asked == nil:
		bad(nil, "is in the shop's tables, but nobody placed it")
		return
	case o.row != nil && (o.row.Book().Item != o.asked.Item || o.row.Book().Quantity != o.asked.Quantity || o.row.Book().Cents != o.asked.Cents):
		bad(both(o.calls[0]), "is of %d %s for %d cents, but %d %s for %d cents were asked for", o.row.Book().Quantity, o.row.Book().Item, o.row.Book().Cents, o.asked.Quantity, o.asked.Item, o.asked.Cents)
	}
	if len(o.twins) > 0 {
		bad(o.twins, "has %d rows in the table of orders", 1+len(o.twins))
	}
	for _, e := range o.payments {
		if token := e.Book().Token; !a.claimed(o, token) {
			bad(append(pays(), e), "was paid by run %d, and no job that pays it was ever claimed as that", token)
		}
	}
	due := state == history.OrderPaid || state == history.OrderShipped
	switch {
	case paid > 1:
		bad(pays(), "was paid %d times (by runs %s): its customer has lost %d cents", paid, tokensOf(o.payments), int64(paid-1)*o.asked.Cents)
	case due && paid == 0:
		bad(pays(), "is %s, but it was never paid", state)
	case !due && paid > 0:
		bad(pays(), "was paid (by run %s), but it is %s: its customer has lost %d cents", tokensOf(o.payments), stateText(state), o.payments[0].Book().Cents)
	case paid == 1 && o.payments[0].Book().Cents != o.asked.Cents:
		bad(pays(), "costs %d cents, but %d were charged", o.asked.Cents, o.payments[0].Book().Cents)
	}
	switch {
	case shipped > 1:
		bad(both(a.acts(o.id, history.OrderFulfil)...), "was shipped %d times", shipped)
	case state == history.OrderShipped && shipped == 0:
		bad(nil, "counts as shipped, but never was")
	case state != history.OrderShipped && shipped > 0:
		bad(both(a.acts(o.id, history.OrderFulfil)...), "was shipped, but it is %s", stateText(state))
	}
}

func tokensOf(payments []*history.Event) string {
	text := ""
	for i, e := range payments {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(e.Book().Token)
	}
	return text
}

// payments: an order that was paid by a run to which the fence said no, or by two runs
// under keys of their own.
func (x *inquiry) payments() {
	if !x.a.orders.read {
		return
	}
	for _, o := range x.a.orders.sorted() {
		if len(o.payments) == 0 {
			continue
		}
		acts := x.a.acts(o.id, history.OrderPay)
		x.fencedOff(o, acts)
		if len(o.payments) > 1 {
			x.keyedByRun(o, acts)
		}
	}
}

// fencedOff looks for a payment by a run that the sink refused.
func (x *inquiry) fencedOff(o *orderLog, acts []*op) {
	for _, pay := range o.payments {
		by := func(a *op) bool { return a.inv.Token == pay.Book().Token && a.outcome != history.Unknown }
		passed := slices.ContainsFunc(acts, func(a *op) bool { return by(a) && a.outcome == history.OK })
		i := slices.IndexFunc(acts, func(a *op) bool { return by(a) && a.end.Result == resultStale })
		if i < 0 || passed {
			continue
		}
		s := x.suspect("paid-before-the-fence", shown, 1, "order %s was paid by run %d, whose payment the sink refused as stale: token %d had been seen", o.id, pay.Book().Token, acts[i].end.Seen)
		chain := []Step{x.step(RoleMistake, acts[i].end, "the sink refuses the payment of run %d; it was made before", pay.Book().Token)}
		for _, a := range acts {
			if a.inv.Token != pay.Book().Token && a.outcome == history.OK {
				chain = append(chain, x.step(RoleBefore, a.end, "run %d by %s decides on the order: %s", a.inv.Token, a.inv.Proc, a.inv.EffectKey))
			}
		}
		s.show(o.id, acts[i].end.TS, []string{acts[i].inv.Proc}, append(chain, x.step(RoleHarm, pay, "the order is %s, and was paid", stateText(o.state())))...)
	}
}

// keyedByRun looks for payments of one order under different keys.
func (x *inquiry) keyedByRun(o *orderLog, acts []*op) {
	var keys []string
	var done []*op
	for _, a := range acts {
		if a.outcome != history.Fail && slices.ContainsFunc(o.payments, func(e *history.Event) bool { return e.Book().Token == a.inv.Token }) && !slices.Contains(keys, a.inv.EffectKey) {
			keys, done = append(keys, a.inv.EffectKey), append(done, a)
		}
	}
	if len(keys) < 2 {
		return
	}
	s := x.suspect("paid-by-run", shown, 1, "order %s was paid %d times, under the keys %q and %q", o.id, len(o.payments), keys[0], keys[1])
	s.show(o.id, done[1].inv.TS, []string{done[0].inv.Proc, done[1].inv.Proc},
		x.step(RoleBefore, done[0].inv, "run %d by %s pays under the key %q", done[0].inv.Token, done[0].inv.Proc, keys[0]),
		x.step(RoleMistake, done[1].inv, "run %d by %s pays under the key %q", done[1].inv.Token, done[1].inv.Proc, keys[1]),
		x.step(RoleHarm, o.payments[1], "the order is paid %d times", len(o.payments)))
}
