package sim_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestDeadRows: a scan fails that passes more deleted rows than MaxDead, until a range
// deletion stands for them, or rows are there again.
func TestDeadRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		s.MaxDead = 3
		p, id := s.Connect("p", 1), store.ShardID{Queue: "q"}
		if _, err := p.EnsureQueue(t.Context(), "q", 1); err != nil {
			t.Fatal(err)
		}
		tick := int64(0)
		commit := func(kind store.OpKind, ats ...int64) {
			b := store.Batch{From: store.Stamp{Tick: tick, Nonce: nonce(tick)}}
			tick++
			b.To.Stamp = store.Stamp{Tick: tick, Nonce: nonce(tick)}
			for _, at := range ats {
				b.Ops = append(b.Ops, store.Op{Kind: kind, Row: store.Row{Key: store.Key{Kind: store.KindDLQ, At: at, ID: "a"}}})
			}
			if res, err := p.Commit(t.Context(), id, b, 0); err != nil || !res.Applied {
				t.Fatal(res, err)
			}
		}
		scan := func(what string, after, upTo int64, limit, want int) {
			t.Helper()
			rows, err := p.Scan(t.Context(), id, store.Range{Kind: store.KindDLQ, AfterAt: after, AfterID: "\x7f", UpTo: upTo, Limit: limit})
			if failed := errors.Is(err, sim.ErrDead); failed != (want < 0) || !failed && (err != nil || len(rows) != want) {
				t.Errorf("%s: %d rows, %v", what, len(rows), err)
			}
		}
		commit(store.Put, 1, 2, 3, 4, 5, 6)
		commit(store.Delete, 2, 3, 4, 5)
		scan("all", 0, 9, 9, -1)
		scan("behind the first of them", 2, 9, 9, 1)
		scan("before the last of them", 0, 4, 9, 1)
		scan("a page that is full before", 0, 9, 1, 1)
		commit(store.Put, 3)
		scan("one is there again", 0, 9, 9, 3)
		commit(store.Delete, 3)
		commit(store.DeleteUpTo, 4)
		scan("a range deletion", 0, 9, 9, 1)
		if n := len(s.Overrun()); n != 1 {
			t.Errorf("%d scans failed", n)
		}

		for n := range 4 {
			r := store.InboxRow{ID: fmt.Sprint(n), Nonce: "n"}
			if _, _, err := p.InboxPut(t.Context(), id, r, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := p.InboxDelete(t.Context(), id, r.ID, r.Nonce, 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.InboxScan(t.Context(), id, "", store.AboveAll, 9); !errors.Is(err, sim.ErrDead) {
			t.Errorf("an inbox of deleted rows: %v", err)
		}
		if _, err := p.InboxScan(t.Context(), id, "0", store.AboveAll, 9); err != nil {
			t.Errorf("behind the first of them: %v", err)
		}
	})
}

func nonce(tick int64) string {
	if tick == 0 {
		return ""
	}
	return fmt.Sprint("n", tick)
}
