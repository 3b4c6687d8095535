//go:build integration

package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

// TestOpen: two processes that were told nothing but the database and their handlers find each
// other, and hand on what belongs to the other one; effects go to the keyspace.
func TestOpen(t *testing.T) {
	cfg := cassandratest.Config(t)
	cfg.Keyspace = fmt.Sprintf("it_open_%x", time.Now().UnixNano()&0xffffffff)
	t.Cleanup(func() {
		if err := cassandra.DropKeyspace(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	done := make(chan string, 100)
	open := func() *scheduler.Scheduler {
		c := scheduler.Config{Database: cfg, Replicas: min(3, len(cfg.ContactPoints))}
		c.Handlers = scheduler.Handlers{}
		c.Engine.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		c.Engine.TTL = 6 * time.Second
		if err := SendInvoice.Register(c.Handlers, func(ctx context.Context, k *scheduler.Task, in Invoice) error {
			err := k.Do(ctx, sink.Effect{Key: "charge", Intent: "charge", Value: in.Cents})
			if err == nil {
				done <- in.Customer
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s, err := scheduler.Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := open()
	b := open()
	want := map[string]bool{}
	for i := range 20 {
		name := fmt.Sprint("customer ", i)
		want[name] = true
		if _, err := SendInvoice.Enqueue(ctx, []*scheduler.Scheduler{a, b}[i%2], Invoice{Customer: name, Cents: 1}, scheduler.Key(name)); err != nil {
			t.Error(err)
		}
	}
	for len(want) > 0 {
		select {
		case name := <-done:
			delete(want, name)
		case <-ctx.Done():
			t.Fatalf("%d jobs were not done", len(want))
		}
	}
	for _, s := range []*scheduler.Scheduler{a, b} {
		if err := errors.Join(s.Close(), s.Wait()); err != nil {
			t.Error(err)
		}
	}
}
