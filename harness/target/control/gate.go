package control

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// GoTimeout bounds how long a client stands at a point without a go, by the time in which
// its process runs. The runner answers in milliseconds; a missing answer means that it is
// gone, or that the fault cannot be put in force: that run is worth nothing.
const GoTimeout = 30 * time.Second

// Gate is the worker's side of armed points.
type Gate struct {
	send  func(Message) error
	armed atomic.Int32 // fast path: number of armed points
	mu    sync.Mutex
	by    map[Point][]arming
	wait  map[int]chan Message
	limit time.Duration // GoTimeout, or less in tests
}

// arming is a point that is armed for one hit, at one key only if there is one.
type arming struct {
	id  int
	key string
}

// NewGate reports hits through send.
func NewGate(send func(Message) error) *Gate {
	return &Gate{send: send, by: map[Point][]arming{}, wait: map[int]chan Message{}, limit: GoTimeout}
}

// Arm arms a point for the first client that reaches it at a lock or resource; key "": at any.
func (g *Gate) Arm(id int, p Point, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.by[p] = append(g.by[p], arming{id, key})
	g.armed.Add(1)
}

// Disarm takes back what has not been hit.
func (g *Gate) Disarm(id int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, all := range g.by {
		if i := slices.IndexFunc(all, func(a arming) bool { return a.id == id }); i >= 0 {
			g.take(p, i)
			return
		}
	}
}

// take removes an arming; g.mu is held.
func (g *Gate) take(p Point, i int) {
	all := g.by[p]
	g.by[p] = append(all[:i:i], all[i+1:]...)
	g.armed.Add(-1)
}

// Go lets the client that hit id go on.
func (g *Gate) Go(m Message) {
	g.mu.Lock()
	ch := g.wait[m.ID]
	delete(g.wait, m.ID)
	g.mu.Unlock()
	if ch != nil {
		ch <- m // buffered, one message an id
	}
}

// Reach is called by a client at a point. If the point is armed it reports the
// hit and waits for go, whose Hold it returns; hit is false if it was not armed. A client
// that waited in vain says so.
func (g *Gate) Reach(ctx context.Context, p Point, proc, key string) (hold time.Duration, hit bool) {
	if g == nil || g.armed.Load() == 0 {
		return 0, false
	}
	g.mu.Lock()
	i := slices.IndexFunc(g.by[p], func(a arming) bool { return a.key == "" || a.key == key })
	if i < 0 {
		g.mu.Unlock()
		return 0, false
	}
	id := g.by[p][i].id
	g.take(p, i)
	ch := make(chan Message, 1)
	g.wait[id] = ch
	g.mu.Unlock()
	at := Message{Cmd: CmdHit, ID: id, Point: p, Proc: proc, Key: key}
	if g.send(at) != nil {
		return 0, false
	}
	// A process that is stopped here finds its go when it runs again, and a ticker that
	// missed many ticks meanwhile has one.
	const parts = 20
	tick := time.NewTicker(g.limit / parts)
	defer tick.Stop()
	for range parts {
		select {
		case m := <-ch:
			return m.Hold, true
		case <-ctx.Done():
			return 0, true
		case <-tick.C:
		}
	}
	at.Cmd = CmdLate
	_ = g.send(at) // who does not hear it is gone
	return 0, true
}
