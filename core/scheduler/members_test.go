package scheduler_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/member"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestMembersShareTheShards: schedulers that see each other take what they are first
// for. What one that stops gives away the others take at once; what one that falls
// silent has they leave alone while it ticks.
func TestMembersShareTheShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		s := sim.New()
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		names := []string{"a", "b", "c"}
		beats := map[string]*sim.Session{}
		begin := func(name string) (stop func()) {
			beats[name] = s.Connect(name+" beats", 1)
			group, err := member.New(member.Options{Store: beats[name], Cell: "q", Name: name, Expected: names, TTL: ttl, Clock: clock.Go(), Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			sch, err := scheduler.New(scheduler.Options{Shards: s.Connect(name, 1), Members: group, Engine: engine.Options{
				Name: name + ".1", Queues: []engine.Queue{{Name: "q", Shards: 16}}, TTL: ttl, Clock: clock.Go(), Logger: quiet,
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				if err := sch.Run(ctx); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				close(done)
			}()
			return func() { cancel(); <-done }
		}
		owned := func(when string, present ...string) {
			t.Helper()
			for i := range 16 {
				id := store.ShardID{Queue: "q", Shard: i}
				h, _ := s.ShardRows(id)
				for _, name := range present {
					if first := member.Rank(id.String(), name, present) == 0; first != (h.Owner == name+".1") {
						t.Errorf("%s: shard %d is %s's; %s is its first: %v", when, i, h.Owner, name, first)
					}
				}
			}
		}
		stopA, stopB, stopC := begin("a"), begin("b"), begin("c")
		time.Sleep(ttl)
		owned("at first", names...)
		beats["b"].Cut(true)
		time.Sleep(4 * ttl)
		owned("b is silent", names...)
		beats["b"].Cut(false)
		time.Sleep(ttl)
		stopC()
		time.Sleep(ttl)
		owned("c has left", "a", "b")
		stopA()
		stopB()
	})
}
