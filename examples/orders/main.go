// Command orders is a shop: it places orders, and a scheduler in the same process
// reserves, charges and ships them. Start it as often as you like, kill it when you
// like: see README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/engine"
	"fencepost/core/scheduler"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store/cassandra"
	"fencepost/examples/orders/shop"
)

const (
	queue  = "orders"
	shards = 4
)

func main() {
	var (
		nodes    = flag.String("cassandra", cmp.Or(os.Getenv("FENCEPOST_CONTACT_POINTS"), "127.0.0.1"), "addresses of Cassandra nodes, with commas between")
		port     = flag.Int("port", atoi(os.Getenv("FENCEPOST_CQL_PORT"), 9042), "their port")
		replicas = flag.Int("replicas", 3, "of the keyspace, when it is created")
		books    = flag.String("postgres", "", "connection string of the shop's database (or PGHOST, PGDATABASE …)")
		n        = flag.Int("orders", 100, "how many orders to place")
		stock    = flag.Int64("stock", 60, "how many of each of three items to deliver first")
		hold     = flag.Duration("hold", shop.DefaultHold, "how long items are kept for an order that is not paid")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := cassandra.Config{ContactPoints: strings.Split(*nodes, ","), Port: *port, Keyspace: "orders"}
	if err := run(ctx, cfg, *replicas, *books, *n, *stock, *hold); err != nil {
		fmt.Fprintln(os.Stderr, "orders: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg cassandra.Config, replicas int, books string, n int, stock int64, hold time.Duration) error {
	pool, err := pgxpool.New(ctx, books)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := errors.Join(postgressink.Migrate(ctx, pool), shop.Migrate(ctx, pool)); err != nil {
		return err
	}
	// Any number of such processes share the work.
	fenced := postgressink.New(pool, postgressink.Options{})
	floor := &shop.Shop{DB: pool, Sink: fenced, Hold: hold}
	c := scheduler.Config{Database: cfg, Replicas: replicas, Options: scheduler.Options{Sink: fenced, Handlers: floor.Handlers()}}
	c.Name = "shop-" + uuid.NewString()[:8]
	c.Engine.Queues, c.Engine.TTL = []engine.Queue{{Name: queue, Shards: shards}}, 6*time.Second
	s, err := scheduler.Open(ctx, c)
	if err != nil {
		return err
	}
	err = trade(ctx, s, pool, n, stock)
	return errors.Join(err, s.Close()) // its runs may end, and its shards are handed over
}

// trade delivers, places orders, waits for them and looks at the books.
func trade(ctx context.Context, s *scheduler.Scheduler, pool *pgxpool.Pool, n int, stock int64) error {
	items := []string{"tea", "coffee", "cocoa"}
	for _, item := range items {
		if err := shop.Deliver(ctx, pool, item, stock); err != nil {
			return err
		}
	}
	var placed []string
	for range n {
		o := shop.Order{ID: uuid.NewString(), Item: items[rand.IntN(len(items))], Quantity: 1 + rand.Int64N(3), Cents: 100 + rand.Int64N(900)}
		j, err := o.Job(queue, shards)
		if err != nil {
			return err
		}
		// Placed twice, it would still be one order: a customer asks again until it is answered.
		for _, err = s.Submit(ctx, j); err != nil; _, err = s.Submit(ctx, j) {
			if ctx.Err() != nil {
				return err
			}
			time.Sleep(200 * time.Millisecond)
		}
		placed = append(placed, o.ID)
	}
	fmt.Printf("%d orders placed\n", len(placed))
	for {
		open, err := unfinished(ctx, pool, placed)
		if err != nil {
			return err
		}
		if open == 0 {
			return report(ctx, pool)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped: %d orders are still under way; another process goes on with them", open)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// unfinished counts the orders that have not come to their end.
func unfinished(ctx context.Context, pool *pgxpool.Pool, placed []string) (n int, err error) {
	err = pool.QueryRow(ctx, `SELECT $2 - count(*) FROM orders WHERE id = ANY($1) AND state IN ('shipped', 'rejected', 'cancelled')`, placed, len(placed)).Scan(&n)
	return n, err
}

func report(ctx context.Context, pool *pgxpool.Pool) error {
	ends, err := shop.Ends(ctx, pool)
	if err != nil {
		return err
	}
	for _, state := range []string{"shipped", "rejected", "cancelled", "reserved", "paid"} {
		fmt.Printf("%8d %s\n", ends[state], state)
	}
	found, err := shop.Audit(ctx, pool)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("the books are wrong:\n  %s", strings.Join(slices.Clip(found), "\n  "))
	}
	fmt.Println("the books are right: each order paid once or never, no item sold that was not there")
	return nil
}

func atoi(s string, def int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return def
}
