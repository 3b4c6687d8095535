package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// DefaultTTL is how long a member may be silent before it counts as gone.
const DefaultTTL = 30 * time.Second

// Options configure a Group. Store, Cell and Name are needed.
type Options struct {
	Store store.Members
	// Cell is the group's name, Name this process's in it: the same after a restart,
	// so that it prefers what it had.
	Cell, Name string
	// TTL is for how long a member may be silent before it counts as gone; default
	// 30 s. A member beats every third of it.
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
	keys    []string
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

// Divide says what there is to own, so that everybody has an even share of it.
func (g *Group) Divide(keys []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys, g.shares = slices.Clone(keys), nil
}

// Rank is this process's place, from 0, among those that should own what is called key:
// first who has it as its share of what there is to own (Divide), then by Rank.
func (g *Group) Rank(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shares == nil {
		names := g.present
		if !slices.Contains(names, g.o.Name) {
			names = append(slices.Clone(names), g.o.Name)
		}
		g.shares = Share(g.keys, names)
	}
	first, ok := g.shares[key]
	switch {
	case first == g.o.Name:
		return 0
	case !ok:
		return Rank(key, g.o.Name, g.present)
	}
	return 1 + Rank(key, g.o.Name, without(g.present, []string{first}))
}
