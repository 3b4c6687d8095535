package lock_test

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/scheduler/schedulertest"
	"fencepost/core/sink"
)

// A lease is held until it is released or its holder no longer renews it; then another
// client takes it over, with a higher token. What the lock protects refuses the lower one.
// In a program the store is cassandra.NewLocks of a connection, and the clock the default.
func Example() {
	schedulertest.Example(func(h *schedulertest.Harness) {
		ctx := context.Background()
		acquire := func(c *lock.Client, holder string) *lock.Lease {
			lease, err := c.Acquire(ctx, lock.Request{Resource: "ledger", Holder: holder})
			if err != nil {
				panic(err)
			}
			fmt.Println(holder, "has token", lease.Token())
			return lease
		}
		change := func(lease *lock.Lease, key string) {
			// Raise first: what is read after it no earlier holder can change any more.
			if _, err := h.Sink.Raise(ctx, "ledger", "lock ledger", lease.Token()); err != nil {
				panic(err)
			}
			a, err := h.Sink.Accept(ctx, "ledger", "lock ledger", lease.Token(), sink.Effect{Key: key, Intent: "close " + key})
			fmt.Println(lease.Holder(), "valid:", lease.Valid(), "->", a.Result, err)
		}
		session := h.Store.Connect("ann", 1)
		ann, err := lock.New(session, lock.Options{Clock: clock.Go()})
		if err != nil {
			panic(err)
		}
		bob, err := lock.New(h.Store.Connect("bob", 1), lock.Options{Clock: clock.Go()})
		if err != nil {
			panic(err)
		}
		defer ann.Close(ctx)
		defer bob.Close(ctx)

		hers := acquire(ann, "ann")
		change(hers, "january")
		session.Cut(true) // ann is cut off: her lease runs out on her own clock first
		his := acquire(bob, "bob")
		change(his, "february")
		change(hers, "march") // as if she had looked at the clock before
		session.Cut(false)
		fmt.Println(his.Release(ctx))
		h.Advance(time.Minute)
	})
	// Output:
	// ann has token 1
	// ann valid: true -> applied <nil>
	// bob has token 2
	// bob valid: true -> applied <nil>
	// ann valid: false -> stale <nil>
	// <nil>
}
