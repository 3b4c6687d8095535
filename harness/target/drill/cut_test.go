package drill

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/store"
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

func timeout() result {
	return result{err: &store.Error{Op: "cas", Outcome: store.Unknown, ServerTimeout: true, Cause: errors.New("received only 1 responses\nagain")}}
}

func TestArmed(t *testing.T) {
	t.Parallel()
	promised := paxosState{promised: "b2"}
	only := states{victim: {promised: "b2", accepted: "b2"}, witness: promised, third: promised}
	done := paxosState{promised: "b1", commit: "b1"}
	second := states{
		victim:  {promised: "b2", accepted: "b2", commit: "b1"},
		witness: {promised: "b2", commit: "b1"}, third: {promised: "b2", commit: "b1"},
	}
	with := func(s states, name string, p paxosState) states {
		out := states{}
		for n, v := range s {
			out[n] = v
		}
		out[name] = p
		return out
	}
	for name, c := range map[string]struct {
		before, now states
		res         result
		want        string // "" if armed
	}{
		"a first write":         {nil, only, timeout(), ""},
		"a second write":        {states{victim: done, witness: done, third: done}, second, timeout(), ""},
		"applied":               {nil, only, result{applied: true}, "was answered: applied"},
		"rejected":              {nil, only, result{row: &store.Version{Fence: 7}}, "was answered: rejected"},
		"the client's timeout":  {nil, only, result{err: &store.Error{Cause: errors.New("deadline")}}, "not ended by its coordinator"},
		"refused":               {nil, only, result{err: &store.Error{Outcome: store.Fail, Cause: errors.New("unavailable")}}, "not ended by its coordinator"},
		"nothing accepted":      {nil, states{victim: promised, witness: promised, third: promised}, timeout(), "n1 has accepted no proposal"},
		"an old proposal":       {states{victim: {accepted: "b2"}}, only, timeout(), "n1 has accepted no proposal"},
		"accepted by n2 too":    {nil, with(only, witness, paxosState{accepted: "b2"}), timeout(), "n2 has accepted"},
		"accepted by n3 too":    {nil, with(only, third, paxosState{accepted: "b2"}), timeout(), "n3 has accepted"},
		"committed at n3 later": {nil, with(only, third, paxosState{commit: "b2"}), timeout(), "n3 has accepted or committed"},
		"nothing known":         {nil, states{}, timeout(), "n1 has accepted no proposal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			armed, text := c.now.armed(c.before, c.res)
			if armed != (c.want == "") || !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
				t.Errorf("armed %v, %q; want %q", armed, text, c.want)
			}
		})
	}
}

func TestPromisedSince(t *testing.T) {
	t.Parallel()
	p := func(a, b, c string) states {
		return states{victim: {promised: a}, witness: {promised: b}, third: {promised: c}}
	}
	for name, c := range map[string]struct {
		before, now states
		want        bool
	}{
		"both":                 {nil, p("", "b1", "b1"), true},
		"both, again":          {p("b1", "b1", "b1"), p("b1", "b2", "b2"), true},
		"one only":             {nil, p("b1", "b1", ""), false},
		"the victim only":      {nil, p("b1", "", ""), false},
		"an old promise alone": {p("b1", "b1", "b1"), p("b2", "b2", "b1"), false},
		"none":                 {nil, states{}, false},
	} {
		if got := c.now.promisedSince(c.before); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCommitted(t *testing.T) {
	t.Parallel()
	done := paxosState{promised: "b1", commit: "b1"}
	for name, c := range map[string]struct {
		s    states
		want bool
	}{
		"everywhere":       {states{victim: done, witness: done, third: done}, true},
		"not at n3":        {states{victim: done, witness: done, third: {promised: "b1", accepted: "b1"}}, false},
		"an older at n1":   {states{victim: {commit: "b0"}, witness: done, third: done}, false},
		"nowhere":          {states{victim: {}, witness: {}, third: {}}, false},
		"one under way":    {states{victim: done, witness: done, third: {commit: "b1", accepted: "b2"}}, false},
		"nothing is known": {states{}, false},
	} {
		if got := c.s.committed(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
