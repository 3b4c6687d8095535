package checker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P17",
		title: "stock is never negative, and what was sold is gone from it",
		by:    "every change of the stock",
		of:    "orders",
		run:   checkStock,
		rules: []rule{
			{find: (*inquiry).overwrittenStock},
		},
		mechanisms: []mechanism{
			{id: "stock-overwritten", accounts: []string{"P17"},
				statement: "stock is written as computed from what was read, though another has changed it since: its sale is lost",
				apart:     "a write that is refused as the stock has moved"},
		},
	})
}

// checkStock is P17: each change of an item's stock has a version of its own and
// begins with what the one before had left, none leaves less than nothing, the stock
// is what the last one left, and each order has taken what it is of, or nothing.
func checkStock(_ context.Context, a *analysis, p *Property) {
	if a.unread(p) {
		return
	}
	for _, name := range sortedKeys(a.orders.items) {
		a.checkItem(a.orders.items[name], p)
	}
	for _, o := range a.orders.sorted() {
		a.checkTaken(o, p)
	}
	n := a.count().Orders
	p.Detail = fmt.Sprintf("by every change of every item's stock: %d sold, %d left", n.Sold, n.Left)
}

func (a *analysis) checkItem(k *itemLog, p *Property) {
	moves := slices.SortedStableFunc(slices.Values(k.moves), func(x, y *history.Event) int { return cmp.Compare(x.Book().Version, y.Book().Version) })
	var last *history.Event
	for _, e := range moves {
		p.Checked++
		b := e.Book()
		before, version := int64(0), int64(0)
		if last != nil {
			before, version = last.Book().Quantity, last.Book().Version
		}
		bad := func(format string, args ...any) {
			events := []*history.Event{last, e}
			for _, m := range []*history.Event{last, e} {
				if m != nil && m.Book().Order != "" {
					events = append(events, both(a.acts(m.Book().Order, history.OrderReserve)...)...)
				}
			}
			p.add(k.name, events, "%s: "+format, append([]any{k.name}, args...)...)
		}
		switch {
		case last != nil && b.Version == version:
			bad("version %d was written twice, for order %s and for order %s: the second overwrote the first, and %d sold items are still in the stock", version, last.Book().Order, b.Order, -last.Book().Delta)
		case b.Version != version+1:
			bad("version %d follows version %d: a change between them is missing", b.Version, version)
		case b.Quantity != before+b.Delta:
			bad("version %d changes %d by %d and leaves %d", b.Version, before, b.Delta, b.Quantity)
		}
		if b.Quantity < 0 {
			bad("at version %d there were %d: items were sold that were not there", b.Version, b.Quantity)
		}
		last = e
	}
	if len(k.twins) > 0 {
		p.add(k.name, append([]*history.Event{k.row}, k.twins...), "%s has %d rows in the table of stock", k.name, 1+len(k.twins))
	}
	switch {
	case k.row == nil:
		p.add(k.name, k.moves, "%s was sold or delivered, but it has no stock", k.name)
	case k.row.Book().Quantity < 0:
		p.add(k.name, []*history.Event{k.row}, "%s: there are %d in stock", k.name, k.row.Book().Quantity)
	case last != nil && k.row.Book().Version != last.Book().Version:
		p.add(k.name, []*history.Event{last, k.row}, "%s: its stock has version %d, but the last change was version %d", k.name, k.row.Book().Version, last.Book().Version)
	case k.row.Book().Quantity != sumOf(k.moves):
		p.add(k.name, []*history.Event{last, k.row}, "%s: there are %d in stock, but %d by what came and went", k.name, k.row.Book().Quantity, sumOf(k.moves))
	}
}

// checkTaken: what an order has taken from the stock, and not put back, is what it is of.
func (a *analysis) checkTaken(o *orderLog, p *Property) {
	want := int64(0)
	switch o.state() {
	case history.OrderReserved, history.OrderPaid, history.OrderShipped:
		want = o.row.Book().Quantity
	}
	for _, m := range o.moves {
		if o.row != nil && m.Book().Item != o.row.Book().Item {
			p.add(o.id, []*history.Event{m, o.row}, "order %s is of %s, and has taken of %s", o.id, o.row.Book().Item, m.Book().Item)
		}
	}
	if got := -sumOf(o.moves); got != want {
		events := slices.Concat(both(a.acts(o.id, history.OrderReserve)...), both(a.acts(o.id, history.OrderPay)...), o.moves, []*history.Event{o.row})
		p.add(o.id, events, "order %s is %s and has taken %d from the stock, not %d", o.id, stateText(o.state()), got, want)
	}
}

// overwrittenStock: two changes of an item's stock have one version.
func (x *inquiry) overwrittenStock() {
	for _, name := range sortedKeys(x.a.orders.items) {
		n := 0
		last := map[int64]*history.Event{}
		var pair []*history.Event
		for _, e := range x.a.orders.items[name].moves {
			twin := last[e.Book().Version]
			last[e.Book().Version] = e
			if twin == nil {
				continue
			}
			if n++; n == 1 {
				pair = []*history.Event{twin, e}
			}
		}
		if n == 0 {
			continue
		}
		s := x.suspect("stock-overwritten", shown, n, "%s: %s written a second time, the first for order %s and then for order %s", name, were(n, "version"), pair[0].Book().Order, pair[1].Book().Order)
		chain := []Step{}
		procs := []string{}
		for i, role := range []string{RoleBefore, RoleMistake} {
			for _, a := range x.a.acts(pair[i].Book().Order, history.OrderReserve) {
				if a.outcome == history.OK {
					chain, procs = append(chain, x.step(role, a.end, "version %d is written for order %s by %s", pair[i].Book().Version, pair[i].Book().Order, a.inv.Proc)), append(procs, a.inv.Proc)
				}
			}
		}
		if !slices.ContainsFunc(chain, func(st Step) bool { return st.Role == RoleMistake }) {
			chain = append(chain, x.step(RoleMistake, pair[1], "version %d is there for order %s too", pair[1].Book().Version, pair[1].Book().Order))
		}
		s.show(name, pair[1].TS, procs, append(chain, x.step(RoleHarm, pair[1], "the stock is %d, as if only the second had been sold", pair[1].Book().Quantity))...)
	}
}
