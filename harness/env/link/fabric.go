package link

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Defaults of Options.
const (
	DefaultWatchdog    = 10 * time.Second
	DefaultDialTimeout = 5 * time.Second
	// DefaultMaxHeld is Linux's default ceiling of a TCP send buffer: about what a
	// sender can have under way before it blocks on a real network.
	DefaultMaxHeld = 4 << 20
)

// Options of a fabric. Values of zero or less mean the default.
type Options struct {
	// Watchdog bounds every operation. Default DefaultWatchdog.
	Watchdog time.Duration
	// DialTimeout bounds connecting to an upstream. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// MaxHeld is how much one direction of one connection keeps inside, in bytes,
	// stalled or delayed, before the sender is held up. Default DefaultMaxHeld.
	MaxHeld int
	// Logger gets what goes wrong. Default: nothing is logged.
	Logger *slog.Logger
}

// Fabric is the set of links of a run. Its methods may be called concurrently.
type Fabric struct {
	opt    Options
	server *toxiproxy.ApiServer

	mu     sync.Mutex
	links  map[string]*Link
	closed bool
}

// NewFabric returns a fabric without links. Close it.
func NewFabric(o Options) *Fabric {
	if o.Watchdog <= 0 {
		o.Watchdog = DefaultWatchdog
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.MaxHeld <= 0 {
		o.MaxHeld = DefaultMaxHeld
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	// The ApiServer is only the carrier of logger and metrics that links demand: its
	// HTTP side is never started. Every log line of Toxiproxy on the path used here
	// goes through this logger, so zerolog's global level need not be touched.
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	return &Fabric{opt: o, server: server, links: make(map[string]*Link)}
}

// Add creates the link and starts to listen. The error Is ErrSpec, ErrExists or
// ErrClosed, or is the listener's.
func (f *Fabric) Add(s Spec) (*Link, error) {
	if err := s.Validate(); err != nil {
		return nil, &OpError{Op: "add", Link: s.Name(), Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, &OpError{Op: "add", Link: s.Name(), Err: ErrClosed}
	}
	if _, ok := f.links[s.Name()]; ok {
		return nil, &OpError{Op: "add", Link: s.Name(), Err: ErrExists}
	}
	l, err := newLink(f, s)
	if err != nil {
		return nil, &OpError{Op: "add", Link: s.Name(), Err: err}
	}
	f.links[s.Name()] = l
	return l, nil
}

// Get finds a link by its name.
func (f *Fabric) Get(name string) (*Link, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.links[name]
	return l, ok
}

// All returns every link, sorted by name, as do the other selectors.
func (f *Fabric) All() []*Link { return f.where(func(*Link) bool { return true }) }

// To returns the links whose connections node accepts.
func (f *Fabric) To(node string) []*Link {
	return f.where(func(l *Link) bool { return l.To() == node })
}

// Of returns the links that node has an end of.
func (f *Fabric) Of(node string) []*Link {
	return f.where(func(l *Link) bool { return l.From() == node || l.To() == node })
}

// Between returns the links whose connections from opens to to, of every
// purpose. It is directed: see Flow for all that one node sends to another.
func (f *Fabric) Between(from, to string) []*Link {
	return f.where(func(l *Link) bool { return l.From() == from && l.To() == to })
}

// Flow returns everything that from sends to to: what it sends on connections
// of its own (Up) and what it answers on theirs (Down). Cutting Flow(a, b) and not
// Flow(b, a) is a one-way partition.
func (f *Fabric) Flow(from, to string) []End {
	return append(Ends(f.Between(from, to), Up), Ends(f.Between(to, from), Down)...)
}

func (f *Fabric) where(keep func(*Link) bool) []*Link {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*Link
	for _, l := range f.links {
		if keep(l) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *Link) int { return cmp.Compare(a.Name(), b.Name()) })
	return out
}

// Close ends all links; no goroutine is left when it returns nil. Closing again
// does nothing.
func (f *Fabric) Close() error {
	f.mu.Lock()
	f.closed = true
	links := f.links
	f.links = make(map[string]*Link)
	f.mu.Unlock()

	var waits []wait
	for _, l := range links {
		l.shut()
		waits = append(waits, l.ended())
	}
	return awaitAll(context.Background(), "close", f.opt.Watchdog, waits)
}

// Tap reads what the connections of a link carry: the sender's own stream, before any mode
// holds, drops or delays it. So it tells what was said, not what was heard. It changes
// nothing.
type Tap interface {
	// Open is called for each connection that reached its upstream, before its first byte.
	Open(l *Link) Stream
}

// Stream is a tap on one connection.
type Stream interface {
	// Said is given the next bytes of a direction, as they come. Calls for one direction
	// follow each other; those for the two may meet. It holds up the sender, so it must not
	// block, and b is the link's own when it returns.
	Said(d Dir, b []byte)
	// Ended is called once, when nothing more comes from either side.
	Ended()
}

// Unread tells once of a link and a reason for which some of what it carries cannot be read.
// Safe for concurrent use.
type Unread struct {
	Tell func(l *Link, reason error) // nil: nobody is told

	mu   sync.Mutex
	told map[[2]string]bool
}

// Note tells of a reason that is new.
func (u *Unread) Note(l *Link, reason error) {
	key := [2]string{l.Name(), reason.Error()}
	u.mu.Lock()
	old := u.told[key]
	if u.told == nil {
		u.told = map[[2]string]bool{}
	}
	u.told[key] = true
	u.mu.Unlock()
	if !old && u.Tell != nil {
		u.Tell(l, reason)
	}
}

// said hands on what was read from the sender.
func (f *flow) said(b []byte) {
	if s := f.conn.tap; s != nil && len(b) > 0 {
		s.Said(f.dir, b)
	}
}

// Watch is evidence of what links did from one moment on: start it when a fault
// is injected, read it when the fault is healed. A stall that held no byte and a
// drop that dropped none were never tested, whatever the run shows.
type Watch struct {
	links []*Link
	base  map[string]Counters
}

// NewWatch starts to watch the links. Start it when Apply has returned: all
// writes from before are counted then, so that a single byte passed under a cut is
// a leak. A watch started earlier may show a write that was under way.
func NewWatch(links []*Link) *Watch {
	w := &Watch{links: links, base: make(map[string]Counters, len(links))}
	for _, l := range links {
		w.base[l.Name()] = l.Counters()
	}
	return w
}

// Delta is what happened on each link since, by name. A link that is closed
// keeps its last counters.
func (w *Watch) Delta() map[string]Counters {
	out := make(map[string]Counters, len(w.links))
	for _, l := range w.links {
		out[l.Name()] = l.Counters().Sub(w.base[l.Name()])
	}
	return out
}

// Total is the sum of Delta.
func (w *Watch) Total() Counters {
	var sum Counters
	for _, c := range w.Delta() {
		sum = sum.Add(c)
	}
	return sum
}
