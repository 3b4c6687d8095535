//go:build integration

package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"fencepost/systems/drive"
)

// TestControllerTakesFromTheDead: a job is taken from its worker if the worker's key and the lease are both over, and not
// if one of them is; whoever takes it has a higher token, and what the first one says then changes nothing.
func TestControllerTakesFromTheDead(t *testing.T) {
	at, db := startRedis(t)
	at.Nodes = append(at.Nodes, startPostgres(t).Nodes...)
	must(t, setUpController(t.Context(), at))
	open := func(slots int, run drive.Run) *controller {
		q, err := newController(t.Context(), at, slots, run, false)
		must(t, err)
		t.Cleanup(func() { must(t, q.Close(context.Background())) })
		return q.(*controller)
	}
	c := open(0, nil) // it has no loops: the test does what they do
	sql := func(text string, args ...any) {
		_, err := c.pool.Exec(t.Context(), strings.ReplaceAll(text, "@", c.schema+"."), args...)
		must(t, err)
	}
	must(t, c.Put(t.Context(), drive.Job{Lock: "lock", N: 7}))
	must(t, c.Put(t.Context(), drive.Job{Lock: "lock", N: 7}))
	l := &leader{controller: c}
	var runs []drive.Job
	take := func(w string) (took bool) {
		c.id, c.run = w, func(_ context.Context, j drive.Job) error { runs = append(runs, j); return errors.New("again") }
		must(t, l.assign(t.Context(), []string{w}))
		took, _ = c.next(t.Context(), w+"/0") // the error is the run's
		return took
	}
	if !take("a") || take("none") == false || len(runs) != 2 || runs[0].ID() != "lock#7" || runs[1].Token <= runs[0].Token {
		t.Fatalf("a run that failed is not given back: %+v", runs)
	}
	for _, x := range []struct {
		alive []string
		over  bool
		free  bool
	}{{[]string{"a"}, false, false}, {[]string{"a"}, true, false}, {[]string{}, false, false}, {[]string{"b"}, true, true}, {[]string{}, true, true}} {
		sql(`UPDATE @jobs SET worker = 'a/0', done = false, lease_until = now() + $1`, map[bool]time.Duration{false: time.Minute, true: -time.Second}[x.over])
		must(t, l.reap(t.Context(), x.alive))
		if free := take("b"); free != x.free {
			t.Errorf("alive %v, lease over %t: taken by another: %t", x.alive, x.over, free)
		}
	}
	// It was taken, and the answer was lost: nobody has it as long as the worker is alive, unless it asks for it.
	sql(`UPDATE @jobs SET worker = 'b/0', lease_until = now() - interval '1 s'`)
	must(t, l.reap(t.Context(), []string{"b"}))
	if take("b") {
		t.Error("a worker is given again what it took")
	}
	if c.reclaims = true; !take("b") {
		t.Error("a worker that reclaims is not given again what it took")
	}
	// An earlier attempt's answer, and the one that counts.
	var attempt int64
	must(t, c.pool.QueryRow(t.Context(), `SELECT attempt FROM `+c.schema+`.jobs`).Scan(&attempt))
	j := drive.Job{Lock: "lock", N: 7}
	must(t, c.settle(t.Context(), j, attempt-1, true))
	if !take("b") {
		t.Error("an earlier attempt has completed the job")
	}
	must(t, c.settle(t.Context(), j, attempt+1, true))
	if take("b") {
		t.Error("a job that is done is taken")
	}
	if n, err := db.DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("who runs no jobs registers: %d keys, %v", n, err)
	}
}

// TestControllerRuns: a worker that registers is assigned all ranges and runs a job; without its key a run ends when its
// lease is over too, and not before.
func TestControllerRuns(t *testing.T) {
	at, db := startRedis(t)
	at.Nodes, at.TTL = append(at.Nodes, startPostgres(t).Nodes...), 2*time.Second
	must(t, setUpController(t.Context(), at))
	runs, ended := make(chan drive.Job, 10), make(chan struct{})
	var once sync.Once
	q, err := newController(t.Context(), at, 1, func(ctx context.Context, j drive.Job) error {
		runs <- j
		if j.N == 2 {
			once.Do(func() { <-ctx.Done(); close(ended) })
		}
		return ctx.Err()
	}, false)
	must(t, err)
	must(t, q.Put(t.Context(), drive.Job{Lock: "lock", N: 1}))
	next(t, runs)
	must(t, q.Put(t.Context(), drive.Job{Lock: "lock", N: 2}))
	next(t, runs)
	time.Sleep(2 * at.TTL)
	select {
	case <-ended:
		t.Error("a run ends with its lease though its worker is alive")
	default:
	}
	if n, err := db.Exists(t.Context(), at.Name+"/controller").Result(); n != 1 || err != nil {
		t.Errorf("nobody is the controller: %v", err)
	}
	// Its writes fail from now on: it is alive no more by its own count.
	must(t, db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	select {
	case <-ended:
	case <-time.After(at.TTL):
		t.Error("a run goes on though key and lease are over")
	}
	must(t, db.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if again := next(t, runs); again.N != 2 {
		t.Errorf("%+v", again)
	}
	must(t, q.Close(t.Context()))
}
