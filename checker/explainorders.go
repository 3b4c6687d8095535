package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

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
