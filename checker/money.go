package checker

import (
	"context"
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

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
