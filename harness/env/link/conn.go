package link

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one proxied connection.
type conn struct {
	link           *Link
	id             uint64 // counts the link's connections from 0, in order of acceptance
	probe          bool   // of a Probe: not counted
	client, server *net.TCPConn
	flows          [2]*flow
	tap            Stream // nil: nobody reads along

	dead     chan struct{} // closed when the link cuts the connection
	gone     chan struct{} // closed when nothing of it is left
	deadOnce sync.Once
	undial   context.CancelFunc

	// parts are the six ends that must come before the connection is gone: of each
	// flow the reader, the pipe and the writer.
	parts    atomic.Int32
	finished atomic.Int32 // flows whose writer has ended
}

// serve gives an accepted client its upstream. Toxiproxy's own accept loop is
// not used: it dials in the loop without a timeout, so that one unreachable
// upstream stops the link for every client, and it keeps the sockets to itself, so
// that neither a reset nor a half-close could be passed on.
func (l *Link) serve(client *net.TCPConn) {
	defer l.wg.Done()
	ctx, cancel := context.WithTimeout(l.ctx, l.fab.opt.DialTimeout)
	defer cancel()
	c := l.arrive(client, cancel)
	if c == nil {
		reset(client)
		return
	}
	up, err := l.dial(ctx)
	if !l.open(c, up, err) {
		reset(client)
		if err == nil {
			reset(up.(*net.TCPConn))
		}
		close(c.gone)
		return
	}
	l.start(c)
}

// redial is how long an upstream that refuses is let alone.
const redial = 10 * time.Millisecond

// dial reaches the upstream, for as long as it refuses within Spec.Patience.
func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	for began := time.Now(); ; {
		up, err := d.DialContext(ctx, "tcp", l.spec.Upstream)
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) > l.spec.Patience {
			return up, err
		}
		select {
		case <-time.After(redial):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// arrive registers a client, or returns nil if it is refused.
func (l *Link) arrive(client *net.TCPConn, undial context.CancelFunc) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.ConnsAccepted++
	if l.refuses() {
		l.totals.ConnsRefused++
		return nil
	}
	c := &conn{
		link: l, id: l.nextID, client: client, undial: undial,
		dead: make(chan struct{}), gone: make(chan struct{}),
	}
	l.nextID++
	l.dialing[c] = struct{}{}
	return c
}

// open makes a connection of a client and its upstream, if there is one and
// nothing was decided against it meanwhile.
func (l *Link) open(c *conn, up net.Conn, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.dialing, c)
	switch {
	case l.refuses() || c.isDead():
		l.totals.ConnsRefused++
		return false
	case err != nil:
		l.totals.ConnsUnreachable++
		l.fab.opt.Logger.Debug("link cannot reach its upstream", "link", l.name, "upstream", l.spec.Upstream, "error", err)
		return false
	}
	l.join(c, up.(*net.TCPConn))
	l.totals.ConnsOpened++
	if l.ctl[Up].load().swallows() || l.ctl[Down].load().swallows() {
		l.totals.ConnsBlackholed++
	}
	return true
}

// join makes the flows of a connection between its two sockets. Called with l.mu held,
// as is refuses.
func (l *Link) join(c *conn, server *net.TCPConn) {
	c.server = server
	c.flows[Up] = newFlow(c, Up, c.client, c.server)
	c.flows[Down] = newFlow(c, Down, c.server, c.client)
	c.parts.Store(6)
	if l.spec.Tap != nil && !c.probe { // what the harness itself sends is nobody's request
		c.tap = l.spec.Tap.Open(l)
	}
	l.conns[c] = struct{}{}
	l.wg.Add(1)
}

func (l *Link) refuses() bool {
	return l.closed || l.ctl[Up].load().Kind == Close || l.ctl[Down].load().Kind == Close
}

// cut ends the connection from the link's side: both peers get a reset. What is
// inside is lost.
func (c *conn) cut() {
	c.deadOnce.Do(func() {
		close(c.dead)
		c.undial()
		c.link.mu.Lock()
		_, open := c.link.conns[c]
		if open && !c.probe {
			c.link.totals.ConnsCut++
		}
		c.link.mu.Unlock()
		if open {
			reset(c.client)
			reset(c.server)
		}
	})
}

func (c *conn) isDead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// part counts down the ends; the last one retires the connection.
func (c *conn) part() {
	if c.parts.Add(-1) > 0 {
		return
	}
	if c.tap != nil {
		c.tap.Ended()
	}
	l := c.link
	l.mu.Lock()
	if !c.probe {
		c.tally(&l.totals)
		l.totals.ConnsClosed++
	}
	delete(l.conns, c)
	l.mu.Unlock()
	close(c.gone)
	l.wg.Done()
}

// tally adds the connection's bytes to sum.
func (c *conn) tally(sum *Counters) {
	sum.Up = sum.Up.Add(c.flows[Up].tally())
	sum.Down = sum.Down.Add(c.flows[Down].tally())
}

// reset closes a connection so that its peer sees ECONNRESET and never takes the
// loss of bytes for an orderly end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// Counters is a consistent snapshot of a link since it was added. All values
// but the gauges PendingBytes, HeldBytes and ConnsOpen only grow.
type Counters struct {
	Up, Down DirCounters

	// ConnsAccepted = ConnsOpened + ConnsRefused + ConnsUnreachable + those that
	// still wait for the upstream.
	ConnsAccepted int64
	// ConnsOpened counts connections that reached the upstream.
	ConnsOpened int64
	// ConnsClosed counts opened connections that ended, for whatever reason.
	ConnsClosed int64
	// ConnsCut counts those that the link itself reset: by Close, or by the end of a
	// Drop that had cost them bytes, or by removal. Part of ConnsClosed.
	ConnsCut int64
	// ConnsRefused counts connections reset on arrival by Close.
	ConnsRefused int64
	// ConnsUnreachable counts connections reset because the upstream could not be
	// reached within Options.DialTimeout.
	ConnsUnreachable int64
	// ConnsBlackholed counts connections opened while a direction was stalled or
	// dropping: TCP connects succeed then, only data does not arrive.
	ConnsBlackholed int64
	// ConnsOpen is a gauge: connections open now.
	ConnsOpen int64
}

// DirCounters counts bytes of one direction over all connections. At any
// instant Received = Passed + Dropped + Lost + Pending.
type DirCounters struct {
	// ReceivedBytes were read from the sender's socket.
	ReceivedBytes int64
	// PassedBytes were written to the receiver's socket. They count when the write
	// has returned, and are pending until then; what Apply and Flush have waited for
	// is counted when they return.
	PassedBytes int64
	// DroppedBytes were discarded by Drop.
	DroppedBytes int64
	// LostBytes were inside the link when their connection ended.
	LostBytes int64
	// PendingBytes is a gauge: inside the link now, whatever the mode.
	PendingBytes int64
	// HeldBytes is a gauge: held by Stall now.
	HeldBytes int64
	// HeldTotalBytes were ever held by Stall, each byte counted once.
	HeldTotalBytes int64
	// DelayedBytes were ever given a delay by Latency, each byte counted once.
	DelayedBytes int64
}

// Dir returns the counters of one direction.
func (c Counters) Dir(d Dir) DirCounters {
	if d == Down {
		return c.Down
	}
	return c.Up
}

// Sub returns what happened since prev. The gauges keep their present value:
// they say how it is, not what changed.
func (c Counters) Sub(prev Counters) Counters { return c.plus(prev, -1) }

// Add returns the sum over two links.
func (c Counters) Add(o Counters) Counters {
	sum := c.plus(o, 1)
	sum.Up, sum.Down = c.Up.Add(o.Up), c.Down.Add(o.Down)
	sum.ConnsOpen += o.ConnsOpen
	return sum
}

// plus adds all of o but its gauges, or takes it away.
func (c Counters) plus(o Counters, sign int64) Counters {
	c.Up, c.Down = c.Up.plus(o.Up, sign), c.Down.plus(o.Down, sign)
	c.ConnsAccepted += sign * o.ConnsAccepted
	c.ConnsOpened += sign * o.ConnsOpened
	c.ConnsClosed += sign * o.ConnsClosed
	c.ConnsCut += sign * o.ConnsCut
	c.ConnsRefused += sign * o.ConnsRefused
	c.ConnsUnreachable += sign * o.ConnsUnreachable
	c.ConnsBlackholed += sign * o.ConnsBlackholed
	return c
}

// Add returns the sum of two.
func (d DirCounters) Add(o DirCounters) DirCounters {
	sum := d.plus(o, 1)
	sum.PendingBytes += o.PendingBytes
	sum.HeldBytes += o.HeldBytes
	return sum
}

func (d DirCounters) plus(o DirCounters, sign int64) DirCounters {
	d.ReceivedBytes += sign * o.ReceivedBytes
	d.PassedBytes += sign * o.PassedBytes
	d.DroppedBytes += sign * o.DroppedBytes
	d.LostBytes += sign * o.LostBytes
	d.HeldTotalBytes += sign * o.HeldTotalBytes
	d.DelayedBytes += sign * o.DelayedBytes
	return d
}
