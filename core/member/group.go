package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// DefaultTTL is how long a member may be silent before it counts as gone.
const DefaultTTL = 6 * time.Second

// Options configure a Group. Store, Cell and Name are needed.
type Options struct {
	Store store.Members
	// Cell is the group's name, Name this process's in it: the same after a restart,
	// so that it prefers what it had.
	Cell, Name string
	// TTL is for how long a member may be silent before it counts as gone; default
	// 6 s. A member beats every third of it.
	TTL time.Duration
	// Expected members count as present from the start, until they have been silent
	// for the ttl: else the first process of a cell would prefer everything.
	Expected []string
	// Clock defaults to clock.System().
	Clock clock.Clock
	// Changed, if set, is called after each change of the present members, sorted.
	Changed func(came, went []string)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Group is a process's view of its cell. Safe for concurrent use.
type Group struct {
	o Options

	mu      sync.Mutex
	watch   *Watch
	present []string
	groups  [][]string        // of keys, that are to be divided
	shares  map[string]string // of keys, by the present; nil: to be computed
}

// New returns a group; Run takes part in it.
func New(o Options) (*Group, error) {
	if o.Store == nil || o.Cell == "" || o.Name == "" {
		return nil, errors.New("member: Store, Cell and Name are needed")
	}
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	if o.TTL < time.Second {
		return nil, fmt.Errorf("member: TTL is %s: a second is the least", o.TTL)
	}
	o.Clock = cmp.Or(o.Clock, clock.System())
	o.Logger = cmp.Or(o.Logger, slog.Default())
	w := NewWatch(o.TTL, o.Clock.Now(), o.Expected...)
	return &Group{o: o, watch: w, present: w.Present()}, nil
}

// keptTTLs is for how many ttls the store keeps the heartbeat of a member that is silent.
const keptTTLs = 10

// Run beats and looks every third of the ttl until ctx ends, then leaves.
func (g *Group) Run(ctx context.Context) {
	for ctx.Err() == nil {
		g.do(ctx, "beat", func(ctx context.Context) error {
			return g.o.Store.Beat(ctx, g.o.Cell, g.o.Name, uuid.NewString(), keptTTLs*g.o.TTL)
		})
		g.do(ctx, "look at the others", g.look)
		_ = g.o.Clock.Sleep(ctx, g.o.TTL/3)
	}
	g.do(context.WithoutCancel(ctx), "leave", func(ctx context.Context) error {
		return g.o.Store.Leave(ctx, g.o.Cell, g.o.Name)
	})
}

// do makes one request. A failure is only told: the next beat is another chance.
func (g *Group) do(ctx context.Context, what string, f func(context.Context) error) {
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer g.o.Clock.AfterFunc(g.o.TTL/6, cancel)()
	if err := f(rctx); err != nil && ctx.Err() == nil {
		g.o.Logger.Warn("member: cannot "+what, "cell", g.o.Cell, "error", err)
	}
}

// Look asks now who is present, as Run does every third of the ttl.
func (g *Group) Look(ctx context.Context) (err error) {
	g.do(ctx, "look at the others", func(ctx context.Context) error {
		err = g.look(ctx)
		return err
	})
	return err
}

func (g *Group) look(ctx context.Context) error {
	nonces, err := g.o.Store.Members(ctx, g.o.Cell)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.watch.Saw(nonces, g.o.Clock.Now())
	was, is := g.present, g.watch.Present()
	g.present = is
	came, went := without(is, was), without(was, is)
	if len(came)+len(went) > 0 {
		g.shares = nil
	}
	g.mu.Unlock()
	if len(came)+len(went) > 0 {
		g.o.Logger.Info("members changed", "cell", g.o.Cell, "came", came, "went", went)
		if g.o.Changed != nil {
			g.o.Changed(came, went)
		}
	}
	return nil
}

// without is the names of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return slices.Contains(b, name) })
}

// Present returns the names of those that are present, sorted.
func (g *Group) Present() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.present)
}

// Divide says what there is to own, so that everybody has an even share of each group, and of all of it.
// The groups are not changed from then on.
func (g *Group) Divide(groups [][]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.EqualFunc(g.groups, groups, slices.Equal) {
		g.groups, g.shares = groups, nil
	}
}

// Rank is this process's place, from 0, among those that should own what is called key:
// first who has it as its share of what there is to own (Divide), then by Rank.
func (g *Group) Rank(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, ok := g.divided()[key]
	switch {
	case first == g.o.Name:
		return 0
	case !ok:
		return Rank(key, g.o.Name, g.present)
	}
	return 1 + Rank(key, g.o.Name, without(g.present, []string{first}))
}

// Shares says whose share each key is of those that were divided, by name.
func (g *Group) Shares() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.divided())
}

// Name is this process's.
func (g *Group) Name() string { return g.o.Name }

// divided are the shares. mu is held.
func (g *Group) divided() map[string]string {
	if g.shares == nil {
		names := g.present
		if !slices.Contains(names, g.o.Name) {
			names = append(slices.Clone(names), g.o.Name)
		}
		g.shares = Share(g.groups, names)
	}
	return g.shares
}

// Watch tells who is present from what looks at the heartbeats showed, by its own
// clock alone: a member is present until its heartbeat has been seen to stand still
// for the ttl. Looks that fail teach nothing, and time counts up to the last one that
// did not. Not safe for concurrent use.
type Watch struct {
	ttl  time.Duration
	last time.Duration // the newest look
	seen map[string]sighting
}

// sighting is the newest nonce of a member, and the first look that showed it.
type sighting struct {
	nonce string
	since time.Duration
}

// NewWatch returns a watch that takes the expected members for present until they
// have been silent for a ttl.
func NewWatch(ttl, now time.Duration, expected ...string) *Watch {
	w := &Watch{ttl: ttl, last: now, seen: map[string]sighting{}}
	for _, name := range expected {
		w.seen[name] = sighting{since: now}
	}
	return w
}

// Saw takes the answer to a look that returned at now.
func (w *Watch) Saw(nonces map[string]string, now time.Duration) {
	w.last = now
	for name, nonce := range nonces {
		if s, ok := w.seen[name]; !ok || s.nonce != nonce {
			w.seen[name] = sighting{nonce, now}
		}
	}
	for name, s := range w.seen {
		_, there := nonces[name]
		switch {
		case now-s.since >= w.ttl && !there:
			delete(w.seen, name) // forgotten, so that names do not pile up
		case !there && s.nonce != "":
			delete(w.seen, name) // it left
		}
	}
}

// Present returns the names of those that are present, sorted.
func (w *Watch) Present() []string {
	var out []string
	for name, s := range w.seen {
		if w.last-s.since < w.ttl {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
