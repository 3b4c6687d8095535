//go:build integration

package lock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/cassandra/cassandratest"
)

// Several processes: the test binary starts itself with childEnv set and speaks
// JSON Lines with it over its standard input and output.

const childEnv = "FENCEPOST_LOCK_TEST_CHILD"

type childConfig struct {
	Keyspace       string
	Process        int
	Clients        int
	TTL            time.Duration
	NoSingleFlight bool
}

// order is what a child is told to do.
type order struct {
	Round    int           // a crowd round: every client tries once
	Release  bool          // and then: release what was won
	Contend  time.Duration // or: acquire, hold, release, in a loop for this long
	Hold     time.Duration
	Resource string
}

// report is what a child did.
type report struct {
	Ready     bool
	Winners   []int64 // tokens
	Unsettled int
	Errors    []string
	Outcomes  map[string]int  // of conditional requests
	Cycles    []int           // by client
	Waits     []time.Duration // each acquire
	Grants    []grantTime
}

// grantTime is an interval in which a client was entitled, on the host's clock.
type grantTime struct {
	Token    int64
	From, To int64
}

func init() {
	child = func() (bool, int) {
		s := os.Getenv(childEnv)
		if s == "" {
			return false, 0
		}
		if err := runChild(s); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			return true, 1
		}
		return true, 0
	}
	cleanup = func(code int) int {
		if err := cassandratest.DropKeyspace(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
		return code
	}
}

func runChild(config string) error {
	var cfg childConfig
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	db, err := openChild(cfg.Keyspace)
	if err != nil {
		return err
	}
	defer db.Close()
	counter := &outcomes{n: map[string]int{}}
	c, err := lock.New(cassandra.NewLocks(db), lock.Options{TTL: cfg.TTL, NoSingleFlight: cfg.NoSingleFlight, Observer: counter})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	in := json.NewDecoder(os.Stdin)
	if err := out.Encode(report{Ready: true}); err != nil {
		return err
	}
	p := &childProcess{cfg: cfg, client: c}
	for {
		var o order
		if err := in.Decode(&o); err == io.EOF {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return c.Close(ctx)
		} else if err != nil {
			return err
		}
		var r report
		switch {
		case o.Release:
			r = p.release()
		case o.Contend > 0:
			r = p.contend(o)
		default:
			r = p.crowd(o)
		}
		r.Outcomes = counter.take()
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

func openChild(keyspace string) (*cassandra.DB, error) {
	cfg, err := cassandratest.FromEnv()
	if err != nil {
		return nil, err
	}
	cfg.Keyspace = keyspace
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return cassandra.Open(ctx, cfg)
}

type outcomes struct {
	mu sync.Mutex
	n  map[string]int
}

func (o *outcomes) Begin(op lock.Op) lock.Span             { return &outcomeSpan{o, op, 0} }
func (o *outcomes) LeaseLost(string, string, int64, error) { o.add("lost") }
func (o *outcomes) add(what string)                        { o.mu.Lock(); o.n[what]++; o.mu.Unlock() }
func (o *outcomes) take() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.n
	o.n = map[string]int{}
	return n
}

type outcomeSpan struct {
	o  *outcomes
	op lock.Op
	n  int
}

func (s *outcomeSpan) Sending(n int) { s.n = n }
func (s *outcomeSpan) End(r lock.Result) {
	s.o.add(s.op.Kind.String() + "-" + r.Outcome.String())
	if s.n > 0 {
		s.o.add("resends")
	}
}

type childProcess struct {
	cfg    childConfig
	client *lock.Client
	mu     sync.Mutex
	won    []*lock.Lease
}

// crowd lets every client try once, at the same time.
func (p *childProcess) crowd(o order) (r report) {
	var wg sync.WaitGroup
	for i := range p.cfg.Clients {
		wg.Go(func() {
			l, err := p.client.TryAcquire(context.Background(), lock.Request{
				Resource: o.Resource, Holder: fmt.Sprintf("p%d/c%d", p.cfg.Process, i), Timeout: 2 * p.cfg.TTL})
			p.mu.Lock()
			defer p.mu.Unlock()
			if err == nil {
				p.won = append(p.won, l)
				r.Winners = append(r.Winners, l.Token())
				return
			}
			if !isHeld(err, &r) {
				r.Errors = append(r.Errors, err.Error())
			}
		})
	}
	wg.Wait()
	return r
}

func (p *childProcess) release() (r report) {
	for _, l := range p.won {
		if err := l.Release(context.Background()); err != nil {
			r.Errors = append(r.Errors, err.Error())
		}
	}
	p.won = nil
	return r
}

// contend runs acquire, hold, release in a loop on every client.
func (p *childProcess) contend(o order) (r report) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Contend)
	defer cancel()
	r.Cycles = make([]int, p.cfg.Clients)
	var wg sync.WaitGroup
	for i := range p.cfg.Clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				l, err := p.client.Acquire(ctx, lock.Request{Resource: o.Resource, Holder: fmt.Sprintf("p%d/c%d", p.cfg.Process, i)})
				if err != nil {
					continue
				}
				wait := time.Since(start)
				g := grantTime{Token: l.Token(), From: hostNow()}
				time.Sleep(o.Hold)
				g.To = hostNow()
				err = l.Release(context.Background())
				p.mu.Lock()
				r.Cycles[i]++
				r.Waits = append(r.Waits, wait)
				r.Grants = append(r.Grants, g)
				if err != nil {
					r.Errors = append(r.Errors, err.Error())
				}
				p.mu.Unlock()
			}
		})
	}
	wg.Wait()
	return r
}

// processes are started children.
type processes struct {
	t   *testing.T
	in  []*json.Encoder
	out []*json.Decoder
}

func startProcesses(t *testing.T, n int, cfg childConfig) *processes {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ps := &processes{t: t}
	for i := range n {
		cfg.Process = i
		b, _ := json.Marshal(cfg)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childEnv+"="+string(b))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
		ps.in = append(ps.in, json.NewEncoder(in))
		ps.out = append(ps.out, json.NewDecoder(bufio.NewReader(out)))
	}
	for i, r := range ps.reports() {
		if !r.Ready {
			t.Fatalf("process %d: %+v", i, r)
		}
	}
	return ps
}

func (ps *processes) do(o order) []report {
	ps.t.Helper()
	for i, in := range ps.in {
		if err := in.Encode(o); err != nil {
			ps.t.Fatalf("process %d: %v", i, err)
		}
	}
	return ps.reports()
}

func (ps *processes) reports() []report {
	ps.t.Helper()
	out := make([]report, len(ps.out))
	for i, dec := range ps.out {
		if err := dec.Decode(&out[i]); err != nil {
			ps.t.Fatalf("process %d: %v", i, err)
		}
		for _, e := range out[i].Errors {
			ps.t.Errorf("process %d: %s", i, e)
		}
	}
	return out
}

var _ store.Locks = (*cassandra.Locks)(nil)
