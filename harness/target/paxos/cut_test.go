package paxos

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/link"
)

// mesh is three nodes that accept and say nothing, with all links between them.
func mesh(t *testing.T) *link.Fabric {
	t.Helper()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	f := link.NewFabric(link.Options{})
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		upstream.Close()
		<-done
	})
	for _, from := range nodes {
		for _, to := range nodes {
			if from == to {
				continue
			}
			if _, err := f.Add(link.Spec{From: from, To: to, Listen: "127.0.0.1:0", Upstream: upstream.Addr().String()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f
}

// stalled is the set of flows "from to" of which every end is stalled.
func stalled(f *link.Fabric) map[string]bool {
	out := map[string]bool{}
	for _, from := range nodes {
		for _, to := range nodes {
			n := 0
			for _, e := range f.Flow(from, to) {
				if e.Link.Mode(e.Dir).Kind == link.Stall {
					n++
				}
			}
			if n == 2 { // what it sends and what it answers
				out[from+" "+to] = true
			}
		}
	}
	return out
}

func TestCutSwitchesFlows(t *testing.T) {
	t.Parallel()
	for _, inert := range []bool{false, true} {
		f := mesh(t)
		c := newCut(f, inert)
		for _, s := range []struct {
			what string
			do   func(context.Context) error
			want []string
		}{
			{"hold", c.hold, []string{"n2 n1", "n3 n1"}},
			{"deliver", c.deliver, []string{"n2 n1", "n3 n1"}},
			{"isolate", c.isolate, []string{"n1 n2", "n1 n3"}},
			{"heal", c.heal, nil},
		} {
			if err := s.do(t.Context()); err != nil {
				t.Fatalf("%s: %v", s.what, err)
			}
			want := map[string]bool{}
			if !inert {
				for _, w := range s.want {
					want[w] = true
				}
			}
			got := stalled(f)
			if len(got) != len(want) {
				t.Errorf("inert %v, %s: %v is stalled, want %v", inert, s.what, got, want)
			}
			for w := range want {
				if !got[w] {
					t.Errorf("inert %v, %s: %s is not stalled", inert, s.what, w)
				}
			}
		}
	}
}

func TestAwaitHeld(t *testing.T) {
	t.Parallel()
	f := mesh(t)
	c := newCut(f, false)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.hold(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	close(ended)
	if err := c.awaitHeld(ctx, ended); !errors.Is(err, errNothingHeld) {
		t.Errorf("nothing is held and the write has ended: %v, want %v", err, errNothingHeld)
	}
	over, stop := context.WithCancel(ctx)
	stop()
	if err := c.awaitHeld(over, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	l, _ := f.Get("n2->n1")
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("promise")); err != nil {
		t.Fatal(err)
	}
	if err := c.awaitHeld(ctx, nil); err != nil {
		t.Errorf("bytes are held: %v", err)
	}
	if err := c.heal(ctx); err != nil {
		t.Fatal(err)
	}
	if n := c.inside(c.in); n != 0 {
		t.Errorf("%d bytes are still under way after healing", n)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
