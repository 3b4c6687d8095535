package checker

import (
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// shopStory is a run of a shop with one item and four orders: two are shipped, one is
// cancelled and one rejected. Times are in ms.
type shopStory struct {
	lost  string // whose placing was never answered
	asked []history.Order
	books []history.Book
	drain bool
	more  func(*tiny) // what is recorded beside that
}

func newShopStory() *shopStory {
	order := func(id string, n int64) history.Order {
		return history.Order{ID: id, Item: "tea", Quantity: n, Cents: 100 * n}
	}
	row := func(o history.Order, state string) history.Book {
		return history.Book{Table: history.BookOrder, Order: o.ID, Item: o.Item, Quantity: o.Quantity, Cents: o.Cents, State: state}
	}
	move := func(version, delta, left int64, order string) history.Book {
		return history.Book{Table: history.BookMove, Item: "tea", Version: version, Delta: delta, Quantity: left, Order: order}
	}
	a, b, c, d := order("a", 2), order("b", 3), order("c", 4), order("d", 9)
	return &shopStory{drain: true, asked: []history.Order{a, b, c, d}, books: []history.Book{
		{Table: history.BookStock, Item: "tea", Quantity: 5, Version: 5},
		move(1, 10, 10, ""), move(2, -2, 8, "a"), move(3, -4, 4, "c"), move(4, -3, 1, "b"), move(5, 4, 5, "c"),
		row(a, history.OrderShipped), row(b, history.OrderShipped), row(c, history.OrderCancelled), row(d, history.OrderRejected),
		{Table: history.BookPayment, Order: "a", Cents: 200, Token: 7}, {Table: history.BookPayment, Order: "b", Cents: 300, Token: 8},
		{Table: history.BookShipment, Order: "a"}, {Table: history.BookShipment, Order: "b"},
		{Table: history.BookEnd},
	}}
}

// find returns the first row of a table for an order, or of an item.
func (y *shopStory) find(table, of string) *history.Book {
	for i := range y.books {
		if b := &y.books[i]; b.Table == table && (b.Order == of || b.Order == "" && b.Item == of) {
			return b
		}
	}
	return nil
}

func (y *shopStory) add(b history.Book) { y.books = slices.Insert(y.books, len(y.books)-1, b) }

func (y *shopStory) drop(table, of string) {
	at := y.find(table, of)
	y.books = slices.DeleteFunc(y.books, func(b history.Book) bool { return b == *at })
}

// claims: in their shard the payments of a and b, by the seventh and the eighth run of its
// first owner, are claimed; that of a as the run-th.
func (y *shopStory) claims(run int64) {
	y.find(history.BookPayment, "a").Token = 1<<32 + 7
	y.find(history.BookPayment, "b").Token = 1<<32 + 8
	y.more = func(h *tiny) {
		s := &recurringStory{tiny: h, head: history.Version{Attempt: "n0"}}
		s.batch(21, "w1.1", history.OpTake)
		for i, run := range []int64{run, 8} {
			o, at := &y.asked[i], int64(30+10*i)
			id := "0-pay-" + o.ID
			job := &history.Job{Queue: "q", Shard: storyShard, Kind: history.OrderPay, Resource: "job/q/" + id, MaxAttempts: 5, Order: o}
			h.op(at, at+1, "w1.1/e1", history.OK, history.Event{Op: history.OpEnqueue, Key: id, Details: &history.Details{Job: job}}, history.Event{Result: past.ResultApplied})
			s.batch(at+2, "w1.1", history.OpTick, history.Change{Job: id, Do: history.DoEnqueue})
			s.batch(at+7, "w1.1", history.OpTick, history.Change{Job: id, Do: history.DoClaim, Run: 1<<32 + run, Attempt: 1})
		}
		from, to := s.head, history.Version{Fence: s.head.Fence + 1, Beat: s.head.Beat + 1, Attempt: "seal"}
		h.op(61, 62, history.Harness, history.OK, history.Event{Op: history.OpSeal, Key: storyShard, From: &from, To: &to}, history.Event{})
		h.op(63, 64, history.Harness, history.OK, history.Event{Op: history.OpRead, Key: storyShard}, history.Event{Row: &to})
	}
}

func (y *shopStory) tell() *history.History {
	h := newTiny("w1.1")
	h.expect(history.Expect{DrainBoundMS: 1000})
	for i := range y.asked {
		o := &y.asked[i]
		outcome, result := history.OK, past.ResultApplied
		if o.ID == y.lost {
			outcome, result = history.Unknown, ""
		}
		job := &history.Job{Queue: "q", Shard: storyShard, Kind: history.OrderReserve, Resource: "job/q/0-" + o.ID, MaxAttempts: 5, Order: o}
		h.op(int64(10+i), int64(20+i), "w1.1/e1", outcome, history.Event{Op: history.OpEnqueue, Key: "0-" + o.ID, Details: &history.Details{Job: job}}, history.Event{Result: result})
	}
	if y.more != nil {
		y.more(h)
	}
	if y.drain {
		h.note(50, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: past.PhaseDrain}})
	}
	h.note(60, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "seal"}})
	for i := range y.books {
		h.note(70, history.Harness, history.Event{Op: history.NoteBook, Details: &history.Details{Book: &y.books[i]}})
	}
	return h.end(80)
}

func TestShop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*shopStory)
		id     string // of the property that fails; "" for none
		want   string
	}{
		"all is well": {func(*shopStory) {}, "", ""},
		"paid twice": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "a", Cents: 200, Token: 9})
		}, "P16", "order a was paid 2 times (by runs 7, 9): its customer has lost 200 cents"},
		"paid and cancelled": {func(y *shopStory) {
			y.add(history.Book{Table: history.BookPayment, Order: "c", Cents: 400, Token: 9})
		}, "P16", "order c was paid (by run 9), but it is cancelled: its customer has lost 400 cents"},
		"shipped and not paid":     {func(y *shopStory) { y.drop(history.BookPayment, "b") }, "P16", "order b is shipped, but it was never paid"},
		"another price":            {func(y *shopStory) { y.find(history.BookPayment, "b").Cents = 1 }, "P16", "costs 300 cents, but 1 were charged"},
		"another order":            {func(y *shopStory) { y.find(history.BookOrder, "d").Quantity = 1 }, "P16", "is of 1 tea for 900 cents, but 9 tea"},
		"nobody asked":             {func(y *shopStory) { y.asked = y.asked[1:] }, "P16", "order a is in the shop's tables, but nobody placed it"},
		"shipped twice":            {func(y *shopStory) { y.add(history.Book{Table: history.BookShipment, Order: "a"}) }, "P16", "was shipped 2 times"},
		"shipped though cancelled": {func(y *shopStory) { y.add(history.Book{Table: history.BookShipment, Order: "c"}) }, "P16", "was shipped, but it is cancelled"},
		"counts as shipped":        {func(y *shopStory) { y.drop(history.BookShipment, "a") }, "P16", "counts as shipped, but never was"},
		"accepted and lost":        {func(y *shopStory) { y.drop(history.BookOrder, "d") }, "P16", "order d was taken and has not finished: it is in no table"},
		"taken and left": {func(y *shopStory) {
			y.find(history.BookOrder, "d").State = history.OrderPaid
			y.lost = "d"
		}, "P16", "order d was taken and has not finished: it is paid"},
		"of another item":                   {func(y *shopStory) { y.books[3].Item = "coffee" }, "P17", "and has taken of coffee"},
		"accepted and left":                 {func(y *shopStory) { y.find(history.BookOrder, "d").State = history.OrderReserved }, "P16", "it is reserved"},
		"a lost update":                     {func(y *shopStory) { y.books[4].Version, y.books[4].Quantity = 3, 5 }, "P17", "version 3 was written twice, for order c and for order b"},
		"a change that is missing":          {func(y *shopStory) { y.books = slices.Delete(y.books, 2, 3) }, "P17", "version 3 follows version 1"},
		"it does not add up":                {func(y *shopStory) { y.books[3].Quantity = 5 }, "P17", "changes 8 by -4 and leaves 5"},
		"fewer than none":                   {func(y *shopStory) { y.books[4].Quantity = -1 }, "P17", "at version 4 there were -1"},
		"less than none in stock":           {func(y *shopStory) { y.find(history.BookStock, "tea").Quantity = -5 }, "P17", "there are -5 in stock"},
		"sold and still there":              {func(y *shopStory) { y.find(history.BookStock, "tea").Quantity = 6 }, "P17", "there are 6 in stock, but 5 by what came and went"},
		"an older version":                  {func(y *shopStory) { y.find(history.BookStock, "tea").Version = 4 }, "P17", "its stock has version 4, but the last change was version 5"},
		"two rows of an order":              {func(y *shopStory) { y.add(*y.find(history.BookOrder, "a")) }, "P16", "order a has 2 rows in the table of orders"},
		"two rows of an item":               {func(y *shopStory) { y.add(*y.find(history.BookStock, "tea")) }, "P17", "tea has 2 rows in the table of stock"},
		"paid by a run that was claimed":    {func(y *shopStory) { y.claims(7) }, "", ""},
		"paid by a run that nobody claimed": {func(y *shopStory) { y.claims(6) }, "P16", "order a was paid by run 4294967303, and no job that pays it was ever claimed as that"},
		"no such item":                      {func(y *shopStory) { y.books = y.books[1:] }, "P17", "it has no stock"},
		"cancelled and not put back": {func(y *shopStory) {
			y.books = slices.Delete(y.books, 5, 6)
			y.books[0].Quantity, y.books[0].Version = 1, 4
		}, "P17", "order c is cancelled and has taken 4 from the stock, not 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newShopStory()
			c.change(y)
			r := Check(t.Context(), y.tell(), Options{})
			for _, id := range []string{"P16", "P17"} {
				p := propertyOf(r, id)
				said := ""
				for _, v := range p.Violations {
					said += v.Message + "\n"
					if len(v.Events) == 0 {
						t.Errorf("%s: no event shows it: %s", id, v.Message)
					}
				}
				switch {
				case id == c.id && (p.Status != StatusFail || !strings.Contains(said, c.want)):
					t.Errorf("%s: %s: %s; want %q", id, p.Status, said, c.want)
				case c.id == "" && p.Status != StatusPass:
					t.Errorf("%s: %s: %s", id, p.Status, said)
				}
			}
		})
	}
}

// TestShopNotJudged: without the shop's tables, or without having waited, there is no pass.
func TestShopNotJudged(t *testing.T) {
	t.Parallel()
	unread := newShopStory()
	unread.books = unread.books[:3]
	hasty := newShopStory()
	hasty.drain = false
	hasty.find(history.BookOrder, "d").State = history.OrderReserved
	for name, c := range map[string]struct {
		h      *history.History
		p16    Status
		p17    Status
		detail string
	}{
		"tables not read": {unread.tell(), StatusUnknown, StatusUnknown, "were not read"},
		"not waited for":  {hasty.tell(), StatusUnknown, StatusFail, "did not wait"},
	} {
		r := Check(t.Context(), c.h, Options{})
		if p := propertyOf(r, "P16"); p.Status != c.p16 || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: P16: %s (%s)", name, p.Status, p.Detail)
		}
		if p := propertyOf(r, "P17"); p.Status != c.p17 {
			t.Errorf("%s: P17: %s (%s)", name, p.Status, p.Detail)
		}
	}
	counts := Check(t.Context(), newShopStory().tell(), Options{}).Counts
	want := OrderCounts{Placed: 4, Shipped: 2, Rejected: 1, Cancelled: 1, Payments: 2, Cents: 500, Sold: 5, Left: 5}
	if counts.Orders == nil || *counts.Orders != want || counts.Points[property.PointCancelled] != 1 {
		t.Errorf("%+v, %v", counts.Orders, counts.Points)
	}
}
