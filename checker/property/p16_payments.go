package property

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P16",
		title:          "every order ends paid once and shipped, or not paid at all",
		by:             "the shop's tables, the clients' calls",
		Of:             "orders",
		run:            checkMoney,
		completeRecord: true,
		count:          (*Judgement).countOrders,
		summary:        summarizeOrders,
		unexercised:    unexercisedOrders,
		rules:          []rule{{find: (*Inquiry).payments}},
		mechanisms: []mechanism{
			{id: "paid-before-the-fence", Accounts: []string{"P16", "P17"},
				Statement: "an order is paid before the fence is asked, not with it: a run that was fenced off has taken the money",
				Apart:     "a payment by a run that the fence let pass"},
			{id: "paid-by-run", Accounts: []string{"P4", "P16"},
				Statement: "the idempotency key of a payment is the run's, not the order's: what an earlier run has paid is paid again",
				Apart:     "two payments under one key"},
		},
	})
}

// checkMoney is P16: by the shop's tables each order that was accepted has come to an
// end, and is paid once, in full, and shipped once, or neither.
func checkMoney(_ context.Context, a *Judgement, p *Property) {
	if a.ordersUnread(p) {
		return
	}
	open := 0
	drained := a.Drained().Name != ""
	for _, o := range a.Orders.Sorted() {
		p.Checked++
		a.checkOrder(o, p)
		if c := o.Acknowledged(); (c != nil || o.Row != nil) && !past.OrderEnded(o.State()) {
			if !drained {
				open++
				continue
			}
			p.add(o.ID, append(past.Events(c), o.Row), "order %s was taken and has not finished: it is %s", o.ID, stateText(o.State()))
		}
	}
	n := a.count().Orders
	p.Detail = fmt.Sprintf("by the shop's tables: %s over %d cents", phrase.Plural(n.Payments, "payment"), n.Cents)
	if open > 0 {
		p.Status, p.Detail = StatusUnknown, fmt.Sprintf("%s not at an end, and the run did not wait for them", phrase.PluralWas(open, "order"))
	}
}

func stateText(state string) string { return cmp.Or(state, "in no table") }

// checkOrder holds what was charged and shipped against what the order is.
func (a *Judgement) checkOrder(o *past.Order, p *Property) {
	bad := func(events []*history.Event, format string, args ...any) {
		rows := slices.Concat(o.Payments, o.Shipments, []*history.Event{o.Row})
		p.add(o.ID, slices.Concat(events, rows), "order %s "+format, append([]any{o.ID}, args...)...)
	}
	pays := func() []*history.Event { return past.Events(a.EffectsOf(o.ID, history.OrderPay)...) }
	state, paid, shipped := o.State(), len(o.Payments), len(o.Shipments)
	switch {
	case o.Row == nil && paid+shipped == 0:
		return
	case o.Asked == nil:
		bad(nil, "is in the shop's tables, but nobody placed it")
		return
	case o.Row != nil &&
		(o.Row.Book().Item != o.Asked.Item || o.Row.Book().Quantity != o.Asked.Quantity || o.Row.Book().Cents != o.Asked.Cents):
		bad(past.Events(o.Calls[0]), "is of %d %s for %d cents, but %d %s for %d cents were asked for",
			o.Row.Book().Quantity, o.Row.Book().Item, o.Row.Book().Cents, o.Asked.Quantity, o.Asked.Item, o.Asked.Cents)
	}
	if len(o.Duplicated) > 0 {
		bad(o.Duplicated, "has %d rows in the table of orders", 1+len(o.Duplicated))
	}
	for _, e := range o.Payments {
		if token := e.Book().Token; !a.Claimed(o, token) {
			bad(append(pays(), e), "was paid by run %d, and no job that pays it was ever claimed as that", token)
		} else if !a.Accepted(o, token) {
			bad(append(pays(), e), "was paid by run %d, of which the sink has accepted no payment", token)
		}
	}
	due := state == history.OrderPaid || state == history.OrderShipped
	switch {
	case paid > 1:
		bad(pays(), "was paid %d times (by runs %s): its customer has lost %d cents", paid, tokensOf(o.Payments), int64(paid-1)*o.Asked.Cents)
	case due && paid == 0:
		bad(pays(), "is %s, but it was never paid", state)
	case !due && paid > 0:
		bad(pays(), "was paid (by run %s), but it is %s: its customer has lost %d cents",
			tokensOf(o.Payments), stateText(state), o.Payments[0].Book().Cents)
	case paid == 1 && o.Payments[0].Book().Cents != o.Asked.Cents:
		bad(pays(), "costs %d cents, but %d were charged", o.Asked.Cents, o.Payments[0].Book().Cents)
	}
	switch {
	case shipped > 1:
		bad(past.Events(a.EffectsOf(o.ID, history.OrderFulfil)...), "was shipped %d times", shipped)
	case state == history.OrderShipped && shipped == 0:
		bad(nil, "counts as shipped, but never was")
	case state != history.OrderShipped && shipped > 0:
		bad(past.Events(a.EffectsOf(o.ID, history.OrderFulfil)...), "was shipped, but it is %s", stateText(state))
	}
}

func tokensOf(payments []*history.Event) string {
	var out []string
	for _, e := range payments {
		out = append(out, fmt.Sprint(e.Book().Token))
	}
	return strings.Join(out, ", ")
}

// payments: an order that was paid by a run to which the fence said no, or by two runs
// under keys of their own.
func (x *Inquiry) payments() {
	if !x.Orders.Read {
		return
	}
	for _, o := range x.Orders.Sorted() {
		if len(o.Payments) == 0 {
			continue
		}
		acts := x.EffectsOf(o.ID, history.OrderPay)
		x.fencedOff(o, acts)
		if len(o.Payments) > 1 {
			x.keyedByRun(o, acts)
		}
	}
}

// fencedOff looks for a payment by a run that the sink refused.
func (x *Inquiry) fencedOff(o *past.Order, acts []*past.Op) {
	for _, pay := range o.Payments {
		by := func(a *past.Op) bool { return a.Invoke.Token == pay.Book().Token && a.Outcome != history.Unknown }
		passed := slices.ContainsFunc(acts, func(a *past.Op) bool { return by(a) && a.Outcome == history.OK })
		i := slices.IndexFunc(acts, func(a *past.Op) bool { return by(a) && a.End.Result == past.ResultStale })
		if i < 0 || passed {
			continue
		}
		s := x.suspect("paid-before-the-fence", shown, 1,
			"order %s was paid by run %d, whose payment the sink refused as stale: token %d had been seen", o.ID, pay.Book().Token, acts[i].End.Seen)
		chain := []Step{x.mistake(acts[i].End, "the sink refuses the payment of run %d; it was made before", pay.Book().Token)}
		for _, a := range acts {
			if a.Invoke.Token != pay.Book().Token && a.Outcome == history.OK {
				chain = append(chain, x.before(a.End, "run %d by %s decides on the order: %s", a.Invoke.Token, a.Invoke.Proc, a.Invoke.EffectKey))
			}
		}
		s.show(o.ID, acts[i].End.TS, []string{acts[i].Invoke.Proc},
			append(chain, x.harm(pay, "the order is %s, and was paid", stateText(o.State())))...)
	}
}

// keyedByRun looks for payments of one order under different keys.
func (x *Inquiry) keyedByRun(o *past.Order, acts []*past.Op) {
	var keys []string
	var done []*past.Op
	for _, a := range acts {
		paid := slices.ContainsFunc(o.Payments, func(e *history.Event) bool { return e.Book().Token == a.Invoke.Token })
		if a.Outcome != history.Fail && paid && !slices.Contains(keys, a.Invoke.EffectKey) {
			keys, done = append(keys, a.Invoke.EffectKey), append(done, a)
		}
	}
	if len(keys) < 2 {
		return
	}
	s := x.suspect("paid-by-run", shown, 1, "order %s was paid %d times, under the keys %q and %q", o.ID, len(o.Payments), keys[0], keys[1])
	s.show(o.ID, done[1].Invoke.TS, []string{done[0].Invoke.Proc, done[1].Invoke.Proc},
		x.before(done[0].Invoke, "run %d by %s pays under the key %q", done[0].Invoke.Token, done[0].Invoke.Proc, keys[0]),
		x.mistake(done[1].Invoke, "run %d by %s pays under the key %q", done[1].Invoke.Token, done[1].Invoke.Proc, keys[1]),
		x.harm(o.Payments[1], "the order is paid %d times", len(o.Payments)))
}

// ordersUnread gives a property the status of a run without orders, or whose tables were
// not read, and reports that it is one.
func (a *Judgement) ordersUnread(p *Property) bool {
	switch {
	case !a.Orders.Any():
		p.Status, p.Detail = StatusNA, "not judged: the run takes no orders"
	case !a.Orders.Read:
		p.Status, p.Detail = StatusUnknown, "the shop's tables were not read after the run"
	default:
		return false
	}
	return true
}

// OrderCounts sum up what became of the orders, by the shop's tables.
type OrderCounts struct {
	Placed    int   `json:"placed"` // acknowledged
	Shipped   int   `json:"shipped"`
	Rejected  int   `json:"rejected"`
	Cancelled int   `json:"cancelled"`
	Open      int   `json:"open"` // not at an end
	Payments  int   `json:"payments"`
	Cents     int64 `json:"cents"` // charged
	Sold      int64 `json:"sold"`  // items that left the stock and did not come back
	Left      int64 `json:"left"`  // items in stock
}

// summarizeOrders says what became of the orders; "" without any.
func summarizeOrders(c *Counts) string {
	n := c.Orders
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s: %d paid and shipped, %d rejected, %d cancelled",
		phrase.Plural(n.Placed, "order"), n.Shipped, n.Rejected, n.Cancelled)
}

func unexercisedOrders(c *Counts, name func(bool, string)) {
	if n := c.Orders; n != nil {
		name(n.Rejected == 0, "rejected orders: the stock was never too small")
		name(n.Cancelled == 0, "cancelled orders: none was cancelled")
	}
}

// Points of the life of orders that the checker derives; see history.Expect.
const (
	pointShipped   = "order-shipped"
	pointRejected  = "order-rejected"
	PointCancelled = "order-cancelled"
)

func (a *Judgement) countOrders(c *Counts) {
	if !a.Orders.Any() {
		return
	}
	n := &OrderCounts{}
	for _, o := range a.Orders.ByID {
		if o.Acknowledged() != nil {
			n.Placed++
		}
		switch o.State() {
		case history.OrderShipped:
			n.Shipped++
		case history.OrderRejected:
			n.Rejected++
		case history.OrderCancelled:
			n.Cancelled++
		default:
			n.Open++
		}
		n.Payments += len(o.Payments)
		for _, e := range o.Payments {
			n.Cents += e.Book().Cents
		}
		n.Sold -= sumOf(o.Moves)
	}
	for _, k := range a.Orders.Items {
		if k.Row != nil {
			n.Left += k.Row.Book().Quantity
		}
	}
	c.reach(map[string]int{pointShipped: n.Shipped, pointRejected: n.Rejected, PointCancelled: n.Cancelled})
	c.Orders = n
}

// sumOf is by how much the moves changed the stock.
func sumOf(moves []*history.Event) (sum int64) {
	for _, e := range moves {
		sum += e.Book().Delta
	}
	return sum
}
