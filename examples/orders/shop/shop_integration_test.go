//go:build integration

package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/engine"
	"fencepost/core/scheduler"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
	"fencepost/harness/env/postgres/postgrestest"
)

// database is one of a server that ends with the test, with the shop's tables.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := postgrestest.Pool(t)
	if err := Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return pool
}

// flaky fails some runs after they have had their effect, as a process that dies there:
// the job runs again.
func flaky(h worker.Handler) worker.Handler {
	var mu sync.Mutex
	failed := map[string]bool{}
	return func(ctx context.Context, t *worker.Task) error {
		err := h(ctx, t)
		mu.Lock()
		defer mu.Unlock()
		id := string(t.Run.Job.ID)
		if err != nil || failed[id] || rand.IntN(3) > 0 {
			return err
		}
		failed[id] = true
		return errors.New("died after its effect")
	}
}

// TestOrders: whatever fails after its effect, every order ends, and the books are
// right; some orders find no stock, and some are not paid in time.
func TestOrders(t *testing.T) {
	pool := database(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const queue, shards, orders, stock = "orders", 2, 80, 40
	floor := &Shop{DB: pool, Sink: postgressink.New(pool, postgressink.Options{})}
	handlers := map[string]worker.Handler{}
	for kind, h := range floor.Handlers() {
		handlers[kind] = flaky(h)
	}
	// Of every fifth order the items are not kept for long enough.
	reserve := handlers[KindReserve]
	hasty := &Shop{DB: pool, Sink: floor.Sink, Hold: time.Nanosecond}
	handlers[KindReserve] = func(ctx context.Context, t *worker.Task) error {
		if strings.HasSuffix(t.Run.Job.Key, "0") || strings.HasSuffix(t.Run.Job.Key, "5") {
			return hasty.Reserve(ctx, t)
		}
		return reserve(ctx, t)
	}
	session := sim.New().Connect("shop", 1)
	if _, err := session.EnsureQueue(ctx, queue, shards); err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.New(scheduler.Options{
		Shards: session, Sink: postgressink.New(pool, postgressink.Options{}), Handlers: handlers,
		Engine: engine.Options{Name: "shop", Queues: []engine.Queue{{Name: queue, Shards: shards}},
			Ownership: engine.Ownership{TTL: 5 * time.Second}, Reports: engine.Reports{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for _, item := range []string{"tea", "coffee"} {
		if err := Deliver(ctx, pool, item, stock); err != nil {
			t.Fatal(err)
		}
	}
	for i := range orders {
		o := Order{ID: fmt.Sprintf("o%d", i), Item: []string{"tea", "coffee", "nothing"}[i%7%3], Quantity: 1 + int64(i%3), Cents: 100}
		j, err := o.Job(queue, shards)
		if err != nil {
			t.Fatal(err)
		}
		for _, err = s.Submit(ctx, j); err != nil; _, err = s.Submit(ctx, j) {
			time.Sleep(50 * time.Millisecond) // nobody owns the shard yet
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	var ends map[string]int
	for {
		if ends, err = Ends(ctx, pool); err != nil {
			t.Fatal(err)
		}
		if ends["shipped"]+ends["rejected"]+ends["cancelled"] == orders {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not all orders came to an end: %v", ends)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%v", ends)
	for _, state := range []string{"shipped", "rejected", "cancelled"} {
		if ends[state] == 0 {
			t.Errorf("no order is %s: %v", state, ends)
		}
	}
	if found, err := Audit(ctx, pool); err != nil || len(found) > 0 {
		t.Errorf("the books are wrong: %v, %v", found, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAudit: books that are wrong are found to be.
func TestAudit(t *testing.T) {
	pool := database(t)
	ctx := t.Context()
	if err := Deliver(ctx, pool, "tea", 10); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ sql, want string }{
		{`INSERT INTO orders VALUES ('a', 'tea', 2, 5, 'shipped')`, "order a is shipped and was paid 0 times"},
		{`INSERT INTO payments (order_id, cents, token) VALUES ('a', 5, 1), ('a', 5, 2)`, "order a is shipped and was paid 2 times"},
		{`UPDATE payments SET cents = 4 WHERE token = 1`, "order a costs 5 and 4 was charged"},
		{`INSERT INTO shipments (order_id) VALUES ('a'), ('a')`, "order a is shipped and was shipped 2 times"},
		{`UPDATE orders SET state = 'cancelled'`, "order a is cancelled and was paid 2 times"},
		{`INSERT INTO stock_moves (item, version, delta, quantity, order_id) VALUES ('tea', 2, -2, 8, 'a')`, "order a is cancelled and holds 2 of tea"},
		{`UPDATE stock SET quantity = 9`, "there are 9 of tea, but 8 by what came and went"},
		{`UPDATE stock_moves SET version = 1`, "version 1 of tea was made 2 times"},
		{`UPDATE stock_moves SET quantity = -1 WHERE delta < 0`, "there were -1 of tea at version 1"},
	} {
		if _, err := pool.Exec(ctx, c.sql); err != nil {
			t.Fatal(err)
		}
		found, err := Audit(ctx, pool)
		if err != nil || !strings.Contains(strings.Join(found, "\n"), c.want) {
			t.Errorf("%s: %v, %v; want %q", c.sql, found, err, c.want)
		}
	}
}
