package workload

import (
	"errors"
	"testing"
	"testing/synctest"

	"fencepost/harness/record/history"
)

// TestPausesQueue: one command on a queue is recorded of each of its shards, from before it is given,
// and each is told what the answer says of it.
func TestPausesQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, down := 0, errors.New("down")
		d := &desk{answer: func(string) error {
			if calls++; calls == 3 {
				return down
			}
			return nil
		}}
		c, rec := commanded(d)
		if err := c.queue(t.Context(), "q", true); !errors.Is(err, down) {
			t.Errorf("told %v", err)
		}
		if len(rec.events) != 8 || calls != 4 {
			t.Fatalf("%d commands, recorded %+v", calls, rec.events)
		}
		for i, e := range rec.events {
			want := history.OK
			switch {
			case i < 4:
				want = history.Invoke
			case e.Key == "shard/q/2":
				want = history.Unknown
			}
			if e.Type != want || i < 4 && (!e.Command().Whole || e.Command().Do != history.DoPause || e.Command().Shard != e.Key) {
				t.Errorf("recorded %+v, want %s", e, want)
			}
		}
	})
}
