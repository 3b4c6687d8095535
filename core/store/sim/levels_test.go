package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestLevels: what plain reads may hide, by their level and by how the last change was answered.
func TestLevels(t *testing.T) {
	t.Parallel()
	id := store.ShardID{Queue: "q"}
	row := func(n int64) store.Row { return store.Row{Key: store.Key{Kind: store.KindPending, At: n, ID: "j"}} }
	for name, c := range map[string]struct {
		level   sim.Level
		timeout bool // the last change's coordinator timed out
		again   bool // and another conditional request has come since
		serial  bool // or a serial read
		least   int  // rows that a scan shows
	}{
		"at QUORUM all that was answered":                {least: 6},
		"at QUORUM all but a change that timed out":      {timeout: true, least: 5},
		"at QUORUM what the next request brought there":  {timeout: true, again: true, least: 6},
		"at QUORUM what a serial read brought there":     {timeout: true, serial: true, least: 6},
		"at ONE a replica may lack what was answered":    {level: sim.One, least: 2},
		"at ONE it may lack what another request showed": {level: sim.One, timeout: true, again: true, least: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := sim.New()
				p := s.Connect("p", 1)
				p.ReadAt(sim.Levels{Rows: c.level, Inbox: c.level})
				if _, err := p.EnsureQueue(t.Context(), "q", 1); err != nil {
					t.Fatal(err)
				}
				var h store.Header
				commit := func(from store.Stamp, n int64) {
					to := store.Header{Stamp: store.Stamp{Fence: 1, Tick: n, Nonce: "n"}}
					_, err := p.Commit(t.Context(), id, store.Batch{From: from, To: to, Ops: []store.Op{{Kind: store.Put, Row: row(n)}}}, 0)
					if now, _ := s.ShardRows(id); now.Tick == n {
						h = now
					} else if err == nil && from == h.Stamp {
						t.Fatalf("change %d was not applied", n)
					}
				}
				for n := int64(1); n <= 5; n++ {
					commit(h.Stamp, n)
				}
				if c.timeout {
					p.SetFaults(sim.Faults{ServerTimeout: 1})
				}
				for h.Tick < 6 { // executed or not
					commit(h.Stamp, 6)
				}
				p.SetFaults(sim.Faults{StaleRead: 1})
				if c.again {
					commit(store.Stamp{}, 9) // is rejected
				}
				if c.serial {
					if _, err := p.Look(t.Context(), id, true); err != nil {
						t.Fatal(err)
					}
				}
				least, most := 9, 0
				for range 40 {
					rows, err := p.Scan(t.Context(), id, store.Range{Kind: store.KindPending, UpTo: 9, Limit: 9})
					if err != nil {
						t.Fatal(err)
					}
					least, most = min(least, len(rows)), max(most, len(rows))
				}
				if least != c.least || most > 6 {
					t.Errorf("%d to %d rows are shown, want at least %d", least, most, c.least)
				}
			})
		})
	}
}

// TestTwiceRefused: what was refused is not done later.
func TestTwiceRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		p := s.Connect("p", 1)
		p.SetFaults(sim.Faults{Twice: 1, LateBy: time.Second})
		if _, _, err := p.InboxPut(t.Context(), store.ShardID{Queue: "q"}, store.InboxRow{ID: "0-a", Nonce: "n"}, 0); store.OutcomeOf(err) != store.Fail {
			t.Fatal(err)
		}
		if _, err := p.EnsureQueue(t.Context(), "q", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := len(s.InboxChanges()); n != 0 {
			t.Errorf("%d rows were inserted", n)
		}
	})
}

// TestTwice: a second copy arrives later, and what it finds is nobody's answer.
func TestTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		p := s.Connect("p", 1)
		p.SetFaults(sim.Faults{Twice: 1, LateBy: time.Second})
		to := store.Version{Fence: 1, Attempt: "a", Holder: "h", TTL: time.Second}
		res, err := p.CAS(t.Context(), "r", nil, to, 0)
		if err != nil || !res.Applied || s.Met()["doubled"] != 0 {
			t.Fatal(res, err, s.Met())
		}
		time.Sleep(2 * time.Second)
		if n := len(s.Changes()); n != 1 || s.Met()["doubled"] != 1 {
			t.Errorf("%d changes, %v", n, s.Met())
		}
	})
}
