package checker

import (
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// shopBooks is what customers asked for and what the shop's tables show in the end.
type shopBooks struct {
	at    map[string]*orderLog // by id
	items map[string]*itemLog
	read  bool // to the end
}

// orderLog is everything about one order.
type orderLog struct {
	id                         string
	asked                      *history.Order // as first asked for; nil if nobody did
	calls                      []*op
	row                        *history.Event
	twins                      []*history.Event // more rows of it, which there must not be
	payments, shipments, moves []*history.Event
}

// itemLog is what happened to the stock of one item.
type itemLog struct {
	name  string
	row   *history.Event
	twins []*history.Event // more rows of it, which there must not be
	moves []*history.Event
}

func newBooks() shopBooks { return shopBooks{at: map[string]*orderLog{}, items: map[string]*itemLog{}} }

func (x *shopBooks) any() bool { return len(x.at)+len(x.items) > 0 || x.read }

func (x *shopBooks) of(id string) *orderLog {
	o := x.at[id]
	if o == nil {
		o = &orderLog{id: id}
		x.at[id] = o
	}
	return o
}

func (x *shopBooks) item(name string) *itemLog {
	k := x.items[name]
	if k == nil {
		k = &itemLog{name: name}
		x.items[name] = k
	}
	return k
}

// call files an enqueue, if it is of an order.
func (x *shopBooks) call(c *op) {
	if c.inv.Job().Order == nil {
		return
	}
	o := x.of(c.inv.Job().Order.ID)
	o.calls = append(o.calls, c)
	if o.asked == nil {
		o.asked = c.inv.Job().Order
	}
}

// note files a row of the shop's tables.
func (x *shopBooks) note(e *history.Event) {
	b := e.Book()
	switch b.Table {
	case history.BookStock:
		k := x.item(b.Item)
		k.row, k.twins = only(k.row, e, k.twins)
	case history.BookMove:
		k := x.item(b.Item)
		k.moves = append(k.moves, e)
		if b.Order != "" {
			o := x.of(b.Order)
			o.moves = append(o.moves, e)
		}
	case history.BookOrder:
		o := x.of(b.Order)
		o.row, o.twins = only(o.row, e, o.twins)
	case history.BookPayment:
		o := x.of(b.Order)
		o.payments = append(o.payments, e)
	case history.BookShipment:
		o := x.of(b.Order)
		o.shipments = append(o.shipments, e)
	case history.BookEnd:
		x.read = true
	}
}

// only keeps the first row of a table that may have one, and the others apart.
func only(row, e *history.Event, twins []*history.Event) (first *history.Event, more []*history.Event) {
	if row == nil {
		return e, twins
	}
	return row, append(twins, e)
}

// state is the order's in the end, "" if it has no row.
func (o *orderLog) state() string {
	if o.row == nil {
		return ""
	}
	return o.row.Book().State
}

// acknowledged is the call that told its customer that the order was taken, or nil.
func (o *orderLog) acknowledged() *op {
	for _, c := range o.calls {
		if c.outcome == history.OK {
			return c
		}
	}
	return nil
}

// unread gives a property the status of a run without orders, or whose tables were
// not read, and reports that it is one.
func (a *analysis) unread(p *Property) bool {
	switch {
	case !a.orders.any():
		p.Status, p.Detail = StatusNA, "not judged: the run takes no orders"
	case !a.orders.read:
		p.Status, p.Detail = StatusUnknown, "the shop's tables were not read after the run"
	default:
		return false
	}
	return true
}

// acts are the effects of the order's jobs of a kind, as they were asked for.
func (a *analysis) acts(id, kind string) (out []*op) {
	for _, j := range a.jobs.list {
		if j.spec == nil || j.spec.Order == nil || j.spec.Order.ID != id || j.spec.Kind != kind {
			continue
		}
		if s := a.sink[j.spec.Resource]; s != nil {
			out = append(out, s.effects...)
		}
	}
	return out
}

// claimed says whether a run with the token may have been one of the order's payment: a
// claim gave it to a job that pays. Where no whole record of claims is, nothing is known.
func (a *analysis) claimed(o *orderLog, token int64) bool {
	l := a.row[o.calls[0].inv.Job().Shard]
	unknown := l == nil || !l.whole
	for _, j := range a.jobs.list {
		if j.spec == nil || j.spec.Order == nil || j.spec.Order.ID != o.id || j.spec.Kind != history.OrderPay {
			continue
		}
		l := a.row[j.shard]
		if l == nil || !l.whole {
			return true
		}
		k := l.claimOf(token)
		if k != nil && k.j == j || j.locked() && len(l.byToken[token]) > 0 {
			return true
		}
		unknown = false
	}
	return unknown
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

// tellOrders says what became of the orders; "" without any.
func tellOrders(c *Counts) string {
	n := c.Orders
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s: %d paid and shipped, %d rejected, %d cancelled", plural(n.Placed, "order"), n.Shipped, n.Rejected, n.Cancelled)
}

func blindToOrders(c *Counts, name func(bool, string)) {
	if n := c.Orders; n != nil {
		name(n.Rejected == 0, "rejected orders: the stock was never too small")
		name(n.Cancelled == 0, "cancelled orders: none was cancelled")
	}
}

// Points of the life of orders that the checker derives; see history.Expect.
const (
	pointShipped   = "order-shipped"
	pointRejected  = "order-rejected"
	pointCancelled = "order-cancelled"
)

func (a *analysis) countOrders(c *Counts) {
	if !a.orders.any() {
		return
	}
	n := &OrderCounts{}
	for _, o := range a.orders.at {
		if o.acknowledged() != nil {
			n.Placed++
		}
		switch o.state() {
		case history.OrderShipped:
			n.Shipped++
		case history.OrderRejected:
			n.Rejected++
		case history.OrderCancelled:
			n.Cancelled++
		default:
			n.Open++
		}
		n.Payments += len(o.payments)
		for _, e := range o.payments {
			n.Cents += e.Book().Cents
		}
		n.Sold -= sumOf(o.moves)
	}
	for _, k := range a.orders.items {
		if k.row != nil {
			n.Left += k.row.Book().Quantity
		}
	}
	for point, hits := range map[string]int{pointShipped: n.Shipped, pointRejected: n.Rejected, pointCancelled: n.Cancelled} {
		if hits > 0 {
			c.Points[point] += hits
		}
	}
	c.Orders = n
}

// sumOf is by how much the moves changed the stock.
func sumOf(moves []*history.Event) (sum int64) {
	for _, e := range moves {
		sum += e.Book().Delta
	}
	return sum
}

// sorted is all orders by id.
func (x *shopBooks) sorted() (out []*orderLog) {
	for _, id := range sortedKeys(x.at) {
		out = append(out, x.at[id])
	}
	return out
}

// orderEnded: the order will never change again.
func orderEnded(state string) bool {
	return slices.Contains([]string{history.OrderShipped, history.OrderRejected, history.OrderCancelled}, state)
}
