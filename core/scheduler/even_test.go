package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/member"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// cell is some schedulers in a bubble, with the jobs that they ran.
type cell struct {
	store    *sim.Store
	ttl      time.Duration
	queues   []string
	n        int // of each queue's shards
	expected []string
	// through is what schedulers see of the store; nil: the store.
	through func(store.Shards) store.Shards
	// wires are how they reach each other; nil: they do not.
	wires *wires

	lives map[string]int          // of a name
	beats map[string]*sim.Session // of its last life

	mu  sync.Mutex
	ran map[string]int
}

func newCell(n int, expected ...string) *cell {
	return &cell{store: sim.New(), ttl: 6 * time.Second, queues: []string{"q"}, n: n, expected: expected,
		lives: map[string]int{}, beats: map[string]*sim.Session{}, ran: map[string]int{}}
}

// wires are handlers by their address.
type wires struct{ sync.Map }

func (w *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	h, ok := w.Load(r.URL.Host)
	if !ok {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	rec := httptest.NewRecorder()
	h.(http.Handler).ServeHTTP(rec, r)
	return rec.Result(), nil
}

// addrOf is where a life is reached.
func addrOf(life string) string { return life + ":80" }

const runTime = 200 * time.Millisecond

// begin runs a scheduler of that name in the cell.
func (c *cell) begin(t *testing.T, name string) (s *scheduler.Scheduler, stop func()) {
	t.Helper()
	c.lives[name]++
	life, quiet := fmt.Sprintf("%s.%d", name, c.lives[name]), slog.New(slog.NewTextHandler(io.Discard, nil))
	c.beats[name] = c.store.Connect(life+" beats", 1)
	group, err := member.New(member.Options{Store: c.beats[name], Cell: "c", Name: name, Expected: c.expected, TTL: c.ttl, Clock: clock.Go(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	var queues []engine.Queue
	for _, q := range c.queues {
		queues = append(queues, engine.Queue{Name: q, Shards: c.n})
	}
	session := c.store.Connect(life, 1)
	session.SetFaults(sim.Faults{Latency: time.Millisecond})
	shards := store.Shards(session)
	if c.through != nil {
		shards = c.through(shards)
	}
	o := scheduler.Options{Shards: shards, Members: group,
		Handlers: scheduler.Handlers{"k": func(_ context.Context, k *worker.Task) error {
			time.Sleep(runTime)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ran[k.Run.Job.Key]++
			return nil
		}},
		Engine: engine.Options{
			Name: life, Queues: queues,
			Ownership: engine.Ownership{TTL: c.ttl}, World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Logger: quiet},
		}}
	if c.wires != nil {
		o.Engine.Addr, o.Engine.Forward = addrOf(life), forward.NewClient(c.wires).Enqueue
	}
	if s, err = scheduler.New(o); err != nil {
		t.Fatal(err)
	}
	if c.wires != nil {
		c.wires.Store(addrOf(life), s.Wire(c.wires))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}()
	return s, func() { cancel(); <-done }
}

// owned is how many shards of the queues each life owns, by the rows.
func (c *cell) owned(queues ...string) map[string]int {
	out := map[string]int{}
	for _, q := range queues {
		for n := range c.n {
			h, _ := c.store.ShardRows(store.ShardID{Queue: q, Shard: n})
			out[h.Owner]++
		}
	}
	return out
}

// even checks that so many processes have all shards, and none two more than another: of each queue, and
// of all.
func (c *cell) even(t *testing.T, when string, processes int) {
	t.Helper()
	of := [][]string{c.queues}
	for _, q := range c.queues {
		of = append(of, []string{q})
	}
	for _, queues := range of {
		has := c.owned(queues...)
		n := has[""]
		delete(has, "")
		var counts []int
		for _, k := range has {
			counts = append(counts, k)
		}
		for len(counts) < processes {
			counts = append(counts, 0)
		}
		if n > 0 || len(counts) > processes || slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("%s: %d processes have %v of %v, and %d are nobody's", when, processes, has, queues, n)
		}
	}
}

// TestEachQueueIsEven: of two processes neither has all of a busy queue while the other has as
// many shards of one where nothing happens.
func TestEachQueueIsEven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(2)
		c.queues = []string{"q", "r", "s", "t", "u"}
		_, stopA := c.begin(t, "a")
		time.Sleep(c.ttl)
		_, stopB := c.begin(t, "b")
		time.Sleep(4 * c.ttl)
		c.even(t, "b has come", 2)
		_, stopC := c.begin(t, "c")
		time.Sleep(4 * c.ttl)
		c.even(t, "c has come", 3)
		stopA()
		time.Sleep(4 * c.ttl)
		c.even(t, "a has left", 2)
		stopB()
		stopC()
	})
}

// TestSharesMoveToWhoJoins: within 4 ttl of the last that came or left all have as many shards, or
// one more, while jobs are enqueued all the time. Each of them runs once.
func TestSharesMoveToWhoJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(8)
		a, stopA := c.begin(t, "a")
		time.Sleep(c.ttl)
		c.even(t, "alone", 1)
		ctx, enough := context.WithCancel(t.Context())
		var jobs int
		var clients sync.WaitGroup
		clients.Go(func() {
			for ; ctx.Err() == nil; jobs++ {
				key := fmt.Sprint(jobs)
				if _, err := a.Submit(context.WithoutCancel(ctx), job.Job{ID: job.KeyedID("q", key, c.n), Queue: "q", Kind: "k", Key: key}); err != nil {
					t.Error(err)
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
		_, stopB := c.begin(t, "b")
		time.Sleep(4 * c.ttl)
		c.even(t, "b has come", 2)
		_, stopC := c.begin(t, "c")
		_, stopD := c.begin(t, "d")
		time.Sleep(4 * c.ttl)
		c.even(t, "c and d have come", 4)
		stopB()
		time.Sleep(4 * c.ttl)
		c.even(t, "b has left", 3)
		_, stopB = c.begin(t, "b")
		time.Sleep(4 * c.ttl)
		c.even(t, "b is back", 4)
		before := c.owned("q")
		time.Sleep(10 * c.ttl)
		if after := c.owned("q"); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("shards move without a reason: %v, then %v", before, after)
		}
		enough()
		clients.Wait()
		time.Sleep(2 * c.ttl)
		c.mu.Lock()
		for key, n := range c.ran {
			if n != 1 {
				t.Errorf("job %s ran %d times", key, n)
			}
		}
		if len(c.ran) != jobs || jobs < 1000 {
			t.Errorf("%d of %d jobs ran", len(c.ran), jobs)
		}
		c.mu.Unlock()
		for _, stop := range []func(){stopA, stopB, stopC, stopD} {
			stop()
		}
	})
}

// TestNothingMovesTooSoon: a process that is there for less than 2 ttl, or comes back again and
// again, is given nothing.
func TestNothingMovesTooSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(4)
		_, stopA := c.begin(t, "a")
		time.Sleep(c.ttl)
		for range 5 {
			_, stop := c.begin(t, "b")
			time.Sleep(2*c.ttl - time.Second)
			c.even(t, "b is there for a moment", 1)
			stop()
			time.Sleep(c.ttl)
		}
		stopA()
	})
}

// TestTheNextOwnerIsNamed: who joins tells owners where it is, and the last tick of what moves to it
// says so.
func TestTheNextOwnerIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(4)
		c.wires = &wires{}
		_, stopA := c.begin(t, "a")
		time.Sleep(c.ttl)
		_, stopB := c.begin(t, "b")
		time.Sleep(4 * c.ttl)
		c.even(t, "b has come", 2)
		named := 0
		for _, change := range c.store.ShardChanges() {
			if change.To.Owner == "" && change.To.Addr == addrOf("b.1") {
				named++
			}
		}
		if named != c.n/2 {
			t.Errorf("%d of %d moves name their next owner", named, c.n/2)
		}
		stopA()
		stopB()
	})
}

// TestNothingMovesToWhoHasLeft: the others see up to a third of a ttl later that a process has stopped. What
// they got from it they do not give back meanwhile: nobody would have it.
func TestNothingMovesToWhoHasLeft(t *testing.T) {
	t.Parallel()
	for late := range 12 { // how long after its last look the other one stops
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCell(4)
				c.wires = &wires{}
				_, stopA := c.begin(t, "a")
				time.Sleep(c.ttl)
				_, stopB := c.begin(t, "b")
				time.Sleep(4*c.ttl + time.Duration(late)*c.ttl/36)
				c.even(t, "b has come", 2)
				stopB()
				n := len(c.store.ShardChanges())
				time.Sleep(2 * c.ttl)
				c.even(t, "b has left", 1)
				for _, change := range c.store.ShardChanges()[n:] {
					if change.To.Owner == "" {
						t.Errorf("%s is given away after the other has stopped", change.Shard)
					}
				}
				stopA()
			})
		})
	}
}
