//go:build integration

package broken

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/engine"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
	"fencepost/examples/orders/shop"
	"fencepost/harness/env/postgres/postgrestest"
	"fencepost/harness/target/orders"
	"fencepost/harness/target/workload"
)

// shopDB is the sink in a real database, with the shop's tables beside it.
type shopDB struct {
	*postgressink.Sink
	pool *pgxpool.Pool
}

func (d shopDB) Pool() *pgxpool.Pool { return d.pool }

func startShopDB(t *testing.T) shopDB {
	t.Helper()
	pool := postgrestest.Pool(t)
	if err := shop.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return shopDB{postgressink.New(pool, postgressink.Options{}), pool}
}

const shopTTL = 2 * time.Second

// shopProcess is a scheduler of the shop on a store in memory.
type shopProcess struct {
	*scheduler.Scheduler
	session *sim.Session
}

func startShop(t *testing.T, store *sim.Store, name string, db shopDB, s *shop.Shop, around func(string, worker.Handler) worker.Handler) shopProcess {
	t.Helper()
	p := shopProcess{session: store.Connect(name, 1)}
	if _, err := p.session.EnsureQueue(t.Context(), "orders", 1); err != nil {
		t.Fatal(err)
	}
	handlers := s.Handlers()
	for kind, h := range handlers {
		if around != nil {
			handlers[kind] = around(kind, h)
		}
	}
	var err error
	p.Scheduler, err = scheduler.New(scheduler.Options{
		Shards: p.session, Sink: db.Sink, Handlers: handlers,
		Engine: engine.Options{Name: name, Queues: []engine.Queue{{Name: "orders", Shards: 1}},
			Ownership: engine.Ownership{TTL: shopTTL, DrainTimeout: time.Second}, Reports: engine.Reports{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended // one that was cut off has no good end
	})
	return p
}

func (p shopProcess) place(t *testing.T, o shop.Order) {
	t.Helper()
	j, err := o.Job("orders", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, err = p.Submit(t.Context(), j); err != nil; _, err = p.Submit(t.Context(), j) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitOrders waits until so many orders are in a state.
func awaitOrders(t *testing.T, db shopDB, state string, n int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ends, err := shop.Ends(t.Context(), db.pool)
		if err != nil {
			t.Fatal(err)
		}
		if ends[state] >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: want %d %s", ends, n, state)
		}
	}
}

// stopAt stops the first payment when it has been decided, as a process that is stopped
// there, until it is let go on.
type stopAt struct {
	orders.Sink
	once    *sync.Once
	stopped chan struct{}
	goOn    chan struct{}
	answer  chan sink.Answer
}

func (s stopAt) ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(context.Context, pgx.Tx) error) (a sink.Answer, err error) {
	first := false
	if isPayment(e) {
		s.once.Do(func() { first = true })
	}
	if first {
		close(s.stopped)
		<-s.goOn
		ctx = context.WithoutCancel(ctx)
		defer func() { s.answer <- a }()
	}
	return s.Sink.ApplyTx(ctx, resource, issuer, token, e, apply)
}

// A case of the shop: what is done with a sink, and what the books must say of the
// variant's. With the shop's own they must be right.
var shopCases = []struct {
	name    string
	variant func(workload.Config, orders.Tables) orders.Sink
	run     func(t *testing.T, db shopDB, s orders.Sink)
	found   string
}{
	{"orders-pay-before-fence", payBeforeFence, lateShopPayment, "and was paid 1 times"},
	{"orders-pay-by-run", payByRun, runAgainAfterPayment, "was paid 2 times"},
	{"orders-stock-unversioned", stockUnversioned, crowdedShop, "was made"},
}

// lateShopPayment: a payment that was decided comes when another process has cancelled
// the order.
func lateShopPayment(t *testing.T, db shopDB, s orders.Sink) {
	store := sim.New()
	gate := stopAt{Sink: s, once: &sync.Once{}, stopped: make(chan struct{}), goOn: make(chan struct{}), answer: make(chan sink.Answer, 1)}
	a := startShop(t, store, "a", db, &shop.Shop{DB: db.pool, Sink: gate, Hold: 2 * time.Second}, nil)
	a.place(t, shop.Order{ID: "late", Item: "tea", Quantity: 1, Cents: 100})
	<-gate.stopped
	a.session.Cut(true)
	startShop(t, store, "b", db, &shop.Shop{DB: db.pool, Sink: s}, nil)
	awaitOrders(t, db, "cancelled", 1)
	close(gate.goOn)
	if got := <-gate.answer; got.Result != sink.Stale {
		t.Errorf("the late payment is %s, want stale", got.Result)
	}
}

// runAgainAfterPayment: a run fails when it has paid, and the job runs again.
func runAgainAfterPayment(t *testing.T, db shopDB, s orders.Sink) {
	var once sync.Once
	p := startShop(t, sim.New(), "a", db, &shop.Shop{DB: db.pool, Sink: s}, func(kind string, h worker.Handler) worker.Handler {
		return func(ctx context.Context, t *worker.Task) error {
			err := h(ctx, t)
			if err == nil && kind == shop.KindPay {
				once.Do(func() { err = errors.New("died when it had paid") })
			}
			return err
		}
	})
	p.place(t, shop.Order{ID: "again", Item: "tea", Quantity: 1, Cents: 100})
	awaitOrders(t, db, "shipped", 1)
}

// crowdedShop: many orders of one item at once.
func crowdedShop(t *testing.T, db shopDB, s orders.Sink) {
	p := startShop(t, sim.New(), "a", db, &shop.Shop{DB: db.pool, Sink: s}, nil)
	for i := range 12 {
		p.place(t, shop.Order{ID: fmt.Sprint("crowd-", i), Item: "tea", Quantity: 1, Cents: 100})
	}
	awaitOrders(t, db, "shipped", 12)
}

// TestShopVariants: each mistake leaves books that are wrong, in what goes well with the
// shop's own sink.
func TestShopVariants(t *testing.T) {
	db := startShopDB(t)
	for _, c := range shopCases {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", c.name, broken), func(t *testing.T) {
				if _, err := db.pool.Exec(t.Context(), `TRUNCATE stock, stock_moves, orders, payments, shipments, fencepost_sink, fencepost_sink_keys, fencepost_sink_ledger`); err != nil {
					t.Fatal(err)
				}
				if err := shop.Deliver(t.Context(), db.pool, "tea", 100); err != nil {
					t.Fatal(err)
				}
				s := orders.Sink(db)
				if broken {
					s = c.variant(workload.Config{TTL: 6 * time.Second}, db)
				}
				c.run(t, db, s)
				found, err := shop.Audit(t.Context(), db.pool)
				if err != nil {
					t.Fatal(err)
				}
				text := strings.Join(found, "\n")
				if broken != strings.Contains(text, c.found) || !broken && text != "" {
					t.Errorf("the books say %q; want %q only of the variant", text, c.found)
				}
			})
		}
	}
}
