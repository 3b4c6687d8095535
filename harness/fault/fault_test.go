package fault

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"fencepost/harness/link"
)

func TestNewRefusesBadSpecs(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Spec{
		`unknown fault "meteor"`:               {Fault: "meteor", Targets: []string{"n1"}},
		"has no targets":                       {Fault: "partition"},
		`target "w1" is not a node`:            {Fault: "partition", Targets: []string{"w1"}},
		`target "n" is not a node`:             {Fault: "partition", Targets: []string{"n"}},
		`target "n1" is not a worker`:          {Fault: "kill-worker", Targets: []string{"n1"}},
		`target "random-node" is not a worker`: {Fault: "kill-worker", Targets: []string{RandomNode}},
		`target "coordinator" is not a worker`: {Fault: "pause-worker", Targets: []string{Coordinator}},
		`unknown mode "melt"`:                  {Fault: "partition", Targets: []string{"n1"}, Mode: "melt"},
		"fault latency has no mode":            {Fault: "latency", Targets: []string{"w1"}, Latency: time.Second, Mode: "drop"},
		"latency is missing":                   {Fault: "latency", Targets: []string{"w1"}},
		"jitter 2s is not between":             {Fault: "slow-node", Targets: []string{"n1"}, Latency: time.Second, Jitter: 2 * time.Second},
		`unknown sense "up"`:                   {Fault: "partition-oneway", Targets: []string{"n1"}, Sense: "up"},
		"fault partition has no sense":         {Fault: "partition", Targets: []string{"n1"}, Sense: "in"},
		"offset or rate_ppm is missing":        {Fault: "clock", Targets: []string{"w1"}},
		"rate_ppm 2000000 is not within":       {Fault: "clock", Targets: []string{"w1"}, RatePPM: 2_000_000},
		"fault suspend has no offset":          {Fault: "suspend", Targets: []string{"w1"}, Offset: time.Second},
		`the only one is sink`:                 {Fault: "kill-sink", Targets: []string{"w1"}},
		"fault kill-node has no mode":          {Fault: "kill-node", Targets: []string{"n1"}, Mode: "drop"},
	} {
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", s, err, want)
		}
	}
	for _, name := range Names() {
		if About(name) == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

type realLinks struct{}

func (realLinks) Set(ctx context.Context, ends []link.End, m link.Mode) error {
	return link.SetEnds(ctx, ends, m)
}

type inertLinks struct{}

func (inertLinks) Set(context.Context, []link.End, link.Mode) error { return nil }

// echoLink is a link to an echo server, with a connection through it.
func echoLink(t *testing.T) (*link.Link, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // ends with the connection
				c.Close()
			}()
		}
	}()
	f := link.NewFabric(link.Options{})
	t.Cleanup(func() { f.Close() })
	l, err := f.Add(link.Spec{From: "w1", To: "n1", Listen: "127.0.0.1:0", Upstream: ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	roundTrip(t, conn)
	// An echo can be here before the write that carried its request has returned,
	// which is when the request counts.
	await(t, l, "at rest", func(n link.Counters) bool { return n.Up.PassedBytes == 4 && n.Down.PassedBytes == 4 })
	return l, conn
}

func roundTrip(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
}

// await waits for a condition on the link's counters.
func await(t *testing.T, l *link.Link, what string, cond func(link.Counters) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(l.Counters()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not %s: %+v", what, l.Counters())
		}
	}
}

// A cut proves itself by bytes that did not pass; without such bytes, or with
// bytes that did, it does not.
func TestCutMustProveItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		links  Links
		kind   link.Kind
		send   bool
		proven bool
		text   string
	}{
		"stall":           {realLinks{}, link.Stall, true, true, "passed 0 bytes"},
		"drop":            {realLinks{}, link.Drop, true, true, "passed 0 bytes"},
		"nothing tried":   {realLinks{}, link.Stall, false, false, "nothing shows that the cut was in force"},
		"never in force":  {inertLinks{}, link.Stall, true, false, "the cut leaks: w1->n1"},
		"inert and quiet": {inertLinks{}, link.Stall, false, false, "nothing shows that the cut was in force"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, conn := echoLink(t)
			cut, err := newSwitched(t.Context(), &Env{Links: c.links}, link.Ends([]*link.Link{l}), link.Mode{Kind: c.kind})
			if err != nil {
				t.Fatal(err)
			}
			if c.send {
				before := l.Counters().Up.ReceivedBytes
				if _, err := conn.Write([]byte("ping")); err != nil {
					t.Fatal(err)
				}
				await(t, l, "decided about 4 bytes", func(n link.Counters) bool {
					u := n.Up
					return u.ReceivedBytes == before+4 && u.PassedBytes+u.DroppedBytes+u.HeldBytes == u.ReceivedBytes
				})
			}
			if ev := cut.stopped(); ev.Proven != c.proven || !strings.Contains(ev.Text, c.text) {
				t.Errorf("got %+v, want proven %t with %q", ev, c.proven, c.text)
			}
			if err := cut.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, d := range link.Dirs {
				if m := l.Mode(d); m.Kind != link.Pass {
					t.Errorf("healed, but %s is %s", d, m)
				}
			}
		})
	}
}

// Lost replies need requests that passed as well as answers that did not.
func TestLostRepliesMustProveBoth(t *testing.T) {
	t.Parallel()
	l, conn := echoLink(t)
	c, err := newSwitched(t.Context(), &Env{Links: realLinks{}}, link.Ends([]*link.Link{l}, link.Down), link.Mode{Kind: link.Drop})
	if err != nil {
		t.Fatal(err)
	}
	a := repliesLost(c)
	if ev := a.Probe(t.Context()); ev.Proven {
		t.Errorf("proven without a request: %+v", ev)
	}
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	await(t, l, "dropped", func(n link.Counters) bool { return n.Down.DroppedBytes == 4 })
	if ev := a.Probe(t.Context()); !ev.Proven || !strings.Contains(ev.Text, "4 bytes of requests went through") {
		t.Errorf("got %+v", ev)
	}
}

// Two faults on one end of a link would heal each other.
func TestLinksAreUnderOneFault(t *testing.T) {
	t.Parallel()
	l, _ := echoLink(t)
	env := &Env{Links: realLinks{}}
	a, err := newSwitched(t.Context(), env, link.Ends([]*link.Link{l}, link.Up), link.Mode{Kind: link.Stall})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newSwitched(t.Context(), env, link.Ends([]*link.Link{l}), link.Mode{Kind: link.Drop}); err == nil || !strings.Contains(err.Error(), "w1->n1 (up) is under another fault already") {
		t.Errorf("the second fault: %v", err)
	}
	b, err := newSwitched(t.Context(), env, link.Ends([]*link.Link{l}, link.Down), link.Mode{Kind: link.Stall})
	if err != nil {
		t.Errorf("the other direction: %v", err)
	}
	for _, s := range []*switched{a, b} {
		if err := s.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newSwitched(t.Context(), env, link.Ends([]*link.Link{l}), link.Mode{Kind: link.Pass}); err != nil {
		t.Errorf("after healing: %v", err)
	}
}
