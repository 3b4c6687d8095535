package field

import (
	"slices"
	"sync"
	"testing"
	"time"

	"fencepost/bench"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"few rounds": {Config: bench.Config{Rounds: 4}},
		"unknown":    {Systems: []string{"no-such-lock"}},
		"a twin":     {Systems: []string{"nats-kv-fenced"}},
		"no lock":    {Systems: []string{"river"}},
		"twice":      {Systems: []string{"redlock", "redlock"}},
	} {
		if s, err := New(c); err == nil {
			t.Errorf("%s: accepted as %+v", name, s.Config)
		}
	}
}

// TestPlan: each lock is measured alone and with others, the first of each group twice.
func TestPlan(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Systems: []string{"redis-set", none}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range s.plan.Arms {
		ids = append(ids, a.ID+" "+a.Contention+" "+a.Control)
	}
	want := []string{"redis-set/1 low ", "none/1 low ", "2/redis-set/1 low redis-set/1", "redis-set/8 high ", "none/8 high ", "2/redis-set/8 high redis-set/8"}
	if !slices.Equal(ids, want) {
		t.Errorf("arms %q, want %q", ids, want)
	}
	all, err := New(Config{})
	if err != nil || len(all.Design().WarmUp) != len(Systems()) || !slices.Contains(Systems(), "zk-curator") || slices.Contains(Systems(), "river") {
		t.Errorf("%v, %v", Systems(), err)
	}
}

// granting is a lock that a program might have.
type granting struct {
	mu      sync.Mutex
	held    map[string]bool
	forgets bool // it is lost before it is given back
}

func (g *granting) ask(_ int, o order) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.Release != "" {
		had := g.held[o.Release]
		delete(g.held, o.Release)
		return had && !g.forgets, nil
	}
	if g.held[o.Acquire] {
		return false, nil
	}
	g.held[o.Acquire] = true
	return true, nil
}

// TestCycles: of a lock that one client gets after the other nothing is found, and what is lost has failed.
func TestCycles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lock  *granting
		one   bool
		fails bool
	}{
		"sound":          {lock: &granting{}, one: true},
		"own locks":      {lock: &granting{}},
		"lost meanwhile": {lock: &granting{forgets: true}, one: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.lock.held = map[string]bool{}
			op := &cycler{arm: &arm{name: name}, asked: c.lock, one: c.one}
			s, err := bench.Window{Arm: armOf("redis-set", clients), Length: 300 * time.Millisecond}.Loop(t.Context(), op)
			if err != nil {
				t.Fatal(err)
			}
			if found := op.wrong(); len(found) > 0 {
				t.Errorf("%d found: %.3v", len(found), found)
			}
			if s.OK == 0 != c.fails || s.Fail > 0 != c.fails || s.Unknown != 0 {
				t.Errorf("ok %d, failed %d, unknown %d", s.OK, s.Fail, s.Unknown)
			}
		})
	}
}

// TestHold: two clients that have one lock at once are found.
func TestHold(t *testing.T) {
	t.Parallel()
	c := &cycler{arm: &arm{name: "redlock"}}
	c.hold(0)
	c.hold(0)
	c.inside[1].Add(1)
	c.hold(0)
	if found := c.wrong(); len(found) != 0 {
		t.Errorf("found %q", found)
	}
	c.hold(1)
	if found := c.wrong(); len(found) != 1 {
		t.Errorf("found %q", found)
	}
}
