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
				Name: name + ".1", Queues: []engine.Queue{{Name: "q", Shards: 16}},
				Ownership: engine.Ownership{TTL: ttl}, World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Logger: quiet},
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
		var keys []string
		for i := range 16 {
			keys = append(keys, store.ShardID{Queue: "q", Shard: i}.String())
		}
		owned := func(when string, want map[string]string) {
			t.Helper()
			for i, key := range keys {
				if h, _ := s.ShardRows(store.ShardID{Queue: "q", Shard: i}); h.Owner != want[key]+".1" {
					t.Errorf("%s: shard %d is %s's, want %s's", when, i, h.Owner, want[key])
				}
			}
		}
		shares, later := member.Share(keys, names), member.Share(keys, []string{"a", "b"})
		stopA, stopB, stopC := begin("a"), begin("b"), begin("c")
		time.Sleep(ttl)
		owned("at first", shares)
		beats["b"].Cut(true)
		time.Sleep(4 * ttl)
		owned("b is silent", shares)
		beats["b"].Cut(false)
		time.Sleep(ttl)
		stopC()
		time.Sleep(ttl)
		for key, name := range shares {
			if name == "c" {
				shares[key] = later[key] // nothing else moves
			}
		}
		owned("c has left", shares)
		stopA()
		stopB()
	})
}
