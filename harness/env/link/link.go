package link

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
)

// Spec describes a link.
type Spec struct {
	// From opens the connections, To accepts them: names such as "w1" or "n1".
	From, To string
	// Purpose tells apart links of one pair, such as "sink". Empty for the main one.
	Purpose string
	// Listen is where From is to connect, "ip:port"; port 0 takes a free one.
	Listen string
	// Upstream is where To listens, "ip:port".
	Upstream string
	// Seed is the source of jitter, together with the name.
	Seed uint64
	// Patience is for how long an upstream that refuses a client is asked again. It is for programs that
	// come back at once if they are refused, but not if they are reset, which is all that a link can do.
	// 0: not at all.
	Patience time.Duration
	// Tap reads what the link's connections carry; nil: nobody does.
	Tap Tap
}

// Name is "from->to", with a purpose "from->to/purpose".
func (s Spec) Name() string {
	name := s.From + "->" + s.To
	if s.Purpose != "" {
		name += "/" + s.Purpose
	}
	return name
}

// Validate says what is missing, as an error that Is ErrSpec.
func (s Spec) Validate() error {
	for _, f := range []struct{ what, v string }{{"From", s.From}, {"To", s.To}} {
		if f.v == "" || strings.ContainsAny(f.v, "/>") {
			return fmt.Errorf("%w: %s %q must be a name without / and >", ErrSpec, f.what, f.v)
		}
	}
	for _, f := range []struct{ what, v string }{{"Listen", s.Listen}, {"Upstream", s.Upstream}} {
		host, port, err := net.SplitHostPort(f.v)
		if err != nil {
			return fmt.Errorf("%w: %s %q: %w", ErrSpec, f.what, f.v, err)
		}
		if net.ParseIP(host) == nil {
			return fmt.Errorf("%w: %s %q must name an IP address, so that no name service is asked during a fault", ErrSpec, f.what, f.v)
		}
		if port == "" || f.what == "Upstream" && port == "0" {
			return fmt.Errorf("%w: %s %q needs a port", ErrSpec, f.what, f.v)
		}
	}
	return nil
}

// Link is a directed link: a listener, a Toxiproxy proxy whose chain carries the
// bytes, and a mode for each direction. Fabric.Add makes one.
type Link struct {
	spec     Spec
	name     string
	fab      *Fabric
	listener net.Listener
	proxy    *toxiproxy.Proxy
	toxics   [2]*modeToxic
	ctl      [2]*control
	seed     uint64

	ctx    context.Context // ends with the link; parent of all dials
	cancel context.CancelFunc
	wg     sync.WaitGroup // accept loop, dials, connections
	done   chan struct{}  // closed when wg is down to nothing after shut
	once   sync.Once

	// starting orders NewState calls: Toxiproxy asks the toxic for the state of a
	// stream without saying which stream it is.
	starting sync.Mutex

	mu      sync.Mutex
	closed  bool
	nextID  uint64
	probes  uint64             // so many so far
	dialing map[*conn]struct{} // clients that wait for their upstream
	conns   map[*conn]struct{} // open connections
	totals  Counters           // all counts, and the bytes of connections that are gone
}

func newLink(f *Fabric, s Spec) (*Link, error) {
	l := &Link{
		spec:  s,
		name:  s.Name(),
		fab:   f,
		ctl:   [2]*control{newControl(), newControl()},
		conns: make(map[*conn]struct{}), dialing: make(map[*conn]struct{}),
		done: make(chan struct{}),
	}
	l.seed = seedOf(s)

	l.proxy = toxiproxy.NewProxy(f.server, l.name, s.Listen, s.Upstream)
	if err := installToxics(l); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", s.Listen, err)
	}
	l.listener = ln
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Add(1)
	go l.accept()
	return l, nil
}

// seedOf tells links of one seed apart by their names.
func seedOf(s Spec) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s.Name()))
	return s.Seed ^ h.Sum64()
}

// Name is Spec.Name.
func (l *Link) Name() string { return l.name }

// From is the side that opens connections.
func (l *Link) From() string { return l.spec.From }

// To is the side that accepts them.
func (l *Link) To() string { return l.spec.To }

// Purpose tells apart links of one pair; empty for the main one.
func (l *Link) Purpose() string { return l.spec.Purpose }

// Addr is where the link listens, "ip:port".
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Upstream is where the link connects to, "ip:port".
func (l *Link) Upstream() string { return l.spec.Upstream }

// Mode returns the mode in force for a direction.
func (l *Link) Mode(d Dir) Mode {
	if !d.valid() {
		return Mode{}
	}
	return l.ctl[d].load().Mode
}

// Set puts one direction into a mode: see Apply.
func (l *Link) Set(ctx context.Context, d Dir, m Mode) error {
	return SetEnds(ctx, []End{{l, d}}, m)
}

// SetBoth puts both directions into a mode: see Apply.
func (l *Link) SetBoth(ctx context.Context, m Mode) error {
	return SetEnds(ctx, Ends([]*Link{l}), m)
}

// Counters takes a snapshot. Of a closed link it is the final one.
func (l *Link) Counters() Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.totals
	for cn := range l.conns {
		if !cn.probe {
			cn.tally(&c)
		}
	}
	c.ConnsOpen = c.ConnsOpened - c.ConnsClosed
	return c
}

func (l *Link) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// live returns the open connections, and those that wait for their upstream. A
// connection that comes later obeys every switch made before the call, because
// it loads the modes after it joined.
func (l *Link) live() (open, dialing []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.conns)), slices.Collect(maps.Keys(l.dialing))
}

// enforce makes the connections obey the mode that was just put in force and
// returns what to wait for until they do.
func (l *Link) enforce(d Dir) []wait {
	open, dialing := l.live()
	closing := l.ctl[d].load().Kind == Close
	if !closing {
		dialing = nil
	}
	var ws []wait
	for _, c := range append(dialing, open...) {
		if closing || c.flows[d].corrupt() {
			c.cut()
			ws = append(ws, wait{c.gone, l.name, "a connection to end"})
			continue
		}
		if idle := c.flows[d].interrupt(); idle != nil {
			ws = append(ws, wait{idle, l.name, "a write to its receiver to stop"})
		}
	}
	return ws
}

func (l *Link) flush(d Dir) (int64, []wait) {
	var n int64
	var ws []wait
	open, _ := l.live()
	for _, c := range open {
		freed, done := c.flows[d].flush()
		n += freed
		if done != nil {
			ws = append(ws, wait{done, l.name, "a receiver to take the bytes that were held"})
		}
	}
	return n, ws
}

// accept takes connections and leaves everything that can block to others, so
// that a dead upstream holds up nobody but its own client.
func (l *Link) accept() {
	defer l.wg.Done()
	const minPause, maxPause = 5 * time.Millisecond, time.Second
	pause := minPause
	for {
		nc, err := l.listener.Accept()
		switch {
		case err == nil:
			pause = minPause
			l.wg.Add(1)
			go l.serve(nc.(*net.TCPConn))
		case l.isClosed() || errors.Is(err, net.ErrClosed):
			return
		default:
			// Out of file descriptors, most likely. The clients queue in the kernel.
			l.fab.opt.Logger.Warn("link cannot accept connections, trying again", "link", l.name, "pause", pause, "error", err)
			select {
			case <-time.After(pause):
			case <-l.ctx.Done():
				return
			}
			pause = min(2*pause, maxPause)
		}
	}
}

// shut stops accepting and cuts every connection; ended tells when all is over.
func (l *Link) shut() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.once.Do(func() {
		l.cancel()
		_ = l.listener.Close()
		open, dialing := l.live()
		for _, c := range append(dialing, open...) {
			c.cut()
		}
		go func() {
			l.wg.Wait()
			close(l.done)
		}()
	})
}

func (l *Link) ended() wait { return wait{l.done, l.name, "its connections to end"} }

var (
	// ErrMode: the mode or direction asked for does not exist or contradicts itself.
	ErrMode = errors.New("invalid link mode")
	// ErrSpec: the description of a link is incomplete.
	ErrSpec = errors.New("invalid link spec")
	// ErrExists: the fabric has a link of that name.
	ErrExists = errors.New("link exists")
	// ErrClosed: the fabric or the link is closed.
	ErrClosed = errors.New("link is closed")
	// ErrRefused: the link closes connections, so none can be opened through it.
	ErrRefused = errors.New("link refuses connections")
	// ErrNotStalled: Flush was asked of a direction that holds nothing.
	ErrNotStalled = errors.New("link is not stalled")
	// ErrWatchdog: an operation did not finish in time; see WatchdogError.
	ErrWatchdog = errors.New("link operation timed out")
)

// OpError says which operation failed on which link. Err is the cause.
type OpError struct {
	Op   string // add, set, flush, probe, close
	Link string // name; empty for the fabric
	Err  error
}

func (e *OpError) Error() string {
	if e.Link == "" {
		return fmt.Sprintf("links: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("link %s: %s: %v", e.Link, e.Op, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// WatchdogError is an operation that was given up after Limit. The modes are
// switched all the same; what is not known is whether every connection obeys,
// so a run that sees it proves nothing and is to be reported as INVALID.
type WatchdogError struct {
	Op      string
	Link    string
	Limit   time.Duration
	Waiting string // what did not happen
}

func (e *WatchdogError) Error() string {
	return fmt.Sprintf("link %s: %s gave up after %v waiting for %s: treat the run as invalid", e.Link, e.Op, e.Limit, e.Waiting)
}

// Is makes errors.Is(err, ErrWatchdog) and errors.Is(err, context.DeadlineExceeded) true.
func (e *WatchdogError) Is(target error) bool {
	return target == ErrWatchdog || target == context.DeadlineExceeded
}
