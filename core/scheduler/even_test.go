package scheduler_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
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

	lives map[string]int          // of a name
	beats map[string]*sim.Session // of its last life

	mu  sync.Mutex
	ran map[string]int
}

func newCell(n int, expected ...string) *cell {
	return &cell{store: sim.New(), ttl: 6 * time.Second, queues: []string{"q"}, n: n, expected: expected,
		lives: map[string]int{}, beats: map[string]*sim.Session{}, ran: map[string]int{}}
}

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
	s, err = scheduler.New(scheduler.Options{Shards: shards, Members: group,
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
		}})
	if err != nil {
		t.Fatal(err)
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
	p := &pair{t, sim.New(), make(chan string, 1)}
	a := p.begin("a")
	p.owned("a", shards)
	b := p.begin("b")
	addr, named := p.owned("b", shards/2), 0
	for _, c := range p.store.ShardChanges() {
		if c.To.Owner == "" && c.To.Addr == addr {
			named++
		}
	}
	if named != shards/2 {
		t.Errorf("%d of %d moves name their next owner", named, shards/2)
	}
	p.stop(a, b)
}

// pair is two processes with peer servers that take shards from each other within seconds.
type pair struct {
	*testing.T
	store *sim.Store
	ran   chan string
}

func (p *pair) begin(name string) *process {
	return start(p.T, p.store, name, 0, p.ran, func(o *scheduler.Options) {
		var err error
		o.Engine.TTL = time.Second
		o.Members, err = member.New(member.Options{Store: o.Shards.(*sim.Session), Cell: "c", Name: name, TTL: o.Engine.TTL, Logger: o.Engine.Logger})
		if err != nil {
			p.Fatal(err)
		}
	})
}

// owned waits until a process has so many shards, and returns where it is.
func (p *pair) owned(name string, want int) (addr string) {
	p.Helper()
	for range 3000 {
		n := 0
		for i := range shards {
			if h, _ := p.store.ShardRows(store.ShardID{Queue: "q", Shard: i}); h.Owner == name {
				n, addr = n+1, h.Addr
			}
		}
		if n == want {
			return addr
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.Fatalf("%s does not have %d shards", name, want)
	return ""
}

// stop stops processes.
func (p *pair) stop(all ...*process) {
	for _, x := range all {
		x.stop()
		if err := <-x.end; err != nil {
			p.Error(err)
		}
	}
}

// TestNothingMovesToWhoHasLeft: the others see up to a third of a ttl later that a process has stopped. What
// they got from it they do not give back meanwhile: nobody would have it.
func TestNothingMovesToWhoHasLeft(t *testing.T) {
	t.Parallel()
	for late := range 3 { // how long after its last look the other one stops
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			t.Parallel()
			p := &pair{t, sim.New(), make(chan string, 1)}
			a := p.begin("a")
			p.owned("a", shards)
			b := p.begin("b")
			p.owned("b", shards/2)
			time.Sleep(2*time.Second + time.Duration(late)*time.Second/36)
			p.stop(b)
			p.owned("a", shards)
			n := len(p.store.ShardChanges())
			time.Sleep(time.Second)
			for _, c := range p.store.ShardChanges()[n:] {
				if c.To.Owner == "" {
					t.Errorf("%s is given away after the other has stopped", c.Shard)
				}
			}
			p.stop(a)
		})
	}
}
