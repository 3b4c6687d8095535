package engine

import (
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// TestPageSize: a read that failed is followed by one of half as many rows, down to one, and those
// that succeed by larger ones, up to the most.
func TestPageSize(t *testing.T) {
	t.Parallel()
	p := newPageSize(20)
	for n, c := range []struct {
		rows   int
		failed bool
		last   bool
		next   int
	}{
		{20, false, false, 20},
		{0, true, false, 10},
		{0, true, false, 5},
		{0, true, false, 2},
		{0, true, false, 1},
		{0, true, false, 1},
		{1, false, false, 2},
		{2, false, false, 4},
		{3, false, true, 4}, // fewer than asked for: there are no more
		{4, false, false, 8},
		{8, false, false, 16},
		{16, false, false, 20},
		{0, false, true, 20},
	} {
		if last := p.read(c.rows, c.failed); last != c.last || p.now != c.next {
			t.Errorf("read %d: last %v, then %d rows, want %v and %d", n, last, p.now, c.last, c.next)
		}
	}
}

// TestInboxParts: an inbox that could not be read is read in 16 parts for an hour, then in 256, and
// they leave out no id.
func TestInboxParts(t *testing.T) {
	t.Parallel()
	var s inboxParts
	now := 10 * time.Hour
	for _, want := range []int{1, 16, 256, 256} {
		n := s.at(now + time.Hour - 1)
		if n != want {
			t.Fatalf("%d parts, want %d", n, want)
		}
		last := ""
		for i := range n {
			after, upTo := s.bounds(3, i)
			if after != last || upTo <= after || n > 1 && i == 0 && upTo != map[int]string{16: "3-1", 256: "3-01"}[n] {
				t.Errorf("part %d of %d is from %q to %q, after one to %q", i, n, after, upTo, last)
			}
			last = upTo
		}
		if last != afterAll {
			t.Errorf("%d parts end at %q", n, last)
		}
		s.failed(now)
	}
	if n := s.at(now + time.Hour); n != 1 {
		t.Errorf("after an hour there are %d parts", n)
	}
}

// TestAddrOfOwner: enqueues are forwarded to another process that owns the shard, until nobody
// who owns it is there.
func TestAddrOfOwner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owner, addr, want string
	}{
		"another":          {"b", "at b", "at b"},
		"who is to own it": {"", "at b", "at b"},
		"nobody":           {"", "", ""},
		"this process":     {"a", "at b", ""},
		"this one's place": {"b", "at a", ""},
		"nowhere":          {"b", "", ""},
	} {
		s := &shard{e: &Engine{o: Options{Name: "a", Addr: "at a", World: World{Clock: clock.Go()}}}, addr: "before"}
		s.saw(store.Header{Owner: c.owner, Addr: c.addr})
		s.forgetAddr("before")
		if got := s.addrOfOwner(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		s.forgetAddr(c.addr)
		if got := s.addrOfOwner(); got != "" {
			t.Errorf("%s: %q, which was forgotten", name, got)
		}
	}
}
