package sinktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fencepost/core/sink"
)

// chunk is how many effects of short-lived resources Grow makes between two looks for what
// can go.
const chunk = 500

// GrowthLeft is how many resources are in a sink after Grow, without floors.
const GrowthLeft = chunk + 1

// Retiring is a sink that can remove what is over.
type Retiring interface {
	sink.Sink
	sink.Retirer
}

// Grow makes effects, a multiple of 500, each on a resource of its own as jobs do, and one
// more of every 500 on a resource that is used for ever. What is over is retired, or
// forgotten, 500 effects later. It checks that this is done, and that no late copy of an
// effect is accepted.
func Grow(ctx context.Context, t T, s Retiring, effects int) {
	t.Helper()
	name := func(i int) string { return fmt.Sprintf("job/q/%d", i) }
	shard := func(i int) string { return fmt.Sprintf("shard/q/%d", i%4) }
	check := func(what string, a sink.Answer, err error, want sink.Result) {
		if err != nil || a.Result != want {
			t.Errorf("%s: %+v (%s), %v; want %s", what, a, a.Result, err, want)
		}
	}
	for first := 0; first < effects; first += chunk {
		var wg sync.WaitGroup
		for worker := range 50 {
			wg.Go(func() {
				for i := first + worker; i < first+chunk; i += 50 {
					a, err := s.Accept(ctx, name(i), shard(i), int64(i+1), effect("k", 1))
					check(name(i), a, err, sink.Applied)
				}
			})
		}
		wg.Wait()
		a, err := s.Accept(ctx, "account", "lock-account", int64(first+1), effect(fmt.Sprint(first), 1))
		check("account", a, err, sink.Applied)
		if _, err := s.Forget(ctx, "account", time.Now().Add(-time.Second)); err != nil {
			t.Errorf("Forget: %v", err)
		}
		if first == 0 {
			continue
		}
		for issuer := range 4 {
			var over []string
			for i := first - chunk + issuer; i < first; i += 4 {
				over = append(over, name(i))
			}
			if n, err := s.Retire(ctx, shard(issuer), int64(first+1), over...); err != nil || n != len(over) {
				t.Errorf("Retire: %d of %d, %v", n, len(over), err)
			}
		}
		late := first - chunk
		a, err = s.Accept(ctx, name(late), shard(late), int64(late+1), effect("k", 1))
		check("a late copy", a, err, sink.Stale)
	}
	if _, err := s.Forget(ctx, "account", time.Now().Add(time.Hour)); err != nil {
		t.Errorf("Forget: %v", err)
	}
	if l, err := s.Ledger(ctx, "account"); err != nil || len(l) != 1 {
		t.Errorf("%d entries are left in the ledger of a resource that is used for ever, %v", len(l), err)
	}
}
