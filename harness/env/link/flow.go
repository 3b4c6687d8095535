package link

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// flow is one direction of one connection: the sockets at both ends of a
// Toxiproxy stream, the account of its bytes, and the gate at its far end.
//
// The pipe (toxic.go) decides when bytes go, the gate whether: what the pipe has
// let go may still be in Toxiproxy's hands when the mode changes, so the writer
// asks the mode again, under mu, before each write. That, and interrupting a write
// under way, is what makes a switch complete when Apply returns.
type flow struct {
	conn     *conn
	dir      Dir
	ctl      *control
	src, dst *net.TCPConn

	queue    queue         // of the pipe
	wakePipe chan struct{} // a flush for the pipe
	wakeSink chan struct{} // a flush for the gate
	broken   chan struct{} // closed when the receiver takes no more

	mu sync.Mutex
	// Offsets in the stream and counts, in bytes.
	received, passed, dropped int64
	heldTotal, delayedTotal   int64
	heldMark                  int64      // below it, all that was held is counted
	free                      int64      // below it, a stall lets through: flushed
	freeEnd                   bool       // a stall lets the end of the stream through
	taint                     *modeState // the Drop that cost this flow bytes
	srcDone                   bool
	srcErr                    error // nil with srcDone: an orderly end
	failed, finished          bool  // the receiver failed; the writer has ended

	// The write under way, if writing.
	writing  bool
	writeEnd int64 // offset behind its last byte
	poked    bool  // the write deadline was moved to the past
	idle     chan struct{}
	// waiters are flushes that wait for bytes to be settled.
	waiters []waiter
}

type waiter struct {
	upTo int64
	end  bool // wait for the end of the stream too
	done chan struct{}
}

func newFlow(c *conn, d Dir, src, dst *net.TCPConn) *flow {
	return &flow{
		conn: c, dir: d, ctl: c.link.ctl[d], src: src, dst: dst,
		wakePipe: make(chan struct{}, 1), wakeSink: make(chan struct{}, 1), broken: make(chan struct{}),
	}
}

// source is the flow as Toxiproxy reads it.
type source flow

func (r *source) Read(b []byte) (int, error) {
	f := (*flow)(r)
	n, err := f.src.Read(b)
	f.said(b[:n])
	f.mu.Lock()
	f.received += int64(n)
	if f.ctl.load().Kind == Stall {
		f.countHeld()
	}
	if err != nil {
		f.srcDone = true
		if err != io.EOF {
			f.srcErr = err
		}
	}
	f.mu.Unlock()
	if err != nil {
		f.conn.part()
	}
	return n, err
}

// sink is the flow as Toxiproxy writes it: the gate.
type sink flow

func (w *sink) Write(b []byte) (int, error) {
	f := (*flow)(w)
	total := 0
	for len(b) > 0 {
		n, park, err := f.write(b)
		b = b[n:]
		total += n
		if err != nil {
			return total, err
		}
		if park == nil {
			continue
		}
		select {
		case <-park:
		case <-f.wakeSink:
		case <-f.conn.dead:
			return total, net.ErrClosed
		}
	}
	return total, nil
}

// write writes as much of b as the mode allows now. If that is nothing, park
// tells when to ask again.
func (f *flow) write(b []byte) (n int, park <-chan struct{}, err error) {
	f.mu.Lock()
	st := f.ctl.load()
	if f.conn.isDead() || f.taint != nil && f.taint != st {
		f.mu.Unlock()
		f.conn.cut() // not one byte may follow a gap
		return 0, nil, net.ErrClosed
	}
	switch st.Kind {
	case Drop:
		f.dropLocked(st, len(b))
		f.mu.Unlock()
		return len(b), nil, nil
	case Stall:
		b = b[:min(int64(len(b)), max(f.free-f.settled(), 0))]
	case Close:
		b = nil
	}
	if len(b) == 0 {
		f.mu.Unlock()
		return 0, st.replaced, nil
	}
	if f.poked {
		f.poked = false
		_ = f.dst.SetWriteDeadline(time.Time{})
	}
	begin, mark := f.settled(), f.heldMark
	f.writing, f.writeEnd = true, begin+int64(len(b))
	f.mu.Unlock()

	n, err = f.dst.Write(b)

	f.mu.Lock()
	defer f.mu.Unlock()
	f.writing = false
	f.passed += int64(n)
	if f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // interrupt did that
		err = nil
		if left := f.writeEnd - max(f.settled(), mark); left > 0 && f.ctl.load().Kind == Stall {
			f.heldTotal += left // countHeld passed over it as under way
			f.heldMark = max(f.heldMark, f.writeEnd)
		}
	case err != nil:
		f.failed = true
		close(f.broken)
	}
	f.settle()
	return n, nil, err
}

// Close is called once, when Toxiproxy's writer has ended.
func (w *sink) Close() error {
	f := (*flow)(w)
	f.mu.Lock()
	clean := f.srcDone && f.srcErr == nil && !f.failed && f.taint == nil &&
		f.passed == f.received && !f.conn.isDead()
	f.finished = true
	f.settle()
	f.mu.Unlock()
	// An orderly end goes on as one: the other direction may still have an answer to
	// carry. Anything else is a reset for the receiver. The sender learns of it by
	// the other direction, when that direction's mode lets it.
	if !clean || f.dst.CloseWrite() != nil {
		reset(f.dst)
	}
	if f.conn.finished.Add(1) == 2 {
		_ = f.src.Close()
		_ = f.dst.Close()
	}
	f.conn.part()
	return nil
}

// settled is how many bytes have left the flow. Callers hold mu, here and below.
func (f *flow) settled() int64 { return f.passed + f.dropped }

// over reports that no further byte will be passed or dropped.
func (f *flow) over() bool {
	return f.failed || f.finished || !f.writing && f.conn.isDead()
}

// settle lets those know who wait for bytes to leave.
func (f *flow) settle() {
	over := f.over()
	kept := f.waiters[:0]
	for _, w := range f.waiters {
		if over || f.settled() >= w.upTo && !w.end {
			close(w.done)
			continue
		}
		kept = append(kept, w)
	}
	f.waiters = kept
}

// countHeld counts the bytes inside that a stall holds and that are not counted
// yet; not those of a write under way, which may get through.
func (f *flow) countHeld() {
	from := max(f.heldMark, f.settled(), f.free)
	if f.writing {
		from = max(from, f.writeEnd)
	}
	if f.received > from {
		f.heldTotal += f.received - from
		f.heldMark = f.received
	}
}

func (f *flow) dropLocked(st *modeState, n int) {
	f.dropped += int64(n)
	f.taint = st
	f.settle()
}

// drop discards n bytes if the mode says so.
func (f *flow) drop(n int) bool {
	if f.ctl.load().Kind != Drop {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.ctl.load()
	if st.Kind != Drop || f.taint != nil && f.taint != st || f.over() {
		return false
	}
	f.dropLocked(st, n)
	return true
}

// corrupt reports whether the flow lost bytes to a Drop that is over.
func (f *flow) corrupt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taint != nil && f.taint != f.ctl.load()
}

// interrupt makes the mode in force hold for a write under way too. It returns
// nil if there is none, else a channel that is closed when the write has stopped.
func (f *flow) interrupt() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.ctl.load()
	if st.Kind == Stall {
		f.countHeld()
	}
	if !f.writing || !st.swallows() {
		return nil
	}
	f.poked = true
	_ = f.dst.SetWriteDeadline(time.Unix(1, 0))
	return f.stops()
}

// underWay returns a channel that is closed when the write under way has stopped and counts; nil
// if there is none.
func (f *flow) underWay() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.writing {
		return nil
	}
	return f.stops()
}

// stops is underWay's channel. mu is held.
func (f *flow) stops() <-chan struct{} {
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	return f.idle
}

// flush sets free what is inside now. It returns how much that is and a channel
// that is closed when it has left; nil if there is nothing.
func (f *flow) flush() (int64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over() {
		return 0, nil
	}
	n := f.received - f.settled()
	if n == 0 && !f.srcDone {
		return 0, nil
	}
	if f.ctl.load().Kind == Stall {
		f.countHeld()
	}
	f.free, f.freeEnd = f.received, f.srcDone
	w := waiter{upTo: f.received, end: f.srcDone, done: make(chan struct{})}
	f.waiters = append(f.waiters, w)
	for _, wake := range []chan struct{}{f.wakePipe, f.wakeSink} {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return n, w.done
}

// flushed reports whether a stall lets the chunk at this offset through.
func (f *flow) flushed(start int64, end bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if end {
		return f.freeEnd
	}
	return start < f.free
}

func (f *flow) countDelayed(n int) {
	f.mu.Lock()
	f.delayedTotal += int64(n)
	f.mu.Unlock()
}

// tally is the flow's account. Once its receiver is gone, what is inside will
// never arrive: it is lost.
func (f *flow) tally() DirCounters {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := DirCounters{
		ReceivedBytes: f.received, PassedBytes: f.passed, DroppedBytes: f.dropped,
		HeldTotalBytes: f.heldTotal, DelayedBytes: f.delayedTotal,
	}
	inside := f.received - f.settled()
	switch {
	case f.over():
		d.LostBytes = inside
	default:
		d.PendingBytes = inside
		if f.ctl.load().Kind == Stall {
			d.HeldBytes = max(f.received-max(f.settled(), f.free), 0)
		}
	}
	return d
}
