package engine

import (
	"math"
	"slices"
	"testing"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/store"
)

// TestNotBeforeItsOwnTime: a job may run in the very ms that it was asked for, and not before.
func TestNotBeforeItsOwnTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, r.now.wall+5)
	r.tick(0)
	for range 5 {
		if p := r.next(1); p != nil {
			t.Fatalf("claimed at %d: %+v", r.now.wall, p.batch.Ops)
		}
		r.pass(1)
	}
	if p := r.tick(1); p.slots != 1 {
		t.Errorf("not claimed at its time: %+v", p.batch.Ops)
	}
}

// TestHastenUntilTheLastMoment: a job that is due in a millisecond is brought forward. Of one
// that is due its caller is told that nothing was done.
func TestHastenUntilTheLastMoment(t *testing.T) {
	t.Parallel()
	const rests = 5
	for left, due := range map[int64]bool{1: false, 0: true} {
		for _, own := range []bool{false, true} {
			r := newRig(t)
			row := waitingRow(r, 1, 0, rests, 0)
			if own {
				row = waitingRow(r, 1, 0, 0, r.now.wall+rests)
			}
			r.m.page(r.now)
			r.m.loaded([]store.Row{row}, false, r.now)
			r.pass(rests - left)
			r.command(doHasten, r.job(1).ID)
			p := r.next(0)
			if (p == nil) != due {
				t.Errorf("%d ms before it is due, by its own time %v: planned %+v", left, own, p)
			}
			if out := r.m.take(); due && (len(out) != 1 || out[0].kind != effAck || !out[0].duplicate) || !due && len(out) != 0 {
				t.Errorf("%d ms before it is due, by its own time %v: %+v", left, own, out)
			}
		}
	}
}

// TestWhenWaitingEnds: the next look is due when the first wait is over by the one clock, or the
// first own time has come by the other.
func TestWhenWaitingEnds(t *testing.T) {
	t.Parallel()
	now := moment{wall: 5000, mono: 100}
	resting := timing{ripe: 130}
	dated := func(own int64) timing { return timing{own: own} }
	for name, c := range map[string]struct {
		waits []timing
		want  int64
	}{
		"a wait":                        {[]timing{resting}, 30},
		"an own time":                   {[]timing{dated(5040)}, 40},
		"the wait first":                {[]timing{resting, dated(5040)}, 30},
		"the own time first":            {[]timing{resting, dated(5007)}, 7},
		"the first of own times":        {[]timing{dated(5050), dated(5009)}, 9},
		"nothing":                       {nil, math.MaxInt64},
		"what is due waits for no time": {[]timing{{}}, math.MaxInt64},
	} {
		w := newWaiting()
		for _, t := range c.waits {
			w.add(&entry{timing: t})
		}
		w.due(now)
		if left, ok := w.next(now); left != c.want || ok != (c.want < math.MaxInt64) {
			t.Errorf("%s: in %d ms, %v, want %d", name, left, ok, c.want)
		}
	}
}

// TestCallersWhoLeft are taken out of a line when they are more than half of it, and what a plan
// has passed over counts no more.
func TestCallersWhoLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	leave := func(n int) {
		for _, i := range r.m.queue.rest.next[len(r.m.queue.rest.next)-n:] {
			if !i.wait.goes() {
				t.Fatal("a caller cannot go whose job nobody has taken")
			}
			r.m.left(i)
		}
	}
	for round := range 3 {
		for n := range 10 {
			r.enqueue(100*round+n, 0)
		}
		leave(5)
		if n := r.m.queue.rest.len(); n != 10 {
			t.Fatalf("round %d: with half of 10 gone %d are in the line", round, n)
		}
		for r.m.queue.rest.len() > 0 {
			r.tick(0)
		}
	}
	for n := range 10 {
		r.enqueue(1000+n, 0)
	}
	leave(6)
	if n := r.m.queue.rest.len(); n != 4 {
		t.Errorf("with 6 of 10 gone %d are in the line", n)
	}
	leave(2)
	if n := r.m.queue.rest.len(); n != 4 {
		t.Errorf("with 2 more of 4 gone %d are in the line", n)
	}
}

// TestALookupGoesWithItsCommand: what was read for a caller who has left decides nothing for the
// next one. An enqueue that nobody waits for leaves the lookups of others alone.
func TestALookupGoesWithItsCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.job(1).ID
	first := r.command(doCancel, id)
	r.next(0)
	_, asked := r.answers()
	if asked == nil {
		t.Fatal("its rows are not asked for")
	}
	if !first.wait.goes() {
		t.Fatal("its caller cannot go")
	}
	r.next(0)
	r.command(doCancel, id)
	r.next(0)
	_, again := r.answers()
	if again == nil || again == asked {
		t.Fatal("its rows are not asked for again")
	}
	state, row := r.rowsOf(r.job(1), job.Pending, r.now.wall+5000)
	for _, failed := range []bool{false, true} {
		r.m.found(id, asked, &lookup{state: state, row: row}, failed)
		if again.done || r.m.lookups[id] != again {
			t.Errorf("what was read for the caller who left counts; failed: %v", failed)
		}
	}
	if !r.enqueue(1, 0).goes() {
		t.Fatal("the caller of an enqueue cannot go")
	}
	r.next(0)
	if r.m.lookups[id] != again {
		t.Error("an enqueue that nobody waits for took the lookup of a command along")
	}
	r.m.found(id, again, &lookup{state: state, row: row}, false)
	r.tick(0)
	r.wantAnswers("done ")
}

// someSlots is an executor with so many free slots.
type someSlots struct {
	Executor
	free int
}

func (s *someSlots) Reserve(n int) int {
	n = min(n, s.free)
	s.free -= n
	return n
}

func (s *someSlots) Release(n int) { s.free += n }

// TestReserve: who is short of slots leaves one for each other that is, and has the first one when
// it has waited longest. What nobody took is free again.
func TestReserve(t *testing.T) {
	t.Parallel()
	type ask struct{ who, wants, gets int }
	for name, c := range map[string]struct {
		free int
		asks []ask
		// left are free afterwards, short those who still want some.
		left  int
		short []int
	}{
		"enough":                         {5, []ask{{0, 2, 2}, {1, 3, 3}}, 0, nil},
		"more than enough":               {5, []ask{{0, 2, 2}, {1, 2, 2}}, 1, nil},
		"none":                           {0, []ask{{0, 1, 0}, {1, 2, 0}}, 0, []int{0, 1}},
		"too few":                        {3, []ask{{0, 5, 3}}, 0, []int{0}},
		"one is left for another":        {0, []ask{{0, 1, 0}, {9, 0, 3}, {1, 3, 2}}, 1, []int{0, 1}},
		"the first has the only one":     {0, []ask{{0, 1, 0}, {1, 1, 0}, {9, 0, 1}, {1, 1, 0}, {0, 1, 1}}, 0, []int{1}},
		"the first leaves what is more":  {0, []ask{{0, 2, 0}, {1, 2, 0}, {9, 0, 2}, {0, 2, 1}, {1, 2, 1}}, 0, []int{0, 1}},
		"alone it has all":               {0, []ask{{0, 4, 0}, {9, 0, 4}, {0, 4, 4}}, 0, nil},
		"who wants none gives its place": {0, []ask{{0, 1, 0}, {1, 1, 0}, {0, 0, 0}, {9, 0, 1}, {1, 1, 1}}, 0, nil},
	} {
		x := &someSlots{free: c.free}
		e := &Engine{o: Options{Executor: x, World: World{Clock: clock.Go()}}}
		owners := []*owner{{}, {}}
		for n, a := range c.asks {
			if a.who == 9 {
				x.free += a.gets // runs have ended
				continue
			}
			if got := e.reserve(owners[a.who], a.wants); got != a.gets {
				t.Errorf("%s, ask %d: got %d, want %d", name, n, got, a.gets)
			}
		}
		var short []int
		for _, o := range e.slots.short {
			short = append(short, slices.Index(owners, o))
		}
		if x.free != c.left || !slices.Equal(short, c.short) {
			t.Errorf("%s: %d are free, %v are short, want %d and %v", name, x.free, short, c.left, c.short)
		}
	}
}
