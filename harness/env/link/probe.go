package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Probe is a connection of the harness's own through a link, with both of its ends here:
// a byte that goes in at one end must come out at the other as the mode of that direction
// says. It takes the way of every other connection - the same streams, modes and gates -
// and is counted with none of them. So each direction of an idle link can be tested, and
// timed, without a word from the link's users.
type Probe struct {
	link *Link
	conn *conn
	ends [2]*net.TCPConn // by the direction that goes in there

	wg  sync.WaitGroup
	mu  sync.Mutex
	dir [2]passages
	// news is closed and made again with each byte that comes out, and with an end.
	news chan struct{}
}

// passages are the bytes of one direction; err is why no more come out.
type passages struct {
	all  []Passage
	came int
	err  error
}

// Passage is one byte on its way through a probe.
type Passage struct {
	Sent time.Time
	Came time.Time // zero: not yet
}

// Took is how long the byte was on its way, 0 if it has not come out.
func (p Passage) Took() time.Duration {
	if p.Came.IsZero() {
		return 0
	}
	return p.Came.Sub(p.Sent)
}

// errClosedProbe is the end of a probe by Close.
var errClosedProbe = errors.New("the probe was closed")

// probeIDs are the numbers of probes' connections, by which their jitter is drawn: that of
// other connections does not depend on them.
const probeIDs = 1 << 62

// Probe opens a probe. The error Is ErrClosed for a link that is closed, and
// ErrRefused for one that closes connections.
func (l *Link) Probe() (*Probe, error) {
	fail := func(err error) (*Probe, error) { return nil, &OpError{Op: "probe", Link: l.name, Err: err} }
	near, client, err := pair()
	if err != nil {
		return fail(err)
	}
	server, far, err := pair()
	if err != nil {
		reset(near)
		reset(client)
		return fail(err)
	}
	c := &conn{link: l, client: client, probe: true, undial: func() {}, dead: make(chan struct{}), gone: make(chan struct{})}
	if err := l.enter(c, server); err != nil {
		for _, s := range []*net.TCPConn{near, client, server, far} {
			reset(s)
		}
		return fail(err)
	}
	p := &Probe{link: l, conn: c, ends: [2]*net.TCPConn{Up: near, Down: far}, news: make(chan struct{})}
	l.start(c)
	for _, d := range Dirs {
		p.wg.Go(func() { p.receive(d) })
	}
	return p, nil
}

// enter registers a probe's connection.
func (l *Link) enter(c *conn, server *net.TCPConn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case l.refuses():
		return ErrRefused
	}
	c.id = probeIDs + l.probes
	l.probes++
	l.join(c, server)
	return nil
}

// pair is two ends of a TCP connection on loopback.
func pair() (a, b *net.TCPConn, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	accepted, err := ln.Accept()
	if err != nil {
		reset(dialed.(*net.TCPConn))
		return nil, nil, err
	}
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn), nil
}

// receive notes what comes out of a direction until its end.
func (p *Probe) receive(d Dir) {
	out := p.ends[1-d]
	b := make([]byte, 64)
	for {
		n, err := out.Read(b)
		now := time.Now()
		p.mu.Lock()
		w := &p.dir[d]
		for range n {
			w.all[w.came].Came = now
			w.came++
		}
		if err != nil && w.err == nil {
			w.err = err
		}
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Send puts one byte into a direction. It does not wait for it to come out.
func (p *Probe) Send(d Dir) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Under the lock, so that the byte cannot come out before it is noted; one byte
	// does not block.
	w := &p.dir[d]
	w.all = append(w.all, Passage{Sent: time.Now()})
	if _, err := p.ends[d].Write([]byte{byte(len(w.all))}); err != nil {
		w.all = w.all[:len(w.all)-1]
		return &OpError{Op: "probe", Link: p.link.name, Err: fmt.Errorf("%s: %w", d, err)}
	}
	return nil
}

// Passages are the bytes sent into a direction so far, in order.
func (p *Probe) Passages(d Dir) []Passage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Passage(nil), p.dir[d].all...)
}

// Pending is how many bytes of a direction have not come out, and why none will any
// more: nil while they may.
func (p *Probe) Pending(d Dir) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending(d)
}

func (p *Probe) pending(d Dir) (int, error) {
	w := &p.dir[d]
	return len(w.all) - w.came, w.err
}

// Await returns nil when all that was sent into a direction has come out, and else why
// not: ctx, or the end of the connection.
func (p *Probe) Await(ctx context.Context, d Dir) error {
	for {
		p.mu.Lock()
		n, err := p.pending(d)
		news := p.news
		p.mu.Unlock()
		switch {
		case n == 0:
			return nil
		case err != nil:
			return &OpError{Op: "probe", Link: p.link.name, Err: fmt.Errorf("%s: %d bytes lost: %w", d, n, err)}
		}
		select {
		case <-news:
		case <-ctx.Done():
			return &OpError{Op: "probe", Link: p.link.name, Err: fmt.Errorf("%s: %d bytes have not come out: %w", d, n, context.Cause(ctx))}
		}
	}
}

// Close ends the probe; nothing of it is left when it returns.
func (p *Probe) Close() {
	p.mu.Lock()
	for d := range p.dir {
		if p.dir[d].err == nil {
			p.dir[d].err = errClosedProbe
		}
	}
	p.mu.Unlock()
	p.conn.cut()
	for _, end := range p.ends {
		_ = end.Close()
	}
	p.wg.Wait()
	<-p.conn.gone
}
