package lock

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"fencepost/core/store"
)

// TestShare: a process stands back after so many grants, or for so long, and not before.
func TestShare(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	for name, c := range map[string]struct {
		others  time.Duration // when another was last seen; 0: never
		grants  int           // from then on, all at once
		passed  time.Duration // since then
		waiting int
		want    bool
	}{
		"alone, nobody waits":            {0, 1000, time.Hour, 1, false},
		"alone, 63 grants":               {0, 63, 0, 2, false},
		"alone, 64 grants":               {0, 64, 0, 2, true},
		"alone, nearly 4 ttls":           {0, 1, 4*ttl - 1, 2, false},
		"alone, 4 ttls":                  {0, 1, 4 * ttl, 2, true},
		"alone, no grant":                {0, 0, time.Hour, 2, false},
		"with others, 3 grants":          {1, 3, 0, 1, false},
		"with others, 4 grants":          {1, 4, 0, 1, true},
		"with others, nearly a ttl":      {1, 1, ttl - 1, 1, false},
		"with others, a ttl":             {1, 1, ttl, 1, true},
		"others a minute ago":            {1, 4, time.Minute, 1, false},
		"others less than a minute ago":  {1, 4, time.Minute - 1, 1, true},
		"others a minute ago, they wait": {1, 63, time.Minute, 2, true}, // more than 4 ttls
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s share
			if c.others > 0 {
				s.granted(c.others)
				s.seenOther(c.others)
			}
			for range c.grants {
				s.granted(c.others)
				s.ended(c.others + 100*time.Millisecond)
			}
			b := Backoff{Max: 2 * time.Second}
			d, ok := s.standBack(c.others+c.passed, ttl, c.waiting, b)
			if ok != c.want || ok && d != 100*time.Millisecond {
				t.Errorf("%v for %s, want %v", ok, d, c.want)
			}
			if _, again := s.standBack(c.others+c.passed, ttl, c.waiting, b); ok && again {
				t.Error("it stands back twice")
			}
		})
	}
	s := share{inRow: 64, held: time.Hour}
	if d, _ := s.standBack(0, ttl, 2, Backoff{Max: 2 * time.Second}); d != time.Second {
		t.Errorf("after a long hold it stands back for %s, want an eighth of the ttl", d)
	}
}

// TestOthersSeen: another process is seen by its grants, not by a row that it has freed. What this
// process has written itself is none, and what is known already is nothing new.
func TestOthersSeen(t *testing.T) {
	t.Parallel()
	held, free := &store.Version{Fence: 1, Holder: "you"}, &store.Version{Fence: 1, Beat: 1}
	for name, c := range map[string]struct {
		known, row *store.Version
		from       source
		want       bool
	}{
		"a plain read":         {nil, held, plainRead, true},
		"a rejected request":   {free, &store.Version{Fence: 2, Holder: "you"}, conditional, true},
		"its own":              {nil, held, own, false},
		"free":                 {nil, free, plainRead, false},
		"freed":                {held, free, conditional, false},
		"absent":               {nil, nil, plainRead, false},
		"known":                {held, held, conditional, false},
		"older than the known": {free, held, plainRead, false},
	} {
		r := newResource("r")
		if c.known != nil {
			r.learn(c.known, 1, own)
		}
		r.learn(c.row, 2, c.from)
		if r.share.others != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// TestNotSent: the error of what was not sent says why, and what failed before.
func TestNotSent(t *testing.T) {
	t.Parallel()
	if err := notSent(t.Context(), io.EOF); !errors.Is(err, ErrDeadline) || !errors.Is(err, io.EOF) {
		t.Errorf("at the deadline: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrClosed)
	if err := notSent(ctx, nil); !errors.Is(err, ErrClosed) || errors.Is(err, ErrDeadline) {
		t.Errorf("when the client is closed: %v", err)
	}
}
