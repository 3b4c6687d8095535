package fault

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/target/fleet"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
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
