package fault

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/workload"
)

// TestMain is a worker if it is started as one: a process with a worker's clocks. Or it is
// a service that answers anything, or a program of a user's own.
func TestMain(m *testing.M) {
	osproc.Init()
	if os.Getenv("FENCEPOST_TASK") != "" {
		os.Exit(busyProgram())
	}
	if env := os.Getenv(workload.ConfigEnv); env != "" {
		os.Exit(testWorker(env))
	}
	if addr := os.Getenv(serviceEnv); addr != "" {
		os.Exit(testService(addr))
	}
	rowsPatience = 200 * time.Millisecond // what tests wait for is there at once or never
	goleak.VerifyTestMain(m)
}

// serviceEnv holds the address of a test binary that is a service.
const serviceEnv = "FENCEPOST_TEST_SERVICE"

func testService(addr string) int {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return 2
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			return 3
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c) // ends with the connection
		}()
	}
}

// deaf is a worker whose clocks stay as they are, whatever it is told.
const deaf = "deaf"

func testWorker(env string) int {
	cfg, err := workload.ParseConfig(env)
	if err != nil {
		return 2
	}
	conn, err := control.Inherited()
	if err != nil {
		return 3
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		os.Exit(0)
	}()
	clk := workload.NewClock(clock.System())
	ticks := workload.NewMetronome(clk, conn.Send)
	_ = conn.Send(control.Message{Cmd: control.CmdReady})
	loads := make(chan control.Load)
	go enqueue(conn, loads)
	for {
		m, err := conn.Receive()
		if err != nil {
			return 4
		}
		switch m.Cmd {
		case control.CmdClock:
			if m.Clock != nil && cfg.Variant != deaf {
				clk.Set(*m.Clock)
			}
			_ = conn.Send(control.Message{Cmd: control.CmdClock, Reading: &control.Reading{At: history.Now(), Lease: clk.Now(), Awake: clk.Awake()}})
		case control.CmdTick:
			ticks.Set(m.Every)
		case control.CmdLoad:
			if cfg.Variant == deaf {
				m.Load = &control.Load{}
			}
			loads <- *m.Load
		}
	}
}

// enqueue tells what a worker does that enqueues what it is told to: jobs come at the rate, or
// 100 a second with a closed loop, and end. It counts by the clock, as real ones do: a late
// timer loses none.
func enqueue(conn *control.Conn, loads <-chan control.Load) {
	var s control.Stats
	now, due := control.Load{}, 0.0
	for last := time.Now(); ; {
		next := now
		select {
		case next = <-loads:
		case <-time.After(50 * time.Millisecond):
		}
		rate := now.Rate
		if now.Open > 0 {
			rate = 100
		}
		at := time.Now()
		due += rate * at.Sub(last).Seconds()
		last, now = at, next
		s.Came, s.Cycles, s.Enqueuing = int64(due), int64(due), int64(now.Open)
		_ = conn.Send(control.Message{Cmd: control.CmdStats, Stats: &s})
	}
}

// wire is a worker's link to a service that sends back what it is sent, with a connection
// of the worker's through it.
type wire struct {
	*link.Link
	conn net.Conn
}

// echo serves until the test ends; stop ends it before.
func echo(t *testing.T) (addr string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				_, _ = io.Copy(c, c) // ends with the connection
				c.Close()
			})
		}
	})
	stop = sync.OnceFunc(func() {
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

// wires are links of so many workers to one service, and the Env that they are in.
func wires(t *testing.T, n int) (*Env, []*wire) {
	t.Helper()
	addr, _ := echo(t)
	f := link.NewFabric(link.Options{})
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	env := (&Env{Cluster: noNodes{}, WorkerLinks: f, SinkGreeting: []byte("hello")}).Ready()
	var out []*wire
	for i := range n {
		l, err := f.Add(link.Spec{From: "w" + string(rune('1'+i)), To: fleet.SinkHost, Purpose: fleet.SinkPurpose, Listen: "127.0.0.1:0", Upstream: addr})
		must(t, err)
		conn, err := net.Dial("tcp", l.Addr())
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		w := &wire{l, conn}
		w.send(t)
		if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		// An echo can be here before the write that carried its request has returned,
		// which is when the request counts.
		w.await(t, "at rest", func(n link.Counters) bool { return n.Up.PassedBytes == 4 && n.Down.PassedBytes == 4 })
		out = append(out, w)
	}
	return env, out
}

// send has the worker say something.
func (w *wire) send(t *testing.T) {
	t.Helper()
	if _, err := w.conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
}

// decided waits until the link has decided about what the worker said twice.
func (w *wire) decided(t *testing.T) {
	t.Helper()
	const greeted = 5
	w.await(t, "decided", func(n link.Counters) bool {
		u := n.Up
		return u.ReceivedBytes == 8+greeted && u.PassedBytes+u.DroppedBytes+u.HeldBytes == u.ReceivedBytes
	})
}

// await waits for a condition on the link's counters.
func (w *wire) await(t *testing.T, what string, cond func(link.Counters) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(w.Counters()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not %s: %+v", what, w.Counters())
		}
	}
}

func ends(all []*wire, dirs ...link.Dir) []link.End {
	var links []*link.Link
	for _, w := range all {
		links = append(links, w.Link)
	}
	return link.Ends(links, dirs...)
}

func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// shows asks for what evidence says.
func shows(t *testing.T, ev Evidence, proven bool, text string) {
	t.Helper()
	if ev.Proven != proven || !strings.Contains(ev.Text, text) {
		t.Errorf("got %+v, want proven %t with %q", ev, proven, text)
	}
}

func heal(t *testing.T, a Active) {
	t.Helper()
	must(t, a.Heal(t.Context()))
}

// proofs are what must be said of a fault while it is in force, and once it is healed. The
// second is asked for only of faults that have one.
type proofs struct {
	proven bool
	probe  string // part of the text
	healed bool
	after  string
}

// mustProve injects a fault that lasts so long, and compares what it shows with want.
func mustProve(t *testing.T, env *Env, s Spec, lasts time.Duration, want proofs) {
	t.Helper()
	mustProveAfter(t, env, s, func() { time.Sleep(lasts) }, want)
}

func mustProveAfter(t *testing.T, env *Env, s Spec, lasts func(), want proofs) {
	t.Helper()
	f, err := New(s)
	must(t, err)
	a, err := f.Inject(t.Context(), env.For(s.Fault, nil), s.Targets)
	must(t, err)
	lasts() // the fault's own duration
	shows(t, a.Probe(t.Context()), want.proven, want.probe)
	heal(t, a)
	if after, ok := a.(Aftermath); ok {
		shows(t, after.After(t.Context()), want.healed, want.after)
	} else if want.after != "" {
		t.Errorf("it has no second proof")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
