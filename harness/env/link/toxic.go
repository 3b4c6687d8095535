package link

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// toxicType is the name under which Toxiproxy knows the toxic.
const toxicType = "fencepost_mode"

var registerToxic = sync.OnceFunc(func() { toxics.Register(toxicType, new(modeToxic)) })

// modeToxic is the only toxic of a proxy's chain, one for each direction. It is
// installed before the first connection and never removed: Toxiproxy edits chains
// under a lock while it waits for each stream to be interrupted, and a stream that
// is blocked on its receiver never answers.
type modeToxic struct {
	// next is the stream being started; see Link.starting.
	next *flow
}

var _ toxics.StatefulToxic = (*modeToxic)(nil)

// NewState hands a starting stream its state.
func (t *modeToxic) NewState() any { return t.next }

// Pipe carries one direction of one connection.
func (t *modeToxic) Pipe(stub *toxics.ToxicStub) { stub.State.(*flow).pipe(stub) }

func installToxics(l *Link) error {
	registerToxic()
	for d, name := range [...]string{Up: "upstream", Down: "downstream"} {
		w, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type":%q,"stream":%q}`, toxicType, name)))
		if err != nil {
			return fmt.Errorf("install the toxic of the %s stream: %w", name, err)
		}
		t, ok := w.Toxic.(*modeToxic)
		if !ok {
			return fmt.Errorf("install the toxic of the %s stream: Toxiproxy made a %T", name, w.Toxic)
		}
		l.toxics[d] = t
	}
	return nil
}

// start hands the connection's two directions to Toxiproxy.
func (l *Link) start(c *conn) {
	l.starting.Lock()
	defer l.starting.Unlock()
	for d, dir := range [...]stream.Direction{Up: stream.Upstream, Down: stream.Downstream} {
		f := c.flows[d]
		l.toxics[d].next = f
		l.proxy.Toxics.StartLink(l.fab.server, fmt.Sprintf("%d/%s", c.id, Dir(d)), (*source)(f), (*sink)(f), dir)
		l.toxics[d].next = nil
	}
}

// pipe moves chunks from Toxiproxy's input to its output as the mode says. The
// queue is the flow's own, so that an interrupted pipe continues where it was.
func (f *flow) pipe(stub *toxics.ToxicStub) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		st := f.ctl.load()
		if f.queue.state != st {
			f.enter(st)
		}
		ready, due := f.ready(st)
		if ready && f.queue.head().data == nil { // the end of the stream
			stub.Close()
			f.conn.part()
			return
		}
		var out chan<- *stream.StreamChunk
		var head *stream.StreamChunk
		var ring <-chan time.Time
		switch {
		case ready:
			out, head = stub.Output, f.queue.head().data
		case due > 0:
			timer.Reset(due)
			ring = timer.C
		}
		in := stub.Input
		if f.queue.ended || f.queue.weight >= f.conn.link.fab.opt.MaxHeld {
			in = nil
		}
		select {
		case c, ok := <-in:
			if !ok {
				c = nil
			}
			f.take(c)
		case out <- head:
			f.queue.pop()
		case <-ring:
		case <-st.replaced:
		case <-f.wakePipe:
		case <-f.broken:
			f.discard(stub)
			return
		case <-f.conn.dead:
			f.discard(stub)
			return
		case <-stub.Interrupt:
			return
		}
		if ring != nil {
			timer.Stop()
		}
	}
}

// take accounts for a chunk that came in; nil is the end of the stream.
func (f *flow) take(c *stream.StreamChunk) {
	if c == nil {
		f.queue.ended = true
		f.queue.push(f.delayed(f.queue.state, &chunk{start: f.queue.taken}, time.Now()))
		return
	}
	n := len(c.Data)
	k := &chunk{data: c, start: f.queue.taken}
	f.queue.taken += int64(n)
	if f.drop(n) {
		return
	}
	f.queue.push(f.delayed(f.queue.state, k, c.Timestamp))
}

// enter adapts what is queued to a mode just seen.
func (f *flow) enter(st *modeState) {
	f.queue.state = st
	f.queue.rand = nil
	switch st.Kind {
	case Drop:
		f.queue.keep(func(k *chunk) bool { return k.data == nil || !f.drop(len(k.data.Data)) })
	case Latency:
		// What waited starts its way now, unless it is due sooner already.
		now := time.Now()
		for _, k := range f.queue.chunks {
			if due := k.due; due.IsZero() {
				f.delayed(st, k, now)
			} else if f.delayed(st, k, now); due.Before(k.due) {
				k.due = due
			}
		}
	}
}

// delayed sets when the chunk is due, in latency mode.
func (f *flow) delayed(st *modeState, k *chunk, from time.Time) *chunk {
	if st.Kind != Latency {
		return k
	}
	if f.queue.rand == nil {
		f.queue.rand = rand.New(rand.NewPCG(f.conn.link.seed^st.Seed, f.conn.id<<1|uint64(f.dir)))
	}
	d := st.Latency
	if st.Jitter > 0 {
		d += time.Duration(f.queue.rand.Int64N(2*int64(st.Jitter)+1)) - st.Jitter
	}
	k.due = from.Add(max(d, 0))
	if !k.counted && k.data != nil {
		k.counted = true
		f.countDelayed(len(k.data.Data))
	}
	return k
}

// ready reports whether the head may go now, else in how long (0: not by time).
func (f *flow) ready(st *modeState) (bool, time.Duration) {
	k := f.queue.head()
	if k == nil {
		return false, 0
	}
	switch st.Kind {
	case Pass:
		return true, 0
	case Latency:
		// Only the head is asked: a chunk that jitter would let overtake waits for those
		// before it and then goes at once.
		d := time.Until(k.due)
		return d <= 0, max(d, 0)
	case Stall:
		return f.flushed(k.start, k.data == nil), 0
	}
	return false, 0
}

// discard swallows what still comes until Toxiproxy's reader ends, which the
// closed socket makes it do. The bytes count as lost.
func (f *flow) discard(stub *toxics.ToxicStub) {
	f.queue.clear()
	for {
		select {
		case c, ok := <-stub.Input:
			if ok && c != nil {
				continue
			}
			stub.Close()
			f.conn.part()
			return
		case <-stub.Interrupt:
			return
		}
	}
}

// chunkOverhead is what a chunk costs beside its bytes, roughly, so that many
// tiny chunks cannot take memory without limit.
const chunkOverhead = 128

// chunk is a piece of a stream as it was read; data is nil for the stream's end.
type chunk struct {
	data    *stream.StreamChunk
	start   int64 // offset of its first byte in the stream
	due     time.Time
	counted bool // as delayed
}

func (k *chunk) weight() int {
	if k.data == nil {
		return chunkOverhead
	}
	return len(k.data.Data) + chunkOverhead
}

// queue is what a pipe keeps between its input and output. Only the pipe's
// goroutine touches it.
type queue struct {
	chunks []*chunk
	weight int
	taken  int64 // bytes taken from the input so far
	ended  bool  // the input is at its end
	state  *modeState
	rand   *rand.Rand
}

func (q *queue) head() *chunk {
	if len(q.chunks) == 0 {
		return nil
	}
	return q.chunks[0]
}

func (q *queue) push(k *chunk) {
	q.chunks = append(q.chunks, k)
	q.weight += k.weight()
}

func (q *queue) pop() {
	q.weight -= q.chunks[0].weight()
	q.chunks[0] = nil
	q.chunks = q.chunks[1:] // append moves to a new array once this one is used up
	if len(q.chunks) == 0 {
		q.chunks = nil
	}
}

func (q *queue) keep(ok func(*chunk) bool) {
	old := q.chunks
	q.clear()
	for _, k := range old {
		if ok(k) {
			q.push(k)
		}
	}
}

func (q *queue) clear() { q.chunks, q.weight = nil, 0 }
