package property

import (
	"fmt"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// unread gives a property the status of a run without orders, or whose tables were
// not read, and reports that it is one.
func (a *Judgement) unread(p *Property) bool {
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

// tellOrders says what became of the orders; "" without any.
func tellOrders(c *Counts) string {
	n := c.Orders
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s: %d paid and shipped, %d rejected, %d cancelled", phrase.Plural(n.Placed, "order"), n.Shipped, n.Rejected, n.Cancelled)
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
	for point, hits := range map[string]int{pointShipped: n.Shipped, pointRejected: n.Rejected, PointCancelled: n.Cancelled} {
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
