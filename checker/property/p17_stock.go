package property

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:    "P17",
		title: "stock is never negative, and what was sold is gone from it",
		by:    "every change of the stock",
		Of:    "orders",
		run:   checkStock,
		rules: []rule{{find: (*Inquiry).overwrittenStock}},
		mechanisms: []mechanism{
			{id: "stock-overwritten",
				Statement: "stock is written as computed from what was read, though another has changed it since: its sale is lost",
				Apart:     "a write that is refused as the stock has moved"},
		},
	})
}

// checkStock is P17: each change of an item's stock has a version of its own and
// begins with what the one before had left, none leaves less than nothing, the stock
// is what the last one left, and each order has taken what it is of, or nothing.
func checkStock(_ context.Context, a *Judgement, p *Property) {
	if a.ordersUnread(p) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.Orders.Items)) {
		a.checkItem(a.Orders.Items[name], p)
	}
	for _, o := range a.Orders.Sorted() {
		a.checkTaken(o, p)
	}
	n := a.count().Orders
	p.Detail = fmt.Sprintf("by every change of every item's stock: %d sold, %d left", n.Sold, n.Left)
}

func (a *Judgement) checkItem(k *past.Item, p *Property) {
	moves := slices.SortedStableFunc(slices.Values(k.Moves),
		func(x, y *history.Event) int { return cmp.Compare(x.Book().Version, y.Book().Version) })
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
					events = append(events, past.Events(a.EffectsOf(m.Book().Order, history.OrderReserve)...)...)
				}
			}
			p.add(k.Name, events, "%s: "+format, append([]any{k.Name}, args...)...)
		}
		switch {
		case last != nil && b.Version == version:
			bad("version %d was written twice, for order %s and for order %s: the second overwrote the first, and %d sold "+
				"items are still in the stock", version, last.Book().Order, b.Order, -last.Book().Delta)
		case b.Version != version+1:
			bad("version %d follows version %d: a change between them is missing", b.Version, version)
		case b.Quantity != before+b.Delta:
			bad("version %d changes %d by %d and leaves %d", b.Version, before, b.Delta, b.Quantity)
		}
		if b.Order == "" && b.Delta < 0 {
			bad("version %d takes %d items, for no order", b.Version, -b.Delta)
		}
		if b.Quantity < 0 {
			bad("at version %d there were %d: items were sold that were not there", b.Version, b.Quantity)
		}
		last = e
	}
	if len(k.Duplicated) > 0 {
		p.add(k.Name, append([]*history.Event{k.Row}, k.Duplicated...), "%s has %d rows in the table of stock", k.Name, 1+len(k.Duplicated))
	}
	switch {
	case k.Row == nil:
		p.add(k.Name, k.Moves, "%s was sold or delivered, but it has no stock", k.Name)
	case k.Row.Book().Quantity < 0:
		p.add(k.Name, []*history.Event{k.Row}, "%s: there are %d in stock", k.Name, k.Row.Book().Quantity)
	case last != nil && k.Row.Book().Version != last.Book().Version:
		p.add(k.Name, []*history.Event{last, k.Row}, "%s: its stock has version %d, but the last change was version %d",
			k.Name, k.Row.Book().Version, last.Book().Version)
	case k.Row.Book().Quantity != sumOf(k.Moves):
		p.add(k.Name, []*history.Event{last, k.Row}, "%s: there are %d in stock, but %d by what came and went",
			k.Name, k.Row.Book().Quantity, sumOf(k.Moves))
	}
}

// checkTaken: what an order has taken from the stock, and not put back, is what it is of.
func (a *Judgement) checkTaken(o *past.Order, p *Property) {
	want := int64(0)
	switch o.State() {
	case history.OrderReserved, history.OrderPaid, history.OrderShipped:
		want = o.Row.Book().Quantity
	}
	for _, m := range o.Moves {
		if o.Row != nil && m.Book().Item != o.Row.Book().Item {
			p.add(o.ID, []*history.Event{m, o.Row}, "order %s is of %s, and has taken of %s", o.ID, o.Row.Book().Item, m.Book().Item)
		}
	}
	if got := -sumOf(o.Moves); got != want {
		events := slices.Concat(past.Events(a.EffectsOf(o.ID, history.OrderReserve)...), past.Events(a.EffectsOf(o.ID, history.OrderPay)...),
			o.Moves, []*history.Event{o.Row})
		p.add(o.ID, events, "order %s is %s and has taken %d from the stock, not %d", o.ID, stateText(o.State()), got, want)
	}
}

// overwrittenStock: two changes of an item's stock have one version.
func (x *Inquiry) overwrittenStock() {
	for _, name := range slices.Sorted(maps.Keys(x.Orders.Items)) {
		n := 0
		last := map[int64]*history.Event{}
		var pair []*history.Event
		for _, e := range x.Orders.Items[name].Moves {
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
		s := x.suspect("stock-overwritten", shown, n, "%s: %s written a second time, the first for order %s and then for order %s",
			name, phrase.PluralWas(n, "version"), pair[0].Book().Order, pair[1].Book().Order)
		chain := []Step{}
		procs := []string{}
		for i, role := range []string{RoleBefore, RoleMistake} {
			for _, a := range x.EffectsOf(pair[i].Book().Order, history.OrderReserve) {
				if a.Outcome == history.OK {
					chain, procs = append(chain, x.step(role, a.End, "version %d is written for order %s by %s",
						pair[i].Book().Version, pair[i].Book().Order, a.Invoke.Proc)), append(procs, a.Invoke.Proc)
				}
			}
		}
		if !slices.ContainsFunc(chain, func(st Step) bool { return st.Role == RoleMistake }) {
			chain = append(chain, x.mistake(pair[1], "version %d is there for order %s too", pair[1].Book().Version, pair[1].Book().Order))
		}
		s.show(name, pair[1].TS, procs,
			append(chain, x.harm(pair[1], "the stock is %d, as if only the second had been sold", pair[1].Book().Quantity))...)
	}
}
