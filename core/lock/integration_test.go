//go:build integration

package lock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sort"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

var measure = flag.Duration("measure", 0, "measure latency and throughput on the cluster, for this long each")

func hostNow() int64 { return int64(clock.System().Now()) }

// isHeld takes note of an unsettled request and reports whether err is ErrHeld.
func isHeld(err error, r *report) bool {
	var ae *lock.AcquireError
	if errors.As(err, &ae) && ae.Unsettled {
		r.Unsettled++
	}
	return errors.Is(err, lock.ErrHeld)
}

// TestOneWinnerOfAHundred: 100 callers in 4 processes, each contending alone,
// try one lock at the same time. Each round has exactly one winner, with a
// higher token than the last, and no request of unknown outcome is left.
func TestOneWinnerOfAHundred(t *testing.T) {
	cfg := cassandratest.Keyspace(t)
	ps := startProcesses(t, 4, childConfig{Keyspace: cfg.Keyspace, Clients: 25, TTL: 30 * time.Second, NoSingleFlight: true})
	total := map[string]int{}
	last := int64(0)
	for round := 1; round <= 20; round++ {
		var winners []int64
		for _, r := range ps.do(order{Round: round, Resource: "hundred"}) {
			winners = append(winners, r.Winners...)
			if r.Unsettled > 0 {
				t.Errorf("round %d: %d requests unsettled", round, r.Unsettled)
			}
			for k, v := range r.Outcomes {
				total[k] += v
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d: winners %v", round, winners)
		}
		if winners[0] <= last {
			t.Fatalf("round %d: token %d after %d", round, winners[0], last)
		}
		last = winners[0]
		for _, r := range ps.do(order{Release: true}) {
			for k, v := range r.Outcomes {
				total[k] += v
			}
		}
	}
	t.Logf("requests: %v; last token %d", total, last)
}

// TestContention: processes with queues of their own share one lock; nobody is
// entitled at the same time as another, and nobody starves.
func TestContention(t *testing.T) {
	cfg := cassandratest.Keyspace(t)
	d := 10 * time.Second
	if *measure > 0 {
		d = *measure
	}
	ps := startProcesses(t, 4, childConfig{Keyspace: cfg.Keyspace, Clients: 3, TTL: 6 * time.Second})
	ps.do(order{Contend: d / 2, Hold: 20 * time.Millisecond, Resource: "contention-warm-up"})
	var grants []grantTime
	var waits []time.Duration
	var starved []string
	clients := 0
	total := map[string]int{}
	for i, r := range ps.do(order{Contend: d, Hold: 20 * time.Millisecond, Resource: "contention"}) {
		t.Logf("process %d: cycles %v", i, r.Cycles)
		for c, n := range r.Cycles {
			clients++
			if n == 0 {
				starved = append(starved, fmt.Sprintf("process %d, client %d", i, c))
			}
		}
		grants = append(grants, r.Grants...)
		waits = append(waits, r.Waits...)
		for k, v := range r.Outcomes {
			total[k] += v
		}
	}
	// Who never gets its turn among ten turns for each is starved; on a machine
	// so busy that there are fewer, nothing can be said.
	if len(starved) > 0 && len(grants) >= 10*clients {
		t.Errorf("of %d grants none went to %v", len(grants), starved)
	}
	sort.Slice(grants, func(i, j int) bool { return grants[i].Token < grants[j].Token })
	for i := 1; i < len(grants); i++ {
		a, b := grants[i-1], grants[i]
		if a.Token == b.Token || a.To > b.From {
			t.Errorf("held at once: %+v and %+v", a, b)
		}
	}
	t.Logf("%d cycles in %s: %.1f/s; wait %s; requests %v", len(grants), d, float64(len(grants))/d.Seconds(), quantiles(waits), total)
}

// TestUncontended measures a lock that nobody else wants.
func TestUncontended(t *testing.T) {
	cfg := cassandratest.Keyspace(t)
	db := cassandratest.Open(t, cfg)
	counter := &outcomes{n: map[string]int{}}
	c, err := lock.New(cassandra.NewLocks(db), lock.Options{TTL: 6 * time.Second, Observer: counter})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	cycles := func(d time.Duration) (acquire, release []time.Duration) {
		for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
			start := time.Now()
			l, err := c.Acquire(t.Context(), lock.Request{Resource: fmt.Sprintf("uncontended%d", i%10), Holder: "h"})
			if err != nil {
				t.Fatal(err)
			}
			acquire = append(acquire, time.Since(start))
			start = time.Now()
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			release = append(release, time.Since(start))
		}
		return acquire, release
	}
	d := max(*measure, 2*time.Second)
	cycles(d)
	counter.take()
	a, r := cycles(d)
	t.Logf("%d cycles; acquire %s; release %s; requests %v", len(a), quantiles(a), quantiles(r), counter.take())
}

// TestTakeover: a holder that is gone without a release loses the lock to a
// contender of another process after its ttl.
func TestTakeoverOnCluster(t *testing.T) {
	cfg := cassandratest.Keyspace(t)
	open := func() *lock.Client {
		db := cassandratest.Open(t, cfg)
		c, err := lock.New(cassandra.NewLocks(db), lock.Options{TTL: time.Second, NoAutoRenew: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	a, b := open(), open()
	req := lock.Request{Resource: "takeover", Holder: "a"}
	la, err := a.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	req.Holder = "b"
	if _, err := b.TryAcquire(t.Context(), req); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
	start := time.Now()
	lb, err := b.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if la.Valid() {
		t.Error("two leases are valid")
	}
	if lb.Token() <= la.Token() { // not always the next: a grant that is known too late is given back
		t.Errorf("tokens %d, %d", la.Token(), lb.Token())
	}
	t.Logf("taken over after %s", time.Since(start))
	if err := la.Renew(t.Context()); !errors.As(err, new(*lock.LostError)) || !errors.Is(err, lock.ErrDeadline) {
		t.Errorf("stale renew: %v", err)
	}
	if err := la.Release(t.Context()); !errors.As(err, new(*lock.LostError)) {
		t.Errorf("stale release: %v", err)
	}
	if !lb.Valid() {
		t.Error("the stale release hurt the new holder")
	}
	if err := lb.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := lb.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}

func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	at := func(q float64) time.Duration {
		return d[min(len(d)-1, int(q*float64(len(d))))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %s p95 %s p99 %s max %s", at(0.5), at(0.95), at(0.99), d[len(d)-1].Round(time.Millisecond))
}

// TestRaiseFenceOnACluster: grants go on above the fence that was raised, of a lock with a
// row and of one without.
func TestRaiseFenceOnACluster(t *testing.T) {
	db := cassandratest.Open(t, cassandratest.Keyspace(t))
	rows := cassandra.NewLocks(db)
	c, err := lock.New(rows, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	token := func(name string) int64 {
		l, err := c.Acquire(t.Context(), lock.Request{Resource: name, Holder: "h", Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.Token()
	}
	token("old")
	for name, want := range map[string]int64{"old": 1002, "young": 1001} {
		if _, err := lock.RaiseFence(t.Context(), rows, name, 1000); err != nil {
			t.Fatal(err)
		}
		if got := token(name); got != want {
			t.Errorf("%s: token %d, want %d", name, got, want)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
