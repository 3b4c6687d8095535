package past

import (
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// OrderTables is what customers asked for and what the shop's tables show in the end.
type OrderTables struct {
	ByID  map[string]*Order // by id
	Items map[string]*Item
	Read  bool // to the end
}

// Order is everything about one order.
type Order struct {
	ID                         string
	Asked                      *history.Order // see askedBy; nil if nobody did
	Calls                      []*Op
	Row                        *history.Event
	Duplicated                 []*history.Event // more rows of it, which there must not be
	Payments, Shipments, Moves []*history.Event
}

// Item is what happened to the stock of one item.
type Item struct {
	Name       string
	Row        *history.Event
	Duplicated []*history.Event // more rows of it, which there must not be
	Moves      []*history.Event
}

func newOrderTables() OrderTables {
	return OrderTables{ByID: map[string]*Order{}, Items: map[string]*Item{}}
}

func (x *OrderTables) Any() bool { return len(x.ByID)+len(x.Items) > 0 || x.Read }

func (x *OrderTables) of(id string) *Order {
	return entry(x.ByID, id, Order{ID: id})
}

func (x *OrderTables) item(name string) *Item {
	return entry(x.Items, name, Item{Name: name})
}

// call files an enqueue, if it is of an order.
func (x *OrderTables) call(c *Op) {
	if c.Invoke.Job().Order == nil {
		return
	}
	o := x.of(c.Invoke.Job().Order.ID)
	if o.Calls = append(o.Calls, c); c == askedBy(o.Calls) {
		o.Asked = c.Invoke.Job().Order
	}
}

// note files a row of the shop's tables.
func (x *OrderTables) note(e *history.Event) {
	b := e.Book()
	switch b.Table {
	case history.BookStock:
		k := x.item(b.Item)
		k.Row, k.Duplicated = only(k.Row, e, k.Duplicated)
	case history.BookMove:
		k := x.item(b.Item)
		k.Moves = append(k.Moves, e)
		if b.Order != "" {
			o := x.of(b.Order)
			o.Moves = append(o.Moves, e)
		}
	case history.BookOrder:
		o := x.of(b.Order)
		o.Row, o.Duplicated = only(o.Row, e, o.Duplicated)
	case history.BookPayment:
		o := x.of(b.Order)
		o.Payments = append(o.Payments, e)
	case history.BookShipment:
		o := x.of(b.Order)
		o.Shipments = append(o.Shipments, e)
	case history.BookEnd:
		x.Read = true
	}
}

// only keeps the first row of a table that may have one, and the others apart.
func only(row, e *history.Event, twins []*history.Event) (first *history.Event, more []*history.Event) {
	if row == nil {
		return e, twins
	}
	return row, append(twins, e)
}

// State is the order's in the end, "" if it has no row.
func (o *Order) State() string {
	if o.Row == nil {
		return ""
	}
	return o.Row.Book().State
}

// Acknowledged is the call that told its customer that the order was taken, or nil.
func (o *Order) Acknowledged() *Op {
	for _, c := range o.Calls {
		if c.Outcome == history.OK {
			return c
		}
	}
	return nil
}

// EffectsOf are the effects of the order's jobs of a kind, as they were asked for.
func (a *Past) EffectsOf(id, kind string) (out []*Op) {
	for _, j := range a.Jobs.List {
		if j.Spec == nil || j.Spec.Order == nil || j.Spec.Order.ID != id || j.Spec.Kind != kind {
			continue
		}
		if s := a.SinkOf[j.Spec.Resource]; s != nil {
			out = append(out, s.Effects...)
		}
	}
	return out
}

// Claimed says whether a run with the token may have been one of the order's payment: a
// claim gave it to a job that pays. Where no whole record of claims is, nothing is known.
func (a *Past) Claimed(o *Order, token int64) bool {
	l := a.RowOf[o.Calls[0].Invoke.Job().Shard]
	unknown := l == nil || !l.Complete
	for _, j := range a.Jobs.List {
		if j.Spec == nil || j.Spec.Order == nil || j.Spec.Order.ID != o.ID || j.Spec.Kind != history.OrderPay {
			continue
		}
		l := a.RowOf[j.Shard]
		if l == nil || !l.Complete {
			return true
		}
		k := l.ClaimOf(token)
		if k != nil && k.Job == j || j.Locked() && len(l.ByToken[token]) > 0 {
			return true
		}
		unknown = false
	}
	return unknown
}

// Accepted says whether the sink may have accepted the payment of a run: its ledger has it, or was not
// read.
func (a *Past) Accepted(o *Order, token int64) bool {
	unknown := true
	for _, j := range a.Jobs.List {
		if j.Spec == nil || j.Spec.Order == nil || j.Spec.Order.ID != o.ID || j.Spec.Kind != history.OrderPay {
			continue
		}
		s := a.SinkOf[j.Spec.Resource]
		if s == nil || !s.WasRead() {
			return true
		}
		if slices.ContainsFunc(s.Ledger, func(e Entry) bool { return e.Kind == history.LedgerAccept && e.Token == token }) {
			return true
		}
		unknown = false
	}
	return unknown
}

// Sorted is all orders by id.
func (x *OrderTables) Sorted() (out []*Order) {
	for _, id := range slices.Sorted(maps.Keys(x.ByID)) {
		out = append(out, x.ByID[id])
	}
	return out
}

// orderEnded: the order will never change again.
func OrderEnded(state string) bool {
	return slices.Contains([]string{history.OrderShipped, history.OrderRejected, history.OrderCancelled}, state)
}
