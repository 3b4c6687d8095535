package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// storm builds a legal history in which a chosen number of operations on the
// lock rows have unknown outcomes: acquires, renewals and releases, that took
// effect or did not, given up at once, only at the end of the run, or never.
type storm struct {
	h    history.History
	rng  *rand.Rand
	now  int64
	ids  map[string]int64
	late []func() // ends that come when all is over
	tick int
}

const stormTTL = 6000 // ms

func newStorm() *storm {
	s := &storm{rng: rand.New(rand.NewPCG(1, 1)), now: int64(time.Hour), ids: map[string]int64{}}
	for _, life := range []string{history.Harness, "w1.1", "w2.1", "w3.1"} {
		s.h.Headers = append(s.h.Headers, history.Header{
			Format: history.Format, Version: history.FormatVersion, Run: "storm", Proc: life, BootID: "b", WallTime: "2025-01-02T03:04:05Z", TS: 1, DriftBound: simDrift, MarginBaseMS: 20,
		})
	}
	s.event(history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteExpect, Details: &history.Details{Expect: &history.Expect{Workers: 3, Exempt: everything()}}})
	return s
}

func (s *storm) event(e history.Event) history.Event {
	s.now += 1 + s.rng.Int64N(int64(time.Millisecond))
	s.tick++
	e.TS, e.File, e.Line = s.now, history.Life(e.Proc)+".jsonl", s.tick
	s.h.Events = append(s.h.Events, e)
	return e
}

func (s *storm) client() string { return fmt.Sprintf("w%d.1/c%d", 1+s.rng.IntN(3), 1+s.rng.IntN(400)) }

func (s *storm) invoke(e history.Event) history.Event {
	life := history.Life(e.Proc)
	s.ids[life]++
	e.ID, e.Type = s.ids[life], history.Invoke
	return s.event(e)
}

func (s *storm) end(inv history.Event, e history.Event) history.Event {
	e.Proc, e.ID, e.Op, e.Key = inv.Proc, inv.ID, inv.Op, inv.Key
	return s.event(e)
}

func (s *storm) version(from history.Version, holder string) history.Version {
	v := history.Version{Fence: from.Fence + 1, Attempt: fmt.Sprintf("%016x", s.rng.Uint64()), Holder: holder, TTLMS: stormTTL}
	if holder == "" {
		v.Fence, v.Beat, v.TTLMS = from.Fence, from.Beat+1, 0
	}
	return v
}

func (s *storm) cas(proc string, op history.Op, lock string, from, to history.Version) history.Event {
	return s.invoke(history.Event{Proc: proc, Op: op, Key: lock, From: &from, To: &to})
}

func (s *storm) ok(inv history.Event) {
	s.end(inv, history.Event{Type: history.OK, Sends: []int64{inv.TS}})
}

// unsure ends an operation as unknown: now, when all is over, or never.
func (s *storm) unsure(inv history.Event) {
	end := func() {
		s.end(inv, history.Event{Type: history.Unknown, Error: "timeout", ServerTimeout: s.rng.IntN(2) == 0, Sends: []int64{inv.TS}})
	}
	switch s.rng.IntN(3) {
	case 0:
		end()
	case 1:
		s.late = append(s.late, end)
	}
}

// acquire is a client's whole call that succeeds.
func (s *storm) acquire(proc, lock string, from history.Version) history.Version {
	to := s.version(from, proc)
	call := s.invoke(history.Event{Proc: proc, Op: history.OpLock, Key: lock})
	s.ok(s.cas(proc, history.OpAcquire, lock, from, to))
	s.end(call, history.Event{Type: history.OK, Token: to.Fence})
	return to
}

// lock runs one lock with n unknown outcomes and returns its row.
func (s *storm) lock(name string, n int, plant func(from history.Version)) {
	row := history.Version{Absent: true}
	for i := range n {
		me, other := s.client(), s.client()
		if i == n/2 && plant != nil {
			plant(row)
		}
		tried := s.version(row, other)
		switch s.rng.IntN(5) {
		case 0: // an acquire that lost the race
			s.unsure(s.cas(other, history.OpAcquire, name, row, tried))
		case 1: // an acquire that took effect, and nobody knew
			s.unsure(s.cas(other, history.OpAcquire, name, row, tried))
			row = tried
			s.now += 2 * stormTTL * int64(time.Millisecond)
		case 2: // a release that was lost
			row = s.acquire(me, name, row)
			s.unsure(s.cas(me, history.OpRelease, name, row, s.version(row, "")))
			s.now += 2 * stormTTL * int64(time.Millisecond)
		case 3: // a release that took effect
			row = s.acquire(me, name, row)
			free := s.version(row, "")
			s.unsure(s.cas(me, history.OpRelease, name, row, free))
			row = free
		case 4: // a renewal that took effect; the holder stops
			row = s.acquire(me, name, row)
			next := row
			next.Beat++
			s.unsure(s.cas(me, history.OpRenew, name, row, next))
			row = next
			s.now += 2 * stormTTL * int64(time.Millisecond)
		}
		me = s.client()
		row = s.acquire(me, name, row)
		free := s.version(row, "")
		s.ok(s.cas(me, history.OpRelease, name, row, free))
		row = free
	}
	seal := history.Version{Fence: row.Fence + 1, Attempt: name + "-seal"}
	s.late = append(s.late, func() { s.ok(s.cas(history.Harness, history.OpSeal, name, row, seal)) })
}

// finish records the late ends, the seals and the death of all lives: what has no end
// was on its way then.
func (s *storm) finish() *history.History {
	for _, end := range s.late {
		end()
	}
	for _, head := range s.h.Headers[1:] {
		s.event(history.Event{Proc: head.Proc, Type: history.Note, Op: history.NoteCrash})
	}
	return newEdit(&s.h).h
}

// TestManyUnknownsHideNothing: 1,476 operations without a known outcome, most of
// them on one lock. One planted bug is found and named, within the child's
// limits of memory and within seconds; without it the run passes.
func TestManyUnknownsHideNothing(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	const lock = "lock-0"
	for _, tc := range []struct {
		name  string
		plant func(s *storm, from history.Version) history.Event // returns an event that must be shown
		fails []string
		says  string
	}{
		{"legal", nil, nil, ""},
		{"two clients are granted the lock at once", func(s *storm, from history.Version) history.Event {
			// Both on the one version; the row's chain goes on with neither.
			s.acquire("w1.1/c900", lock, from)
			to := s.version(from, "w2.1/c900")
			call := s.invoke(history.Event{Proc: "w2.1/c900", Op: history.OpLock, Key: lock})
			inv := s.cas("w2.1/c900", history.OpAcquire, lock, from, to)
			s.ok(inv)
			s.end(call, history.Event{Type: history.OK, Token: to.Fence})
			return inv
		}, []string{"P1", "P2", "P6", "P8"}, "w2.1/c900"},
		{"a SERIAL read of a row that had been left", func(s *storm, from history.Version) history.Event {
			s.now += int64(time.Second)
			inv := s.invoke(history.Event{Proc: "w1.1/c900", Op: history.OpRead, Key: lock})
			s.end(inv, history.Event{Type: history.OK, Row: ptr(history.Version{Absent: true}), Sends: []int64{inv.TS}})
			return inv
		}, []string{"P2"}, "stale SERIAL read"},
		{"a rejection that shows a row that had been left", func(s *storm, from history.Version) history.Event {
			inv := s.cas("w1.1/c900", history.OpAcquire, lock, from, s.version(from, "w1.1/c900"))
			s.end(inv, history.Event{Type: history.Fail, Row: ptr(history.Version{Absent: true}), Sends: []int64{inv.TS}})
			return inv
		}, []string{"P2"}, "stale rejection"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStorm()
			var planted history.Event
			var plant func(history.Version)
			if tc.plant != nil {
				plant = func(from history.Version) { planted = tc.plant(s, from) }
			}
			s.lock(lock, 1000, plant)
			for i, n := range []int{200, 200, 50, 25, 1} {
				s.lock(fmt.Sprintf("lock-%d", i+1), n, nil)
			}
			h := s.finish()
			o := childOptions()
			r, err := o.CheckInChild(context.Background(), os.Args[0], writeFiles(t, h, t.TempDir())...)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d events, %.1f s: %s: %s", r.Counts.Events, r.Millis/1000, r.Verdict, r.Summary)
			if r.Counts.Unknowns != 1476 || r.Counts.UnknownSettled != 1476 {
				t.Errorf("%d unknown outcomes, %d settled, want 1476", r.Counts.Unknowns, r.Counts.UnknownSettled)
			}
			for _, p := range r.Properties {
				if p.Status == StatusUnknown {
					t.Errorf("%s is unknown: %s", p.ID, p.Detail)
				}
			}
			if tc.plant == nil {
				if r.Verdict != Pass {
					t.Errorf("%s: %s", r.Verdict, r.Summary)
				}
				return
			}
			if ids := failing(r); r.Verdict != Fail || !slices.Equal(ids, tc.fails) {
				t.Errorf("%s, failing %v, want %v", r.Verdict, ids, tc.fails)
			}
			if !slices.ContainsFunc(propertyOf(r, "P2").Violations, func(v Violation) bool {
				return v.Key == lock && strings.Contains(v.Message, tc.says) && slices.ContainsFunc(v.Events, func(ref EventRef) bool { return ref.Event.ID == planted.ID && ref.Event.Proc == planted.Proc })
			}) {
				t.Errorf("no violation of P2 shows id %d of %s: %+v", planted.ID, planted.Proc, propertyOf(r, "P2").Violations)
			}
		})
	}
}
