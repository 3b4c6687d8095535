package member_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/core/member"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 6 * time.Second

func TestWatch(t *testing.T) {
	t.Parallel()
	w := member.NewWatch(ttl, 0, "a", "b")
	for _, step := range []struct {
		at     time.Duration
		nonces map[string]string
		want   []string
	}{
		{time.Second, map[string]string{"a": "1"}, []string{"a", "b"}}, // b is expected
		{5 * time.Second, map[string]string{"a": "2", "c": "1"}, []string{"a", "b", "c"}},
		{6 * time.Second, map[string]string{"a": "2", "c": "2"}, []string{"a", "c"}}, // b never came
		{11 * time.Second, map[string]string{"a": "2", "c": "3"}, []string{"c"}},     // a stands still
		{12 * time.Second, map[string]string{"a": "3"}, []string{"a"}},               // a beats again, c left
	} {
		w.Saw(step.nonces, step.at)
		if got := w.Present(); !slices.Equal(got, step.want) {
			t.Errorf("at %s: %v present, want %v", step.at, got, step.want)
		}
	}
}

// TestRank: every key orders all names, evenly, and when one goes, only what it was
// first for has another first.
func TestRank(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d"}
	firsts := map[string]int{}
	first := func(key string, present []string) string {
		for _, name := range present {
			if member.Rank(key, name, present) == 0 {
				return name
			}
		}
		t.Fatalf("%s: nobody of %v is first", key, present)
		return ""
	}
	for i := range 1000 {
		key := fmt.Sprint("q/", i)
		var ranks []int
		for _, name := range all {
			ranks = append(ranks, member.Rank(key, name, all))
		}
		slices.Sort(ranks)
		if !slices.Equal(ranks, []int{0, 1, 2, 3}) {
			t.Fatalf("%s: ranks %v", key, ranks)
		}
		f := first(key, all)
		firsts[f]++
		if g := first(key, all[:3]); f != "d" && g != f {
			t.Errorf("%s moves from %s to %s, though d went", key, f, g)
		}
	}
	for name, n := range firsts {
		if n < 180 || n > 320 {
			t.Errorf("%s is first for %d of 1000 keys", name, n)
		}
	}
	if member.Rank("k", "x", []string{"a"}) > 1 || member.Rank("k", "x", nil) != 0 {
		t.Error("one who is not present counts itself")
	}
}

// TestShare: everybody's share is as large as anybody's, whoever computes it, and each key
// has an owner.
func TestShare(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 8 {
		keys = append(keys, fmt.Sprint("q/", i))
	}
	for n, want := range map[int][]int{1: {8}, 3: {2, 3, 3}, 4: {2, 2, 2, 2}, 5: {1, 1, 2, 2, 2}, 9: {0, 1, 1, 1, 1, 1, 1, 1, 1}} {
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}[:n]
		shares := member.Share([][]string{keys}, names)
		count := map[string]int{}
		for _, name := range shares {
			count[name]++
		}
		var got []int
		for _, name := range names {
			got = append(got, count[name])
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(shares) != len(keys) {
			t.Errorf("%d names: shares of %v, want %v", n, got, want)
		}
		slices.Reverse(names)
		turned := slices.Clone(keys)
		slices.Reverse(turned)
		if !maps.Equal(member.Share([][]string{turned}, names), shares) {
			t.Errorf("%d names: another order, other shares", n)
		}
	}
	if member.Share([][]string{keys}, nil) != nil {
		t.Error("nobody has a share")
	}
}

// TestShareOfGroups: each group is divided as evenly as all of it, whatever the groups, and in
// whatever order they are known.
func TestShareOfGroups(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var groups [][]string
		for g := range 1 + r.IntN(8) {
			var keys []string
			for i := range 1 + r.IntN(9) {
				keys = append(keys, fmt.Sprintf("%d-%d/%d", r.IntN(1000), g, i))
			}
			groups = append(groups, keys)
		}
		names := []string{"a", "b", "c", "d", "e", "f", "g"}[:1+r.IntN(7)]
		shares := member.Share(groups, names)
		for i, keys := range append(groups, slices.Concat(groups...)) {
			count := make([]int, len(names))
			for _, key := range keys {
				n := slices.Index(names, shares[key])
				if n < 0 {
					t.Fatalf("%s is %q's", key, shares[key])
				}
				count[n]++
			}
			if slices.Max(count)-slices.Min(count) > 1 {
				t.Fatalf("group %d of %v: the names have %v", i, groups, count)
			}
		}
		slices.Reverse(groups)
		names = slices.Clone(names)
		slices.Reverse(names)
		if !maps.Equal(member.Share(groups, names), shares) {
			t.Fatalf("%v: another order, other shares", groups)
		}
	}
}

// TestShareMoves: when one goes, what it had moves, and little else.
func TestShareMoves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		groups, keys, names int
		most                float64 // keys of others that move when one of them leaves, on average
	}{{1, 8, 4, 1.5}, {1, 64, 10, 4}, {1, 256, 100, 8}, {1, 1024, 1000, 8}, {4, 8, 4, 6}, {10, 16, 5, 24}, {30, 1, 4, 4}} {
		var keys [][]string
		for g := range c.groups {
			keys = append(keys, nil)
			for i := range c.keys {
				keys[g] = append(keys[g], fmt.Sprintf("queue%s/%d", strings.Repeat("-", g), i))
			}
		}
		var names []string
		for i := range c.names {
			names = append(names, fmt.Sprint("worker-", i))
		}
		full := member.Share(keys, names)
		leavers, moved := min(10, c.names), 0
		for i := range leavers {
			for key, name := range member.Share(keys, slices.Concat(names[:i], names[i+1:])) {
				if full[key] != names[i] && name != full[key] {
					moved++
				}
			}
		}
		if mean := float64(moved) / float64(leavers); mean > c.most {
			t.Errorf("%d times %d keys, %d names: %.1f keys of others move when one leaves, want %.1f at most", c.groups, c.keys, c.names, mean, c.most)
		}
	}
}

// BenchmarkShare is of a large cell.
func BenchmarkShare(b *testing.B) {
	var keys, names []string
	for i := range 1024 {
		keys = append(keys, fmt.Sprint("queue/", i))
	}
	for i := range 1000 {
		names = append(names, fmt.Sprint("worker-", i))
	}
	for b.Loop() {
		member.Share([][]string{keys}, names)
	}
}

// events are what a group told of.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) changed(came, went []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range came {
		e.list = append(e.list, "+"+name)
	}
	for _, name := range went {
		e.list = append(e.list, "-"+name)
	}
}

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.list
	e.list = nil
	return out
}

func start(t *testing.T, s store.Members, name string, e *events, expected ...string) (g *member.Group, stop func()) {
	t.Helper()
	g, err := member.New(member.Options{Store: s, Cell: "c", Name: name, TTL: ttl, Clock: clock.Go(), Expected: expected,
		Changed: e.changed, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { g.Run(ctx); close(done) }()
	return g, func() { cancel(); <-done }
}

// TestGroup: members see who comes, who leaves, whose heartbeats are lost and who is
// back; who cannot look goes on with what it saw last.
func TestGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		sa, sb, sc := s.Connect("a", 1), s.Connect("b", 1), s.Connect("c", 1)
		var ea, eb, ec events
		expect := func(e *events, who string, want ...string) {
			t.Helper()
			got := e.take()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s heard %v, want %v", who, got, want)
			}
		}
		a, stopA := start(t, sa, "a", &ea, "a", "b")
		time.Sleep(2 * ttl)
		expect(&ea, "a", "-b") // expected, and never came
		b, stopB := start(t, sb, "b", &eb, "a", "b")
		_, stopC := start(t, sc, "c", &ec)
		time.Sleep(ttl)
		expect(&ea, "a", "+b", "+c")
		expect(&eb, "b", "+c")
		stopC()
		time.Sleep(ttl / 2)
		expect(&ea, "a", "-c") // it left: nobody waits for a ttl
		expect(&eb, "b", "-c")
		sb.Cut(true)
		time.Sleep(ttl / 2)
		expect(&ea, "a")
		time.Sleep(3 * ttl)
		expect(&ea, "a", "-b")
		expect(&eb, "b") // it sees nothing, so nothing has changed
		if got := b.Present(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("b, cut off, sees %v", got)
		}
		keys := []string{"u", "v", "w", "x"}
		a.Divide([][]string{keys})
		b.Divide([][]string{keys})
		if a.Rank("x") != 0 || a.Rank("y") != 0 {
			t.Error("a is alone and not the first")
		}
		sb.Cut(false)
		time.Sleep(ttl)
		expect(&ea, "a", "+b")
		mine := 0
		for _, key := range keys {
			if a.Rank(key)+b.Rank(key) != 1 {
				t.Errorf("%s: ranks %d and %d", key, a.Rank(key), b.Rank(key))
			}
			mine += b.Rank(key)
		}
		if mine != 2 {
			t.Errorf("a is first for %d of 4", mine)
		}
		stopA()
		stopB()
	})
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	s := sim.New().Connect("a", 1)
	for _, o := range []member.Options{{}, {Store: s, Cell: "c"}, {Store: s, Name: "a"}, {Cell: "c", Name: "a"}, {Store: s, Cell: "c", Name: "a", TTL: time.Millisecond}} {
		if _, err := member.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
